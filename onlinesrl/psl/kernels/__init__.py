"""Compiled inner loops of PSL."""
