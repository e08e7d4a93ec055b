"""Markov logic."""
