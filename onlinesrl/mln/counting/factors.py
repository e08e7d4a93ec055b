"""Sparse factors: integer functions of constants that are zero but for some rows; their joins and sums.

Values are int64 as long as they surely fit, else Python's integers in arrays of objects: always exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from onlinesrl.core.arrays import Ints

Values = npt.NDArray[Any]
"""int64, or Python's integers."""

CHUNK = 1 << 21
"""A join is made in parts of about so many rows."""
MAX_ROWS = 1 << 26
"""The most rows of a factor."""
_FITS = 1 << 62


class TooLarge(ValueError):
    """A count needs more memory than it may have; the second argument says what to do instead."""


class Sparse:
    """Distinct ``rows`` (int64[n, k]) and their ``values`` ([n]); remembers how it was sorted."""

    def __init__(self, rows: Ints, values: Values | None = None) -> None:
        self.rows = rows
        self.values: Values = np.ones(len(rows), np.int64) if values is None else values
        self._sorted: dict[tuple[int, ...], tuple[Ints, Ints]] = {}

    def sorted_by(self, columns: tuple[int, ...], base: int) -> tuple[Ints, Ints]:
        """Return the order by some columns, and their keys in it."""
        if columns not in self._sorted:
            keys = keys_of(self.rows[:, columns], base)
            order = np.argsort(keys, kind="stable")
            self._sorted[columns] = order, keys[order]
        return self._sorted[columns]


class Factor(NamedTuple):
    """A sparse function of the variables in ``scope``, one for each column."""

    scope: tuple[str, ...]
    of: Sparse


def nonzero(factor: Factor) -> Factor:
    """Return a factor without rows of the value 0."""
    places = factor.of.values != 0
    return Factor(factor.scope, Sparse(factor.of.rows[places], factor.of.values[places]))


def times(a: Values, b: Values) -> Values:
    """Return the products."""
    return a.astype(object) * b if largest(a) * largest(b) >= _FITS else a * b


def largest(values: Values) -> int:
    """Return the largest magnitude; 0 of none."""
    return int(np.abs(values).max()) if values.size else 0


def join(a: Factor, b: Factor, base: int) -> Iterator[Factor]:
    """Yield the product of two factors in parts; constants are below ``base``."""
    shared = [v for v in a.scope if v in b.scope]
    extra = [j for j, v in enumerate(b.scope) if v not in a.scope]
    scope = (*a.scope, *(b.scope[j] for j in extra))
    left_columns, right_columns = (tuple(map(f.scope.index, shared)) for f in (a, b))
    if base ** len(shared) < _FITS:
        order, right = b.of.sorted_by(right_columns, base)
        left = keys_of(a.of.rows[:, left_columns], base)
    else:
        all_keys = np.concatenate([a.of.rows[:, left_columns], b.of.rows[:, right_columns]])
        left, right = np.split(keys_of(all_keys, base), [len(a.of.rows)])
        order = np.argsort(right, kind="stable")
        right = right[order]
    first = np.searchsorted(right, left, "left")
    count = np.searchsorted(right, left, "right") - first
    ends = np.cumsum(count)
    cuts = np.searchsorted(ends, np.arange(CHUNK, int(ends[-1]) if len(ends) else 0, CHUNK))
    for start, stop in pairwise(dict.fromkeys([0, *cuts.tolist(), len(count)])):
        number = count[start:stop]
        i = np.repeat(np.arange(start, stop), number)
        shift = first[start:stop] - np.cumsum(number) + number
        j = order[np.arange(len(i)) + np.repeat(shift, number)]
        rows = np.concatenate([a.of.rows[i], b.of.rows[j][:, extra]], axis=1)
        yield Factor(scope, Sparse(rows, times(a.of.values[i], b.of.values[j])))


def keys_of(rows: Ints, base: int) -> Ints:
    """Return a number for each row, equal where the rows are; constants are below ``base``."""
    width = rows.shape[1]
    if base**width >= _FITS:
        inverse: Ints = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        return inverse
    powers = np.array([base**k for k in range(width)], np.int64)
    keys: Ints = rows @ powers
    return keys


def project(factor: Factor, scope: tuple[str, ...], base: int) -> Factor:
    """Return the factor summed over all variables but those of ``scope``."""
    rows, values = factor.of.rows[:, [*map(factor.scope.index, scope)]], factor.of.values
    if len(scope) == len(factor.scope) or not len(rows):
        return Factor(scope, Sparse(rows, values))
    bound = largest(values) * len(values)
    values = values.astype(object) if bound >= _FITS else values
    if not scope:
        total = np.array([values.sum()], values.dtype)
        return Factor(scope, Sparse(rows[:1], total))
    keys, cells = keys_of(rows, base), base ** len(scope)
    dense = cells < _FITS and cells <= 4 * len(keys)  # where keys are numbers in this base
    if dense and bound < 1 << 53:  # sums of floats are exact here
        sums = np.bincount(keys, values.astype(np.float64), cells)
        occupied = np.flatnonzero(sums)
        powers = np.array([base**k for k in range(len(scope))], np.int64)
        return Factor(
            scope, Sparse(occupied[:, None] // powers % base, sums[occupied].astype(np.int64))
        )
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return Factor(scope, Sparse(rows[order[starts]], np.add.reduceat(values[order], starts)))


def summed(parts: Sequence[Factor], scope: tuple[str, ...], base: int) -> Factor:
    """Return the sum of factors of the same scope, in any order of the variables.

    Raises TooLarge.
    """
    rows = [part.of.rows[:, [*map(part.scope.index, scope)]] for part in parts]
    # project sums only where a variable goes: a column of zeros does
    stacked = np.concatenate([np.zeros((0, len(scope)), np.int64), *rows])
    values = np.concatenate([np.zeros(0, np.int64), *(part.of.values for part in parts)])
    column = np.zeros((len(stacked), 1), np.int64)
    beside = Sparse(np.concatenate([stacked, column], axis=1), values)
    total = project(Factor((*scope, ""), beside), scope, base)
    if len(total.of.rows) > MAX_ROWS:
        reason = f"a factor of {', '.join(scope)} has more than {MAX_ROWS:,} rows"
        raise TooLarge(reason, "estimate it: --method ijgp --i-bound 2")
    return total


def eliminated(parts: Sequence[Factor], scope: tuple[str, ...], base: int) -> Factor:
    """Return the product of some factors, summed over all variables but those of ``scope``.

    Raises TooLarge.
    """
    first, *rest = _in_order(parts)
    projected: list[Factor] = []
    for part in _joined(first, rest, base):
        projected.append(project(part, scope, base))
        if sum(len(factor.of.rows) for factor in projected) > 4 * CHUNK:
            projected = [summed(projected, scope, base)]
    return projected[0] if len(projected) == 1 else summed(projected, scope, base)


def _joined(factor: Factor, rest: Sequence[Factor], base: int) -> Iterator[Factor]:
    if not rest:
        yield factor
        return
    for part in join(factor, rest[0], base):
        yield from _joined(part, rest[1:], base)


def _in_order(parts: Sequence[Factor]) -> list[Factor]:
    """Begin with the smallest factor; go on with those that add least, which filter what comes after."""
    remaining = sorted(parts, key=lambda factor: len(factor.of.rows))
    ordered = [remaining.pop(0)]
    variables = {*ordered[0].scope}
    while remaining:
        best = min(
            remaining,
            key=lambda factor: (not variables & {*factor.scope}, len({*factor.scope} - variables)),
        )
        remaining.remove(best)
        ordered.append(best)
        variables |= {*best.scope}
    return ordered
