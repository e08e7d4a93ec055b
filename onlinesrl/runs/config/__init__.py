"""The configuration of runs."""
