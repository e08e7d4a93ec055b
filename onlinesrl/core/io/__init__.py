"""Files: checkpoints, configurations, atomic writes."""
