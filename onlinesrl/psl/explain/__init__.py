"""Why PSL infers what it infers."""
