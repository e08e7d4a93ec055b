"""Inference in Markov logic: most probable states and marginals."""
