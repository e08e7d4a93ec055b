"""Rules, data and models of PSL."""
