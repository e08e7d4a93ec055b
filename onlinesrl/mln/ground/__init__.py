"""Grounding Markov logic: programs and examples into networks."""
