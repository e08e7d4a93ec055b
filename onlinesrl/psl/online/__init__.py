"""Online learning of PSL."""
