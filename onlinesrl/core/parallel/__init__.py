"""Threads, processes, and workers of a cluster."""
