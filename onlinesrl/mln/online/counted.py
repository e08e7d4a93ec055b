"""What is counted over a batch by a kernel: atoms by class and by predicate, and pairs of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from onlinesrl.core.arrays import Ints
from onlinesrl.core.evaluation.confusion_matrix import Pair
from onlinesrl.mln.ground.atom_names import AtomNames
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.kernels import batch_report as k
from onlinesrl.mln.kernels.prediction_counts import By
from onlinesrl.mln.online.reporting import Results

Counted: TypeAlias = tuple[dict[str, Ints], dict[str, Ints], Mapping[Pair, int] | None]
"""Hits, false alarms and misses by class and by query predicate, and pairs of classes, see ``Tally``."""
MOST_CLASSES = 64


def counted(layout: Layout, names: Sequence[AtomNames], by: By, results: Results) -> Counted | None:
    """Count over the labelled good worlds of a batch; None: the kernel cannot count them.

    It can where no world lists its atoms, and all have the same classes, the values of an argument that
    comes last in radix order.
    """
    classes = _classes(layout, names, by, results)
    if classes is None or results.answered or results.batch.listed.any():
        return None
    n, query = len(classes), layout.plan.query
    by_class, predicates = np.zeros((n, 3), np.int64), np.zeros((len(query), 3), np.int64)
    cells = np.zeros((n + 1, n + 1), np.int64)
    counts = k.Counts(by_query=predicates, by_class=by_class, pairs=cells)
    single = k.count(layout.plans, results.batch, by, results.out, counts)
    spelled, pairs = [None, *classes], dict[Pair, int]()
    for true, said in np.argwhere(cells).tolist():
        pairs[spelled[true], spelled[said]] = int(cells[true, said])
    return (
        dict(zip(classes, by_class, strict=True)),
        dict(zip(query, predicates, strict=True)),
        pairs if single else None,
    )


def _classes(
    layout: Layout, names: Sequence[AtomNames], by: By, results: Results
) -> Sequence[str] | None:
    """Return the classes that are counted; None: worlds differ in them, or they are in another place."""
    if by.query < 0:
        return ()
    kinds = names[by.query].kinds
    classes = layout.constants[layout.types[kinds[-1]]]
    if by.argument != len(kinds) - 1 or len(classes) > MOST_CLASSES:
        return None
    return classes if np.all(results.batch.domain[:, kinds[-1]] == len(classes)) else None
