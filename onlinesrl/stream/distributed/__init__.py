"""Learning in rounds of shards, on several workers."""
