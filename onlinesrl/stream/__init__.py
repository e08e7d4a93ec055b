"""Streams of examples: sources, sinks, the trainer, and checkpoints to resume from."""
