"""Label losses that make rare labels count as much as frequent ones, by the labels seen so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from onlinesrl.core.io.restoring import Natural, converted

Counts: TypeAlias = dict[str, dict[str, Natural]]
"""How many units had each label, by predicate and label."""
BALANCED = "balanced"
LABELS = ("false", "true")
"""The labels of an atom that is a unit of its own."""


class ClassBalance:
    """Counts of labels, and the costs that follow from them.

    A unit is an atom, whose label is its truth, or a group of atoms that exclude each other, whose label is
    the true one. With n units of a predicate so far, K different labels among them, and n_c of label c, all
    atoms of a unit of label c cost n / (K n_c): the ``class_weight="balanced"`` of scikit-learn (King &
    Zeng 2001, Logistic Regression in Rare Events Data, section 4.2), where the unit itself is counted too.

    >>> balance = ClassBalance()
    >>> balance.add("Fraud", ["false", "false", "false"])
    >>> balance.costs("Fraud", ["true"])
    {'false': 0.6666666666666666, 'true': 2.0}
    """

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}

    def add(self, predicate: str, labels: Sequence[str]) -> None:
        """Count the labels of units."""
        self.counts.setdefault(predicate, Counter()).update(labels)

    def costs(self, predicate: str, labels: Sequence[str]) -> dict[str, float]:
        """Return the cost of each label, by what was counted and the labels of the present units."""
        counts = self.counts.get(predicate, Counter()) + Counter(labels)
        total, different = counts.total(), len(counts)
        return {label: total / (different * n) for label, n in counts.items()}

    def save(self) -> Counts:
        """Return the counts as JSON can hold them."""
        return {name: dict(counts) for name, counts in self.counts.items()}

    def restore(self, saved: Any) -> None:
        """Restore what ``save`` returned. Raises Misfit."""
        by_predicate = converted(saved, Counts)
        self.counts = {name: Counter(counts) for name, counts in by_predicate.items()}

    def since(self, start: Counts) -> Counts:
        """Return what was counted after ``start``, which an earlier ``save`` returned."""
        return {
            name: dict(counts - Counter(start.get(name, {})))
            for name, counts in self.counts.items()
        }

    def merge(self, gains: Sequence[Mapping[str, Mapping[str, int]]]) -> None:
        """Add the counts of others."""
        for name, counts in (item for gain in gains for item in gain.items()):
            self.counts.setdefault(name, Counter()).update(counts)
