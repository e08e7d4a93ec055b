"""What both languages share: formulas, clauses, spelling, files of rules and databases."""
