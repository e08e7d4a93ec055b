"""Queries of one world of Markov logic: loading, grounding, inference."""
