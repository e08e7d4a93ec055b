"""Outcomes of PSL's examples: predictions and their scores.

Values are written, and scored, with six decimal places: in units of 1 / UNIT.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec
import numpy as np

from onlinesrl.core.arrays import Bools, Ints
from onlinesrl.core.evaluation.confusion_matrix import Confusion, confusions, count_classes, pairs
from onlinesrl.core.evaluation.prequential import UNIT
from onlinesrl.core.evaluation.ranking_metrics import Ranking
from onlinesrl.core.example import ValuedAtom
from onlinesrl.core.learner import Prediction, Tally
from onlinesrl.psl.ground.packing import CheckedExample
from onlinesrl.psl.inference.protocols import HingeSolution


def new_prediction(checked: CheckedExample, solution: HingeSolution) -> tuple[Prediction, Ints]:
    """Return the prediction of a solution, and its values in units, int64[targets]."""
    units = np.rint(solution.y * UNIT).astype(np.int64)
    values = iter((units / UNIT).tolist())
    prediction = Prediction(
        checked.example.id,
        {
            name: [ValuedAtom(args, next(values)) for args in rows.values()]
            for name, rows in checked.targets.items()
        },
        0.0 - solution.energy,  # no -0.0
        solution.certified,
        checked.example.group,
    )
    return prediction, units


def copied_prediction(served: Prediction) -> tuple[Prediction, Ints]:
    """Return a copy of an earlier prediction, and its values in units, int64[targets]."""
    values = [atom.value for rows in served.predicted.values() for atom in rows]  # type: ignore[union-attr]
    units = np.rint(UNIT * np.array(values, np.float64)).astype(np.int64)
    return msgspec.structs.replace(served), units


@dataclass
class BatchCounts:
    """The counts of a micro-batch; ``by`` is the predicate and the argument that has the classes."""

    by: tuple[str, int] | None
    counts: Ints = field(default_factory=lambda: np.zeros(7, np.int64))
    l1: int = 0
    labelled: int = 0
    certified: int = 0
    unsolved: int = 0
    skipped: int = 0
    routes: Counter[str] = field(default_factory=Counter)
    by_class: dict[str, Ints] = field(default_factory=dict)
    pairs: Confusion = field(default_factory=Confusion)
    predicates: dict[str, Ints] = field(default_factory=dict)
    scored: dict[str, list[tuple[Ints, Bools]]] = field(default_factory=dict)
    bad: Counter[str] = field(default_factory=Counter)

    def score(self, checked: CheckedExample, prediction: Prediction, units: Ints) -> Prediction:
        """Score a prediction, and add the scores to it, if the truth is known."""
        if checked.truth is not None:
            scored, units = checked.scored, units[checked.scored]
            true_units = np.rint(checked.truth[scored] * UNIT).astype(np.int64)
            l1 = int(np.abs(units - true_units).sum())
            predicted, true = 2 * units > UNIT, 2 * true_units > UNIT  # above 1/2
            hits, alarms, misses = confusions(predicted, true).tolist()
            n, wrong = len(units), alarms + misses
            self.counts += [hits, alarms, misses, n, n - wrong, wrong, wrong == 0]
            self.l1 += l1
            self.labelled += 1
            self._count_predicates(checked, units, predicted, true)
            prediction.hamming, prediction.l1 = wrong, l1 / UNIT
        return prediction

    def _count_predicates(
        self, checked: CheckedExample, units: Ints, predicted: Bools, true: Bools
    ) -> None:
        """Count the atoms of each predicate, and those of each class."""
        first, scored = 0, iter(checked.scored.tolist())
        for name, rows_of_name in checked.targets.items():
            targets = [key for key in rows_of_name if next(scored)]
            rows = slice(first, first := first + len(targets))
            self.scored.setdefault(name, []).append((units[rows], true[rows]))
            counts = self.predicates.setdefault(name, np.zeros(3, np.int64))
            counts += confusions(predicted[rows], true[rows])
            if self.by is not None and self.by[0] == name:
                argument = self.by[1]
                atoms = list(
                    zip(targets, true[rows].tolist(), predicted[rows].tolist(), strict=True)
                )
                count_classes(self.by_class, atoms, argument)
                self.pairs.add(pairs((atom for atom in atoms if atom[1] or atom[2]), argument))

    def tally(self) -> Tally:
        """Return the counts as a Tally."""
        ranking = {}
        for name, parts in self.scored.items():
            units, true = (np.concatenate(column) for column in zip(*parts, strict=True))
            ranking[name] = Ranking()
            ranking[name].add(units / UNIT, true)
        return Tally(
            counts=self.counts,
            labelled=self.labelled,
            predicted=self.routes.total(),
            certified=self.certified,
            audited=0,
            unsolved=self.unsolved,
            skipped=self.skipped,
            routes=self.routes,
            by_class=self.by_class,
            predicates=self.predicates,
            ranking=ranking,
            pairs=self.pairs.counts,
            errors=self.bad,
            l1=self.l1,
        )
