"""Hits, false alarms and misses; the confusion matrix for ``metrics.by``, with one class per unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Bools, Ints
from onlinesrl.core.io.restoring import Natural, converted

NONE = "none"
"""The class of a unit without a true (or predicted) atom; while counting it is None.

Where a class is called so, this one stands in parentheses.
"""
CELLS = 10_000
"""A matrix with more distinct pairs than this is dropped, to bound memory."""

Pair: TypeAlias = tuple[str | None, str | None]
"""The true class and the predicted one; None: the unit has none."""
_Rows: TypeAlias = list[tuple[str | None, str | None, Natural]] | None


MarkedAtom: TypeAlias = tuple[tuple[str, ...], bool, bool]
"""The constants of an atom, whether it is true, and whether it is predicted."""


def confusions(predicted: Bools, true: Bools) -> Ints:
    """Return the numbers of hits, false alarms and misses, int64[3]."""
    return np.array(
        [np.sum(predicted & true), np.sum(predicted & ~true), np.sum(true & ~predicted)]
    )


def count_classes(counts: dict[str, Ints], atoms: Iterable[MarkedAtom], argument: int) -> None:
    """Add hits, false alarms and misses, int64[3], of every constant that is the chosen argument."""
    for constants, true, predicted in atoms:
        of_class = counts.setdefault(constants[argument], np.zeros(3, np.int64))
        of_class += [predicted and true, predicted and not true, true and not predicted]


class Confusion:
    """Counts of (true class, predicted class).

    A unit is a set of atoms that differ only in the chosen argument. If any unit has several true
    atoms, or several predicted ones, the matrix is dropped for the rest of the run.
    """

    def __init__(self) -> None:
        self.counts: Counter[Pair] | None = Counter()

    def add(self, pairs: Mapping[Pair, int] | None) -> None:
        """Add counts; None: a unit had several classes."""
        if pairs is None or self.counts is None:
            self.counts = None
            return
        self.counts.update(pairs)
        if len(self.counts) > CELLS:
            self.counts = None

    def table(self) -> dict[str, dict[str, int]] | None:
        """Return the counts by true class, then predicted class; units with neither are not counted."""
        if self.counts is None:
            return None
        none, names = NONE, {*chain.from_iterable(self.counts)}
        while none in names:
            none = f"({none})"
        table: dict[str, dict[str, int]] = {}
        for pair, n in sorted(self.counts.items(), key=_order):
            true, predicted = (none if name is None else name for name in pair)
            table.setdefault(true, {})[predicted] = n
        return table

    def save(self) -> list[list[Any]] | None:
        """Return the counts as JSON can hold them."""
        if self.counts is None:
            return None
        return [[*pair, n] for pair, n in sorted(self.counts.items(), key=_order)]

    @classmethod
    def restore(cls, saved: Any) -> Confusion:
        """Return the counts that ``save`` wrote. Raises Misfit."""
        confusion, rows = cls(), converted([saved], list[_Rows])[0]
        confusion.counts = (
            None if rows is None else Counter({(t, predicted): n for t, predicted, n in rows})
        )
        return confusion


def _order(item: tuple[Pair, int]) -> tuple[tuple[bool, str], tuple[bool, str]]:
    true, predicted = item[0]
    return (true is None, true or ""), (predicted is None, predicted or "")


def pairs(atoms: Iterable[MarkedAtom], argument: int) -> Counter[Pair] | None:
    """Return the pairs of one example's units; None if a unit has several classes.

    ``atoms`` are the atoms that are true or predicted.
    """
    classes: dict[tuple[str, ...], list[str | None]] = {}
    for constants, *marks in atoms:
        unit = classes.setdefault(constants[:argument] + constants[argument + 1 :], [None, None])
        for n, marked in enumerate(marks):
            if marked and unit[n] is not None:
                return None
            if marked:
                unit[n] = constants[argument]
    return Counter((true, predicted) for true, predicted in classes.values())
