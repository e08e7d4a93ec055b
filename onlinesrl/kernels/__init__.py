"""Functions of arrays, compiled by numba, and nothing else."""
