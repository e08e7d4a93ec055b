"""Outcomes of PSL's examples: predictions and their scores.

Values are written, and scored, with six decimal places: in units of 1 / UNIT. An atom counts as predicted
true if its value is above 1/2. Where a hard rule says that values sum to 1, it is the atom of the greatest
value, the first of equal ones; none, if no value is above 0, or an observed atom has as great a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def predicted_true(
    checked: CheckedExample, units: Ints, functional: Mapping[str, Sequence[int]]
) -> Bools:
    """Return which targets count as predicted true, bool[targets]."""
    result, first = 2 * units > UNIT, 0
    for name, rows in checked.targets.items():
        begin, first = first, first + len(rows)
        if name not in functional:
            continue
        result[begin:first] = False
        observed = checked.observed.get(name, {}).items()
        values = [(key, round(UNIT * value), -1) for key, value in observed]
        values += zip(rows, units[begin:first].tolist(), range(begin, first), strict=True)
        best = dict[tuple[str, ...], tuple[int, int]]()
        for key, value, place in values:
            group = tuple([constant for n, constant in enumerate(key) if n not in functional[name]])
            if value > best.get(group, (0, -1))[0]:
                best[group] = value, place
        result[[place for _, place in best.values() if place >= 0]] = True
    return result


@dataclass
class BatchCounts:
    """The counts of a micro-batch; ``by`` is the predicate and the argument that has the classes.

    ``functional`` are the summed arguments of predicates, see ``lang.ast.functional_arguments``.
    """

    by: tuple[str, int] | None
    functional: Mapping[str, Sequence[int]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    l1: int = 0
    pairs: Confusion = field(default_factory=Confusion)
    scored: dict[str, list[tuple[Ints, Bools]]] = field(default_factory=dict)

    def score(self, checked: CheckedExample, prediction: Prediction, units: Ints) -> None:
        """Score a prediction, and add the scores to it, if the truth is known."""
        if checked.truth is not None:
            scored, predicted = checked.scored, predicted_true(checked, units, self.functional)
            predicted, units = predicted[scored], units[scored]
            true_units = np.rint(checked.truth[scored] * UNIT).astype(np.int64)
            l1 = int(np.abs(units - true_units).sum())
            true = 2 * true_units > UNIT  # above 1/2
            hits, alarms, misses = confusions(predicted, true).tolist()
            n, wrong = len(units), alarms + misses
            self.tally.counts += [hits, alarms, misses, n, n - wrong, wrong, wrong == 0]
            self.l1 += l1
            self.tally.labelled += 1
            self._count_predicates(checked, units, predicted, true)
            prediction.hamming, prediction.l1 = wrong, l1 / UNIT

    def _count_predicates(
        self, checked: CheckedExample, units: Ints, predicted: Bools, true: Bools
    ) -> None:
        """Count the atoms of each predicate, and those of each class."""
        first, scored = 0, iter(checked.scored.tolist())
        for name, rows_of_name in checked.targets.items():
            if not rows_of_name:
                continue
            targets = [key for key in rows_of_name if next(scored)]
            rows = slice(first, first := first + len(targets))
            self.scored.setdefault(name, []).append((units[rows], true[rows]))
            counts = self.tally.predicates.setdefault(name, np.zeros(3, np.int64))
            counts += confusions(predicted[rows], true[rows])
            if self.by is not None and self.by[0] == name:
                argument = self.by[1]
                atoms = list(
                    zip(targets, true[rows].tolist(), predicted[rows].tolist(), strict=True)
                )
                count_classes(self.tally.by_class, atoms, argument)
                self.pairs.add(pairs((atom for atom in atoms if atom[1] or atom[2]), argument))

    def complete(self) -> Tally:
        """Return the tally, with what is counted for all examples together."""
        tally = self.tally
        for name, parts in self.scored.items():
            units, true = (np.concatenate(column) for column in zip(*parts, strict=True))
            tally.ranking[name] = Ranking()
            tally.ranking[name].add(units / UNIT, true)
        tally.predicted, tally.l1 = sum(tally.routes.values()), self.l1
        tally.pairs = self.pairs.counts
        return tally
