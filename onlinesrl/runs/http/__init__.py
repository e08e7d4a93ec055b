"""HTTP: answers, metrics and health of a run."""
