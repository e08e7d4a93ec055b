"""Grounding: a rule is compiled once into a plan, and the plan run in every world."""
