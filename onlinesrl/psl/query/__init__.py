"""One world of PSL: loaded, ground, asked."""
