"""Grounding PSL: programs and databases into hinge-loss models."""
