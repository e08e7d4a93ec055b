"""Explanations of the predictions of Markov logic."""
