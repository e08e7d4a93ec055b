"""Online learning of Markov logic."""
