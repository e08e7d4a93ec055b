"""Readers of Markov logic files: programs, clauses and weights."""
