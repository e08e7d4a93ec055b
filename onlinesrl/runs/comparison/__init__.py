"""Comparing and tuning configurations: trained on some examples, scored on others."""
