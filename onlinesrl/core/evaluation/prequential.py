"""Metrics as integer accumulators: exact, mergeable, and stored in the checkpoint.

F1 is micro over query atoms, and for each value of a chosen argument, with their mean as macro F1;
accuracy is the share of units (groups of open atoms) that are entirely right; the Hamming loss is the
mean number of wrong atoms per example. Values in [0, 1] count as true above 1/2, or as the greatest of
those that a hard rule says sum to 1; each atom is then a unit, and ``mae`` is the mean of
|value - true value| over the atoms. Where atoms have scores (values or probabilities), their ranking is
measured too (see ``ranking``). During a run all are prequential: each example is predicted before it is
learned from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from onlinesrl.core.evaluation import set_coverage
from onlinesrl.core.evaluation.confusion_matrix import Confusion
from onlinesrl.core.evaluation.own_metric import Metric
from onlinesrl.core.evaluation.ranking_metrics import Ranking
from onlinesrl.core.evaluation.set_coverage import SetCounts
from onlinesrl.core.io.restoring import Misfit, Natural, converted

HITS, FALSE_ALARMS, MISSES, UNITS, RIGHT_UNITS, HAMMING, EXACT = range(7)
MARKS = 100
"""Of so many signals of drift, the newest, the places in the stream are kept."""
UNIT = 1_000_000
"""Values in [0, 1] are counted in millionths."""
_Class = Annotated[list[Natural], Meta(min_length=3, max_length=3)]


def f1(hits: int, false_alarms: int, misses: int) -> float | None:
    """Return the harmonic mean of precision and recall; None where no atom is true or predicted."""
    total = 2 * hits + false_alarms + misses
    return 2 * hits / total if total else None


def _measures(ranking: Ranking) -> dict[str, float | None]:
    return ranking.measures() | ranking.log_likelihood() | ranking.calibration()


def known_sum(first: int | None, second: int | None) -> int | None:
    """Return the sum of two numbers; None where one is not known."""
    return None if first is None or second is None else first + second


def ratio(part: int, whole: int) -> float | None:
    """Return a share; None of nothing."""
    return part / whole if whole else None


@dataclass
class Counts:
    """The counts behind the scores, summed over labelled examples."""

    labelled: Natural = 0
    atoms: Annotated[list[Natural], Meta(min_length=7, max_length=7)] = field(
        default_factory=lambda: [0] * 7
    )
    l1: Natural | None = None

    def add(self, labelled: int, atoms: Sequence[int], l1: int | None = None) -> None:
        """Add a batch's counts, [7], and where atoms have values their L1 loss, in units of UNIT."""
        self.labelled += labelled
        self.atoms = [a + int(b) for a, b in zip(self.atoms, atoms, strict=True)]
        if l1 is not None:
            self.l1 = (self.l1 or 0) + l1

    def scores(self) -> dict[str, Any]:
        """Return precision, recall, F1, accuracy, exact share, Hamming loss and mean absolute error."""
        hits, false_alarms, misses, units, right, wrong, exact = self.atoms
        examples = self.labelled if units else 0  # without a unit, nothing is scored
        return {
            "f1": f1(hits, false_alarms, misses),
            "precision": ratio(hits, hits + false_alarms),
            "recall": ratio(hits, hits + misses),
            "accuracy": ratio(right, units),
            "exact": ratio(exact, examples),
            "hamming": ratio(wrong, examples),
            **({"mae": ratio(self.l1, units * UNIT)} if self.l1 is not None else {}),
        }

    def save(self) -> dict[str, Any]:
        """Return the counts as JSON can hold them."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass
class Metrics:
    """The accumulators of a run, and of the window since the last line of metrics."""

    examples: Natural = 0
    steps: Natural = 0
    """Examples and late labels: each is a step of the learner."""
    bad: Natural = 0
    unlabelled: Natural = 0
    certified: Natural | None = 0
    """None: predictions are by probabilities, and no state is searched for."""
    tombstones: Natural = 0
    audited: Natural = 0
    unsolved: Natural = 0
    skipped: Natural = 0
    reported: Natural = 0
    signals: Natural = 0
    """Signals of drift, and the numbers of examples at the newest ones."""
    marks: list[Natural] = field(default_factory=list)
    total: Counts = field(default_factory=Counts)
    window: Counts = field(default_factory=Counts)
    routes: dict[str, Natural] = field(default_factory=dict)
    errors: dict[str, Natural] = field(default_factory=dict)
    by: dict[str, _Class] = field(default_factory=dict)
    predicates: dict[str, _Class] = field(default_factory=dict)
    """Of the predicates that have had an atom in a labelled example."""
    ranking: dict[str, Ranking] = field(default_factory=dict)
    confusion: Confusion = field(default_factory=Confusion)
    sets: SetCounts = field(default_factory=dict)
    window_sets: SetCounts = field(default_factory=dict)
    own: dict[str, tuple[Any, float | None]] = field(default_factory=dict)
    """The state and the value of each metric of somebody's own."""

    def score(self, metrics: Mapping[str, Metric], scored: Iterable[tuple[Any, Any]]) -> None:
        """Add predictions and their labelled examples to metrics of somebody's own, where there are any."""
        scored = [*scored] if metrics else []
        for name, metric in metrics.items():
            state = self.own[name][0] if name in self.own else metric.start()
            for prediction, example in scored:
                state = metric.add(state, prediction, example)
            self.own[name] = state, metric.value(state)

    def add(self, tally: Any, examples: int, labels: int = 0, drifts: Sequence[int] = ()) -> None:
        """Add a batch of examples and late labels; ``tally`` (core.learner.Tally) counts both.

        ``drifts``: after how many of these examples there was a signal of drift.
        """
        if drifts:
            self.signals += len(drifts)
            self.marks = [*self.marks, *(self.examples + n for n in drifts)][-MARKS:]
        self.examples += examples
        self.steps += examples + labels
        self.bad += sum(tally.errors.values())
        self.unlabelled += tally.predicted - tally.labelled
        self.certified = known_sum(self.certified, tally.certified)
        self.audited += tally.audited
        self.unsolved += tally.unsolved
        self.skipped += tally.skipped
        self.total.add(tally.labelled, tally.counts, tally.l1)
        self.window.add(tally.labelled, tally.counts, tally.l1)
        for route, n in tally.routes.items():
            self.routes[route] = self.routes.get(route, 0) + n
        if tally.errors:
            errors = Counter(self.errors) + Counter(tally.errors)
            self.errors = dict(sorted(errors.items()))
        for all_counts, more in ((self.by, tally.by_class), (self.predicates, tally.predicates)):
            for name, counts in more.items():
                old = all_counts.get(name, [0, 0, 0])
                all_counts[name] = [a + int(b) for a, b in zip(old, counts, strict=True)]
        for name, ranking in tally.ranking.items():
            self.ranking.setdefault(name, Ranking()).merge(ranking)
        self.confusion.add(tally.pairs)
        for counts in (self.sets, self.window_sets):
            set_coverage.add(counts, tally.sets)

    def complaints(self, query: Sequence[str]) -> list[str]:
        """Return a warning for each predicate of the query of which no labelled example had an atom."""
        absent = [name for name in query if name not in self.predicates and self.total.labelled]
        return [
            f"no example with a truth has an atom of the query predicate {name}: name the constants of its "
            "types in the evidence or in `query`, or declare them in the model"
            for name in absent
        ]

    def refuse(self, kind: str) -> None:
        """Count an example, already counted as good, as bad too."""
        self.bad += 1
        self.errors = dict(sorted((self.errors | {kind: self.errors.get(kind, 0) + 1}).items()))

    def snapshot(self) -> dict[str, Any]:
        """Return a line of metrics.jsonl, without what the learner adds."""
        by = {name: class_scores(*counts) for name, counts in sorted(self.by.items())}
        values = [scores["f1"] for scores in by.values() if scores["f1"] is not None]
        whole = Ranking()
        for ranking in self.ranking.values():
            whole.merge(ranking)
        return {
            "examples": self.examples,
            "labelled": self.total.labelled,
            "bad": self.bad,
            "errors": self.errors,
            **self.total.scores(),
            "macro_f1": sum(values) / len(values) if values else None,
            "by": by,
            **({"confusion": self.confusion.table()} if by else {}),
            "predicates": {
                name: class_scores(*counts)
                | (_measures(self.ranking[name]) if name in self.ranking else {})
                for name, counts in sorted(self.predicates.items())
            },
            **(_measures(whole) | {"reliability": whole.reliability()} if self.ranking else {}),
            **({"sets": set_coverage.figures(self.sets, self.window_sets)} if self.sets else {}),
            "routes": {route: n for route, n in self.routes.items() if n},
            **({"certified": self.certified} if self.certified is not None else {}),
            "audited": self.audited,
            **({"tombstones": self.tombstones} if self.tombstones else {}),
            "unsolved": self.unsolved,
            **({"skipped": self.skipped} if self.skipped else {}),
            **({"own": {name: value for name, (_, value) in self.own.items()}} if self.own else {}),
            **({"drift": {"signals": self.signals, "at": self.marks}} if self.signals else {}),
            "window": {"examples": self.window.labelled, **self.window.scores()},
        }

    def next_window(self) -> None:
        """Start a new window, after a line has been written."""
        self.reported = self.steps
        self.window, self.window_sets = Counts(), {}

    def save(self) -> dict[str, Any]:
        """Return the accumulators as JSON can hold them."""
        values = dict(vars(self))
        for name in ("total", "window"):
            values[name] = values[name].save()
        values["ranking"] = {name: ranking.save() for name, ranking in self.ranking.items()}
        values["confusion"] = self.confusion.save()
        if not self.own:
            del values["own"]
        return values

    @classmethod
    def restore(cls, saved: Mapping[str, Any], own: Mapping[str, Metric] = {}) -> Metrics:
        """Return the accumulators that ``save`` wrote, with states of the ``own`` metrics. Raises Misfit."""
        metrics = converted(saved, cls, dec_hook=lambda kind, value: kind.restore(value))
        if bool(metrics.signals) != bool(metrics.marks):
            raise Misfit("it has signals of drift without a place, or places without a signal")
        for name in metrics.own.keys() & own.keys():
            try:
                own[name].value(metrics.own[name][0])
            except Exception as error:  # somebody's own code, which expects another state
                raise Misfit(f"the state of the metric {name} is not its own: {error!r}") from error
        return metrics


def class_scores(hits: int, false_alarms: int, misses: int) -> dict[str, Any]:
    """Return F1, precision and recall, each None where it is undefined, and the number of true ones."""
    return {
        "f1": f1(hits, false_alarms, misses),
        "precision": ratio(hits, hits + false_alarms),
        "recall": ratio(hits, hits + misses),
        "support": hits + misses,
    }
