"""Kernels that both languages use."""
