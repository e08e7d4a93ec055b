"""Streams of examples: reading them, what a run writes, and going on where it stopped."""
