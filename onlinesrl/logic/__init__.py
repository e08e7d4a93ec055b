"""Shared by both languages: formulas, clauses, spelling, parsing, databases."""
