"""A plain lazy integer program: HiGHS, and only those rows that a solution was found to violate."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import highspy
import numpy as np

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Columns and factors, a line of each a row of the program, and what each row may be at most."""
Violated = Callable[[np.ndarray], Iterator[Rows]]
MOST = 5_000
"""Rows that are added at a time."""


def maximum(gain: np.ndarray, violated: Violated) -> tuple[float, int]:
    """Return the greatest gain of binary columns that violate no row, and how many rows it took.

    The linear relaxation comes first, integrality when that violates nothing.
    """
    solver, n, integer, count = highspy.Highs(), len(gain), False, 0
    solver.silent()
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.addVars(n, np.zeros(n), np.ones(n))
    every = np.arange(n, dtype=np.int32)
    solver.changeColsCost(n, every, gain)
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    while True:
        solver.run()
        assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        x = np.array(solver.getSolution().col_value)
        before = count
        for columns, factors, most in violated(x):
            k, width = columns.shape
            start = np.arange(k, dtype=np.int32) * width
            flat = columns.ravel().astype(np.int32), factors.ravel().astype(float)
            solver.addRows(k, np.full(k, -np.inf), most.astype(float), k * width, start, *flat)
            count += k
        if count > before:
            continue
        if integer or np.abs(x - np.rint(x)).max() < 1e-6:
            return float(gain @ np.rint(x)), count
        solver.changeColsIntegrality(n, every, np.full(n, highspy.HighsVarType.kInteger))
        integer = True


def worst(excess: np.ndarray) -> np.ndarray:
    """Return the places of what is in excess, the most excessive first, so many at most."""
    places = np.flatnonzero(excess.ravel() > 1e-6)
    return places[np.argsort(-excess.ravel()[places], kind="stable")][:MOST]


def sides(n: int) -> np.ndarray:
    """Return the column of each pair of ``n`` items in either direction; the diagonal is not used."""
    number = np.zeros((n, n), np.int64)
    number[np.triu_indices(n, 1)] = np.arange(n * (n - 1) // 2)
    return np.maximum(number, number.T)


def clustering(similarity: np.ndarray) -> tuple[float, int]:
    """Maximise the similarity of pairs that are the same; of two sides of a triangle the third follows."""
    n = len(similarity)
    number = sides(n)

    def violated(x: np.ndarray) -> Iterator[Rows]:
        same = x[number]
        np.fill_diagonal(same, 0.0)
        found = [np.zeros((0, 3), np.int64)]
        excess = [np.zeros(0)]
        for b in range(n):
            over = np.triu(same[:, b, None] + same[b] - same - 1.0, 1)
            over[b] = over[:, b] = 0.0
            a, c = np.divmod(worst(over), n)
            found.append(np.stack([number[a, b], number[b, c], number[a, c]], 1))
            excess.append(over[a, c])
        columns = np.concatenate(found)[worst(np.concatenate(excess))]
        yield columns, np.tile([1.0, 1.0, -1.0], (len(columns), 1)), np.ones(len(columns))

    return maximum(similarity[np.triu_indices(n, 1)], violated)


def linear_order(gain: np.ndarray) -> tuple[float, int]:
    """Maximise the gain of pairs in order; three items are in no circle."""
    n = len(gain)
    number = sides(n)

    def violated(x: np.ndarray) -> Iterator[Rows]:
        first = np.triu(x[number], 1)
        first += np.tril(1.0 - x[number], -1)
        over = (
            first[:, :, None] + first[None] + first.T[:, None] - 2.0
        )  # a before b before c before a
        place = np.arange(n)
        over[(place[:, None] > place)[:, :, None] | (place[:, None] > place)[:, None]] = (
            0.0  # rotations
        )
        a, b, c = np.unravel_index(worst(over), over.shape)
        upward = np.stack([a < b, b < c, c < a], 1)
        columns = np.stack([number[a, b], number[b, c], number[c, a]], 1)
        yield columns, np.where(upward, 1.0, -1.0), 2.0 - (~upward).sum(1)

    upper = np.triu_indices(n, 1)
    value, count = maximum(gain[upper] - gain.T[upper], violated)
    return value + float(gain.T[upper].sum()), count


def matching(gain: np.ndarray) -> tuple[float, int]:
    """Maximise the gain of pairs; each item of either side is in one at most."""
    n = len(gain)
    number = np.arange(n * n).reshape(n, n)
    both = np.concatenate([number, number.T])

    def violated(x: np.ndarray) -> Iterator[Rows]:
        columns = both[worst(x[both].sum(1) - 1.0)]
        yield columns, np.ones(columns.shape), np.ones(len(columns))

    return maximum(gain.ravel(), violated)


def denial(code: np.ndarray, city: np.ndarray) -> tuple[float, int]:
    """Maximise the gain of a code and a city a row; rows of one code have one city."""
    n, k = code.shape
    m = city.shape[1]
    left = np.arange(n * k).reshape(n, k)
    right = n * k + np.arange(n * m).reshape(n, m)

    def violated(x: np.ndarray) -> Iterator[Rows]:
        for cells in (left, right):
            total = x[cells].sum(1)
            for sign in (1.0, -1.0):  # at most one, and at least one
                columns = cells[worst(sign * (total - 1.0))]
                yield columns, np.full(columns.shape, sign), np.full(len(columns), sign)
        over = (x[left][:, None] + x[left])[:, :, :, None, None] - 3.0
        over = over + (x[right][:, None, None, :, None] + x[right][None, :, None, None])
        over[np.tril_indices(n)] = 0.0
        over[:, :, :, np.arange(m), np.arange(m)] = 0.0
        r, s, z, a, b = np.unravel_index(worst(over), over.shape)
        columns = np.stack([left[r, z], left[s, z], right[r, a], right[s, b]], 1)
        yield columns, np.ones(columns.shape), np.full(len(columns), 3.0)

    return maximum(np.concatenate([code.ravel(), city.ravel()]), violated)
