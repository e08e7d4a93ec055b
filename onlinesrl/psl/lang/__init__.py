"""Reading PSL: rules, data and models."""
