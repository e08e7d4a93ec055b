"""Kernels of sources."""
