"""Streams of examples: sources, sinks, the learning loop, and checkpoints to resume from."""
