"""The atoms that are true or predicted, counted by query predicate and as a confusion matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Ints
from onlinesrl.core.evaluation.confusion_matrix import Pair
from onlinesrl.mln.kernels.batch_report import PREDICTED, TRUE

_OUTCOMES = [PREDICTED | TRUE, PREDICTED, TRUE]
"""The marks of hits, false alarms and misses."""


class Positives(NamedTuple):
    """The atoms of worlds that are true or predicted, world by world, [atom]."""

    world: Ints
    query: Ints
    key: Ints  # the number among the groundings of the query predicate
    mark: Ints

    def of(self, chosen: Ints) -> Positives:
        """Return those that ``chosen``, bool[atom] or indices, picks."""
        return Positives(*(column[chosen] for column in self))

    def by_query(self, queries: int) -> Ints:
        """Return hits, false alarms and misses of each query predicate, int64[queries, 3]."""
        found = np.bincount(4 * self.query + self.mark, minlength=4 * queries)
        return found.reshape(queries, 4)[:, _OUTCOMES]

    def classes(self, sizes: Ints, argument: int) -> tuple[Ints, Ints]:
        """Return the class of each atom (the chosen argument's value) and its unit (the other arguments).

        ``sizes`` int64[world, arguments] are the numbers of constants of the key's digits; all atoms are
        of one query predicate.
        """
        below = np.prod(sizes[:, argument + 1 :], axis=1, dtype=np.int64)[self.world]
        size = sizes[self.world, argument]
        above, rest = np.divmod(self.key, below * size)
        return rest // below, above * below + rest % below

    def pairs(
        self, sizes: Ints, argument: int, names: Callable[[int], Sequence[object]], shared: bool
    ) -> Counter[Pair] | None:
        """Return the counts of (true class, predicted class); None where a unit has several classes.

        ``names`` are those of the classes in a world; where they are ``shared``, in every one.
        """
        kind, unit = self.classes(sizes, argument)
        most = int(sizes[:, argument].max(initial=1))
        number = 1 + kind if shared else 1 + self.world * most + kind
        if unit.max(initial=0) >= 2**62 // max(1, len(sizes)):
            unit = np.unique(unit, return_inverse=True)[1]
        unit = self.world * (1 + unit.max(initial=0)) + unit
        order = np.argsort(unit, kind="stable")
        unit, number, mark = unit[order], number[order], self.mark[order]
        begins = np.ones(len(unit), np.bool_)
        np.not_equal(unit[1:], unit[:-1], out=begins[1:])
        group = np.cumsum(begins) - 1
        columns = np.zeros((2, int(begins.sum())), np.int64)
        for column, wanted in zip(columns, (TRUE, PREDICTED), strict=True):
            marked = np.flatnonzero(mark & wanted)
            column[group[marked]] = number[marked]
            if np.count_nonzero(column) < len(marked):
                return None
        span = 1 + most * len(sizes)
        cells, counts = np.unique(columns[0] * span + columns[1], return_counts=True)

        def spelled(n: int) -> str | None:
            return str(names((n - 1) // most)[(n - 1) % most]) if n else None

        found: Counter[Pair] = Counter()
        for cell, n in zip(cells.tolist(), counts.tolist(), strict=True):
            found[spelled(cell // span), spelled(cell % span)] += n
        return found
