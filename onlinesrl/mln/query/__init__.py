"""One world of Markov logic: loaded, ground, asked."""
