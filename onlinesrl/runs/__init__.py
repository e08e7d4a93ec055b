"""Running: a configuration, its parts put together, and what is shown and written."""
