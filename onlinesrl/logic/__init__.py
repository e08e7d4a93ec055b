"""Logic that Markov logic and PSL share: formulas, clauses, spelling, parsing, databases."""
