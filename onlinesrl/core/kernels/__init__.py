"""Kernels that both languages call."""
