"""MAP engines: what maximises the score of a ground model."""
