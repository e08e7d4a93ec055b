"""The version of the package, which checkpoints and weights name."""

__version__ = "0.2.0"
