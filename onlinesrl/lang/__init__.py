"""Reading the languages: Markov logic files into programs, clauses, and databases."""
