"""Compilation of kernels."""
