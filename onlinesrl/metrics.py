"""Metrics as accumulators of whole numbers: exact, mergeable, and kept in the checkpoint.

F1 is micro over query atoms, and for each value of a chosen argument, with their mean as macro F1;
accuracy is the share of units (groups of open atoms) that are wholly right; the Hamming loss is the
mean number of wrong atoms an example. Of values in [0, 1], those above 1/2 count as true, each atom is
a unit, and ``mae`` is the mean of |value - true value| over the atoms. All are prequential where the
example is learned from next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HITS, FALSE_ALARMS, MISSES, UNITS, RIGHT_UNITS, HAMMING, EXACT = range(7)
UNIT = 1_000_000
"""Values in [0, 1] are counted in millionths."""


def f1(hits: int, false_alarms: int, misses: int) -> float | None:
    """Return the harmonic mean of precision and recall; None where there was nothing to find or say."""
    total = 2 * hits + false_alarms + misses
    return 2 * hits / total if total else None


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


@dataclass
class Counts:
    """What the scores are made of, summed over labelled examples."""

    labelled: int = 0
    atoms: list[int] = field(default_factory=lambda: [0] * 7)
    l1: int | None = None

    def add(self, labelled: int, atoms: Sequence[int], l1: int | None = None) -> None:
        """Add a batch's counts, [7], and where atoms have values their L1 loss, in units of UNIT."""
        self.labelled += labelled
        self.atoms = [a + int(b) for a, b in zip(self.atoms, atoms, strict=True)]
        if l1 is not None:
            self.l1 = (self.l1 or 0) + l1

    def scores(self) -> dict[str, Any]:
        """Return precision, recall, F1, accuracy, exact share, Hamming loss and mean absolute error."""
        hits, false_alarms, misses, units, right, wrong, exact = self.atoms
        return {
            "f1": f1(hits, false_alarms, misses),
            "precision": _ratio(hits, hits + false_alarms),
            "recall": _ratio(hits, hits + misses),
            "accuracy": _ratio(right, units),
            "exact": _ratio(exact, self.labelled),
            "hamming": _ratio(wrong, self.labelled),
            **({"mae": _ratio(self.l1, units * UNIT)} if self.l1 is not None else {}),
        }

    def save(self) -> dict[str, Any]:
        """Return the counts as JSON can hold them."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass
class Metrics:
    """The accumulators of a run, and of the window since the last line of metrics."""

    examples: int = 0
    bad: int = 0
    unlabelled: int = 0
    certified: int = 0
    tombstones: int = 0
    audited: int = 0
    unsolved: int = 0
    reported: int = 0
    total: Counts = field(default_factory=Counts)
    window: Counts = field(default_factory=Counts)
    routes: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    by: dict[str, list[int]] = field(default_factory=dict)

    def add(self, tally: Any, examples: int) -> None:
        """Add a batch of so many examples, of which ``tally`` (learn.learner.Tally) counts the good."""
        self.examples += examples
        self.bad += examples - tally.predicted
        self.unlabelled += tally.predicted - tally.labelled
        self.certified += tally.certified
        self.audited += tally.audited
        self.unsolved += tally.unsolved
        self.total.add(tally.labelled, tally.counts, tally.l1)
        self.window.add(tally.labelled, tally.counts, tally.l1)
        for route, n in tally.routes.items():
            self.routes[route] = self.routes.get(route, 0) + n
        if tally.errors:
            errors = Counter(self.errors) + Counter(tally.errors)
            self.errors = dict(sorted(errors.items()))
        for name, counts in tally.by_class.items():
            old = self.by.get(name, [0, 0, 0])
            self.by[name] = [a + int(b) for a, b in zip(old, counts, strict=True)]

    def snapshot(self) -> dict[str, Any]:
        """Return one line of metrics.jsonl, but for what the learner adds."""
        by = {name: _class_scores(*counts) for name, counts in sorted(self.by.items())}
        values = [scores["f1"] for scores in by.values() if scores["f1"] is not None]
        return {
            "examples": self.examples,
            "labelled": self.total.labelled,
            "bad": self.bad,
            "errors": self.errors,
            **self.total.scores(),
            "macro_f1": sum(values) / len(values) if values else None,
            "by": by,
            "routes": {route: n for route, n in self.routes.items() if n},
            "certified": self.certified,
            "audited": self.audited,
            **({"tombstones": self.tombstones} if self.tombstones else {}),
            "unsolved": self.unsolved,
            "window": {"examples": self.window.labelled, **self.window.scores()},
        }

    def next_window(self) -> None:
        """Begin a new window: a line has been written."""
        self.reported = self.examples
        self.window = Counts()

    def save(self) -> dict[str, Any]:
        """Return the accumulators as JSON can hold them."""
        values = dict(vars(self))
        for name in ("total", "window"):
            values[name] = values[name].save()
        return values

    @classmethod
    def restore(cls, saved: Mapping[str, Any]) -> Metrics:
        """Return the accumulators that ``save`` wrote."""
        values = dict(saved)
        for name in ("total", "window"):
            values[name] = Counts(**values[name])
        return cls(**values)


def _class_scores(hits: int, false_alarms: int, misses: int) -> dict[str, Any]:
    return {
        "f1": f1(hits, false_alarms, misses),
        "precision": _ratio(hits, hits + false_alarms),
        "recall": _ratio(hits, hits + misses),
        "support": hits + misses,
    }
