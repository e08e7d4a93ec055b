"""Batch learners of the weights of PSL's rules."""
