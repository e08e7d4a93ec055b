"""Random numbers for kernels: a generator whose state is one number."""

from __future__ import annotations

import numpy as np

from onlinesrl.core.jit.decorators import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S27, S30, S31, S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
Generator = np.ndarray[tuple[int], np.dtype[np.uint64]]
"""The state of a random number generator, uint64[1]."""


def generator(seed: int, record: int = 0, chain: int = 0) -> Generator:
    """Return a generator whose numbers depend on the seed and the record's and chain's numbers alone."""
    mixed = np.random.SeedSequence((seed, record, chain)).generate_state(1, np.uint64)
    return np.asarray(mixed, np.uint64)


@kernel
def uniform(rng: Generator) -> float:
    """Draw from [0, 1): splitmix64 (Steele, Lea & Flood 2014)."""
    rng[0] += GOLDEN
    z = rng[0]
    z = (z ^ (z >> S30)) * MIX_1
    z = (z ^ (z >> S27)) * MIX_2
    return float((z ^ (z >> S31)) >> S11) * 2.0**-53


@kernel
def below(rng: Generator, n: int) -> int:
    """Draw from 0 .. n - 1."""
    return int(uniform(rng) * n)
