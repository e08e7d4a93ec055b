"""Batch learners of the weights of Markov logic."""
