"""Online learning of Markov logic weights from streams of structured, relational examples."""

__version__ = "0.1.0"
