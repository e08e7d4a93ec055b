"""Why Markov logic predicts what it predicts."""
