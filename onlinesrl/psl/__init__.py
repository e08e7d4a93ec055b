"""Probabilistic soft logic."""
