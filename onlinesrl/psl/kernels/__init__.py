"""The hot loops of PSL, as compiled functions of arrays."""
