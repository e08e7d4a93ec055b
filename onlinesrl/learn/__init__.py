"""Learning = rival x update, over sparse averaged weights."""
