"""How often sets of labels have the truth, and how large they are, by predicate and true label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import numpy as np
from msgspec import Meta

from onlinesrl.core.arrays import Ints
from onlinesrl.core.evaluation.label_sets import Covered, class_of
from onlinesrl.core.io.restoring import Natural

_Row = Annotated[list[Natural], Meta(min_length=4, max_length=4)]
SetCounts: TypeAlias = dict[str, dict[str, _Row]]
"""By predicate and true label: units, sets that have the truth, labels in sets, and sets that abstain."""


def counted(units: Iterable[Covered]) -> dict[tuple[str, str], Ints]:
    """Return the row of ``SetCounts`` of each predicate and true label."""
    rows: dict[tuple[str, str], list[int]] = {}
    for one in units:
        row = rows.setdefault((one.predicate, one.label), [0, 0, 0, 0])
        row[0] += 1
        row[1] += not one.missed
        row[2] += one.size
        row[3] += one.abstains
    return {key: np.array(row) for key, row in rows.items()}


def add(counts: SetCounts, rows: Mapping[tuple[str, str], Ints]) -> None:
    """Add the rows of ``counted``."""
    for (predicate, label), row in rows.items():
        by_label = counts.setdefault(predicate, {})
        name = class_of(by_label, label)
        old = by_label.get(name, [0, 0, 0, 0])
        by_label[name] = [a + int(b) for a, b in zip(old, row, strict=True)]


def figures(counts: SetCounts, window: SetCounts) -> dict[str, Any]:
    """Return the figures of each predicate: over all, by true label, and of the ``window``."""
    return {
        name: {
            **_figures(_total(by_label)),
            "by": {label: _figures(by_label[label]) for label in sorted(by_label, key=_order)},
            "window": _figures(_total(window.get(name, {}))),
        }
        for name, by_label in counts.items()
    }


def _order(label: str) -> tuple[bool, int, str]:
    """Return what sorts labels: numbers, such as the places of answers, by their size, and before others."""
    number = label.isdecimal()
    return not number, len(label) if number else 0, label


def _total(by_label: Mapping[str, Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip((0, 0, 0, 0), *by_label.values(), strict=True)]


def _figures(row: Sequence[int]) -> dict[str, Any]:
    units, covered, size, abstain = row
    coverage, mean = (covered / units, size / units) if units else (None, None)
    return {"units": units, "coverage": coverage, "size": mean, "abstain": abstain}
