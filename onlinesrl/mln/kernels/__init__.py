"""The hot loops of Markov logic, as compiled functions of arrays."""
