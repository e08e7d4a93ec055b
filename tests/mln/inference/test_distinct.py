"""Clauses that are equal once rewritten: the kernel against dictionaries."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.mln.kernels.clause_merging import NONE, distinct, distinguish

ATOMS = 5
LITERALS = st.integers(1, ATOMS).flatmap(lambda a: st.sampled_from([a, -a]))
CLAUSES = st.lists(st.lists(LITERALS, max_size=5), max_size=12)
NAMES = st.lists(
    st.integers(1, ATOMS + 1).flatmap(lambda a: st.sampled_from([a, -a])),
    min_size=ATOMS,
    max_size=ATOMS,
)


def plain(clauses, names):
    """The clauses that differ, and of each of all the one that it became, with its sign."""
    true, rows, found = ATOMS + 1, dict[tuple[int, ...], int](), list[tuple[int, int]]()
    for clause in clauses:
        named = {names[abs(x) - 1] * (1 if x > 0 else -1) for x in clause} - {-true}
        if true in named or not named or any(-x in named for x in named):
            found.append((NONE, 1))
            continue
        key, sign = tuple(sorted(named)), 1
        if len(key) == 1 and key[0] < 0:
            key, sign = (-key[0],), -1
        found.append((rows.setdefault(key, len(rows)), sign))
    return [*rows], found


@given(CLAUSES, NAMES)
def test_equal_clauses_are_one(clauses, names):
    start = np.cumsum([0, *map(len, clauses)])
    literal = np.array([x for clause in clauses for x in clause], np.int32)
    of = distinct(len(clauses), len(literal))
    n = distinguish(start, literal, np.array([0, *names, ATOMS + 1]), of)

    rows, found = plain(clauses, names)
    each = zip(of.start[:n].tolist(), of.start[1 : n + 1].tolist(), strict=True)
    assert [tuple(of.literal[i:j].tolist()) for i, j in each] == rows
    assert [*zip(of.row.tolist(), of.sign.tolist(), strict=True)] == found
