"""The hash table from template constants to blocks of weights, against a dict."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.mln.kernels import weight_lookup as k

SIZES = np.array([1, 3, 2], np.int32)
DEFAULTS = np.array([0.0, 0.5, -1.0])


def table(weights: int, slots: int) -> k.Weights:
    """An empty table with room for so many weights, two template constants a key."""
    return k.Weights(
        np.zeros((weights, 3)),
        np.zeros(weights, np.int64),
        np.zeros(weights),
        np.zeros(weights, np.int32),
        np.zeros(weights, np.int64),
        np.zeros((weights, 3), np.int32),
        np.zeros(weights, np.int64),
        np.full(slots, -1, np.int32),
        np.zeros(2, np.int64),
        SIZES,
        np.ones(3, np.uint8),
        DEFAULTS,
    )


keys = st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 6) | st.just(2**31 - 1))


def found(weights: k.Weights, key: tuple[int, int, int]) -> int | None:
    """The first weight of a key's block."""
    at = k.find_slot(weights, key[0], np.array(key[1:], np.int32))
    block = weights.slot[at]
    return int(weights.block[block]) if block >= 0 else None


@given(st.lists(keys, max_size=60), st.integers(0, 60))
def test_the_table_is_a_dict(added, rehashed_after):
    weights, expected = table(256, 128), {}
    for n, key in enumerate(added):
        assert found(weights, key) == expected.get(key)
        if key not in expected:
            row = np.array(key[1:], np.int32)
            expected[key] = sum(int(SIZES[c]) for c, _, _ in expected)
            at = k.find_slot(weights, key[0], row)
            assert k.add_block(weights, at, key[0], row) == expected[key]
        if n == rehashed_after:
            weights = replace(weights, slot=np.full(512, -1, np.int32))
            k.rehash(weights)

    assert weights.size.tolist() == [sum(int(SIZES[c]) for c, _, _ in expected), len(expected)]
    for key, first in expected.items():
        assert found(weights, key) == first
        block = weights.value[first : first + SIZES[key[0]], 0]
        assert np.all(block == DEFAULTS[key[0]])


@pytest.mark.parametrize(("weights", "slots"), [(8, 128), (64, 16)])
def test_a_full_table_takes_nothing_and_says_so(weights, slots):
    """Weights run out at eight; of sixteen slots half may be taken."""
    full = table(weights, slots)
    taken = 0
    while True:
        row = np.array([taken, 1], np.int32)
        at = k.find_slot(full, 0, row)
        if k.add_block(full, at, 0, row) < 0:
            break
        taken += 1

    assert taken == 8
    assert full.size.tolist() == [taken, taken]
    assert found(full, (0, taken, 1)) is None
