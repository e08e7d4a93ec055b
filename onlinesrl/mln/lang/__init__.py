"""Reading Markov logic: files into programs, clauses and weights."""
