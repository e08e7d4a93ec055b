"""Results of a batch of worlds, and their outcomes: predictions, reasons for bad examples, counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from onlinesrl.core.arrays import Bytes, Ints, enlarged
from onlinesrl.core.errors import printable
from onlinesrl.core.evaluation.confusion_matrix import Confusion, Pair, pairs
from onlinesrl.core.evaluation.ranking_metrics import Ranking
from onlinesrl.core.example import Constant, ValuedAtom, arguments
from onlinesrl.core.learner import Outcome, Prediction, SpelledPrediction, Tally
from onlinesrl.core.online.averaged_weights import BEYOND_RANGE
from onlinesrl.core.online.drift import Monitor
from onlinesrl.mln.ground import grounding_errors
from onlinesrl.mln.ground.batch_packer import Packed
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.inference.mcmc_diagnostics import Diagnostics
from onlinesrl.mln.kernels import grounding_frames
from onlinesrl.mln.kernels import prediction_counts as k
from onlinesrl.mln.kernels.batch_report import PREDICTED
from onlinesrl.mln.kernels.grounding_frames import INFEASIBLE
from onlinesrl.mln.kernels.predict_and_learn import OVERFLOW
from onlinesrl.mln.online.positives import Positives

if TYPE_CHECKING:
    from onlinesrl.mln.online.counted import Counted
    from onlinesrl.mln.online.prediction_json import PredictionEncoder

ELIMINATION, ILP = 0, 1
ROUTES = ("elimination", "ilp")
"""The routes that are always counted; others are once an engine has used them."""
UNSOLVED = 32
"""The status of a world whose search ended at its limit."""
_REASONS = {
    INFEASIBLE: "no state satisfies the hard rules",
    OVERFLOW: BEYOND_RANGE,
    UNSOLVED: (
        "the search ended at its limit (inference.max_work, max_nodes) without a proven answer"
    ),
}
KINDS = {
    **grounding_errors.KINDS,
    INFEASIBLE: "infeasible",
    OVERFLOW: "overflow",
    UNSOLVED: "unsolved",
}
"""What kind of ExampleError the statuses are."""

_Atom: TypeAlias = tuple[str, tuple[str, ...]]
"""A query predicate and the spelling of its arguments."""


@dataclass(eq=False)
class Results:
    """The worlds of a batch, and the results of those that have been processed."""

    batch: grounding_frames.Batch
    worlds: Sequence[Packed]
    out: k.Output
    routes: list[str]  # the names of what ``out.route`` numbers
    answered: Mapping[
        int, Prediction
    ]  # by world, the prediction already given, before its truth came
    unproven: set[int] = field(default_factory=set)  # those whose prediction is not certified
    unsolved: set[int] = field(default_factory=set)  # those with a search that ended at its limit
    drifted: set[int] = field(default_factory=set)  # those that raised a signal of drift
    audits: dict[int, float] = field(default_factory=dict)  # the score that the audit found
    marginals: dict[int, dict[str, list[ValuedAtom]]] = field(default_factory=dict)
    diagnostics: dict[int, Diagnostics] = field(default_factory=dict)

    def first(self, n: int) -> Results:
        """Return the results of the first ``n`` worlds: the others have not been processed."""
        batch, out = self.batch, self.out
        if n == len(self.worlds):
            return self
        classes = out.class_start[: n + 1]
        whole = {"true_query", "true_key", "true_mark", "true_start", "class_start", "by_class"}
        columns = {name: getattr(out, name)[:n] for name in out._names if name not in whole}
        return replace(
            self,
            batch=replace(batch, labelled=batch.labelled[:n], domain=batch.domain[:n]),
            worlds=self.worlds[:n],
            out=replace(
                out,
                **columns,
                true_start=out.true_start[: n + 1],
                class_start=classes,
                by_class=out.by_class[: classes[-1]],
            ),
            answered={w: prediction for w, prediction in self.answered.items() if w < n},
            unproven={w for w in self.unproven if w < n},
            unsolved={w for w in self.unsolved if w < n},
            audits={w: value for w, value in self.audits.items() if w < n},
        )


def with_room(out: k.Output) -> k.Output:
    """Return a copy with twice the room for atoms."""
    size = 2 * len(out.true_key)
    return replace(
        out,
        true_query=enlarged(out.true_query, size),
        true_key=enlarged(out.true_key, size),
        true_mark=enlarged(out.true_mark, size),
    )


class Reporter:
    """Turns the results of a batch into outcomes and counts."""

    def __init__(self, grounder: Grounder, by: k.By):
        self.grounder = grounder
        self.layout, self.packer, self.names = grounder.layout, grounder.packer, grounder.names
        self.by = by

    @cached_property
    def speller(self) -> PredictionEncoder:
        """What spells predictions."""
        from onlinesrl.mln.online.prediction_json import PredictionEncoder

        return PredictionEncoder(self.packer)

    def outcomes(self, results: Results, spelled: bool = False) -> list[Outcome]:
        """Return the outcome of every world; answered ones are counted by the prediction given before.

        ``spelled``: predictions may have their atoms as text.
        """
        for w in results.answered:
            if results.out.status[w] == grounding_frames.OK:
                self._score_answered(results, w)
        texts = self.speller.texts(results) if spelled else None
        kind: Any = Prediction if texts is None else SpelledPrediction
        atoms = self._atoms_of(results) if texts is None else texts.__getitem__
        out, drifted = results.out, results.drifted
        margins = [m if math.isfinite(m) else None for m in out.margin.tolist()]
        columns = (
            out.status.tolist(),
            out.score.tolist(),
            out.counts[:, k.HAMMING].tolist(),
            margins,
        )
        outcomes = []
        for w, (world, status, score, hamming, margin) in enumerate(
            zip(results.worlds, *columns, strict=True)
        ):
            if status != grounding_frames.OK:
                reason = printable(self.reason(results, w))
                outcomes.append(Outcome(None, reason, status == UNSOLVED))
                continue
            if w in results.answered:
                given = msgspec.structs.replace(results.answered[w], hamming=hamming)
                outcomes.append(Outcome(given, drift=w in drifted))
                continue
            example = world.example
            wrong = hamming if example.labelled else None
            certified = w not in results.unproven
            prediction = kind(example.id, atoms(w), score, certified, example.group, wrong, margin)
            if results.marginals:
                self._add_marginals(prediction, results, w)
            outcomes.append(Outcome(prediction, drift=w in drifted))
        return outcomes

    @staticmethod
    def _add_marginals(prediction: Prediction, results: Results, w: int) -> None:
        """Add to a prediction its atoms' probabilities, and how far they can be trusted."""
        prediction.marginals = results.marginals.get(w)
        if w in results.diagnostics:
            prediction.r_hat = round(results.diagnostics[w].largest_r_hat, 4)
            prediction.ess = round(results.diagnostics[w].least_ess, 1)

    def _atoms_of(self, results: Results) -> Callable[[int], dict[str, list[list[Constant]]]]:
        """Return what gives the predicted atoms of a world."""
        out = results.out
        predicted = out.true_mark[: out.true_start[-1]] & PREDICTED != 0
        starts = np.append(0, np.cumsum(predicted))[out.true_start].tolist()
        queries, keys = (
            each[: len(predicted)][predicted].tolist() for each in (out.true_query, out.true_key)
        )
        return lambda w: self._atoms(
            results.batch, w, slice(starts[w], starts[w + 1]), queries, keys
        )

    def _atoms(
        self,
        batch: grounding_frames.Batch,
        w: int,
        span: slice,
        queries: list[int],
        keys: list[int],
    ) -> dict[str, list[list[Constant]]]:
        found = {}
        for q, atoms in enumerate(self.names):
            names = [self.packer.names(batch, w, kind) for kind in atoms.kinds]
            mine = keys[span]
            if len(self.names) > 1:
                mine = [key for key, of in zip(mine, queries[span], strict=True) if of == q]
            found[atoms.name] = atoms.constants(mine, names)
        return found

    def watch(self, results: Results, w: int, monitor: Monitor) -> None:
        """Have a monitor heed a world that was learned from."""
        if w in results.answered:
            self._score_answered(results, w)
        if monitor.heed(int(results.out.counts[w, k.HAMMING])):
            results.drifted.add(w)

    def _score_answered(self, results: Results, w: int) -> None:
        """Count by the prediction given before, instead of the one that the kernel counted."""
        count = results.out.counts[w]
        true, predicted = self._answered_atoms(results, w)
        wrong = {self._unit(*atom) for atom in true ^ predicted}
        count[k.HITS] = len(true & predicted)
        count[k.FALSE_ALARMS], count[k.MISSES] = len(predicted - true), len(true - predicted)
        count[k.RIGHT_UNITS] = count[k.UNITS] - len(wrong)
        count[k.HAMMING] = len(true ^ predicted)
        count[k.EXACT] = not wrong
        if self.by.query >= 0:
            self._count_classes(results, w, true, predicted)

    def _answered_atoms(self, results: Results, w: int) -> tuple[set[_Atom], set[_Atom]]:
        """Return the true and the predicted atoms of a world whose prediction was given before."""
        example = results.worlds[w].example
        true = self._true(example.truth or {}) - self._true(example.evidence)
        return true, self._true(results.answered[w].predicted)

    def _true(self, atoms: Mapping[str, Sequence[list[Constant] | ValuedAtom]]) -> set[_Atom]:
        """Return the true atoms of query predicates."""
        return {
            (name, tuple(map(str, arguments(atom))))
            for name in self.layout.plan.query
            for atom in atoms.get(name, ())
            if not isinstance(atom, ValuedAtom) or atom.value
        }

    def _unit(self, name: str, args: tuple[str, ...]) -> _Atom:
        """Return what the atoms of one unit share."""
        group = self.layout.plan.groups.get(name)
        kept = [a for n, a in enumerate(args) if group is None or n not in group.arguments]
        return name, tuple(kept)

    def _count_classes(
        self, results: Results, w: int, true: set[_Atom], predicted: set[_Atom]
    ) -> None:
        """Count hits, false alarms and misses for each value of the chosen argument."""
        name = self.layout.plan.query[self.by.query]
        argument = self.layout.radix_order(name)[self.by.argument]
        kind = self.layout.type_number[self.layout.arguments(name)[argument]]
        names = map(str, self.packer.names(results.batch, w, kind))
        number = {value: n for n, value in enumerate(names, results.out.class_start.item(w))}
        results.out.by_class[results.out.class_start[w] : results.out.class_start[w + 1]] = 0
        for column, atoms in enumerate((true & predicted, predicted - true, true - predicted)):
            for args in (args for of, args in atoms if of == name):
                results.out.by_class[number[args[argument]], column] += 1

    def reason(self, results: Results, w: int) -> str:
        """Return why an example is bad."""
        status, detail = int(results.out.status[w]), int(results.out.detail[w])
        if status in _REASONS:
            return _REASONS[status]
        return self.grounder.reasons.of(results.batch, w, status, detail)

    def tally(self, results: Results, outcomes: Sequence[Outcome], bad: list[str]) -> Tally:
        """Count a batch and its outcomes; ``bad`` are the error kinds of examples that were not ground."""
        out, answered = results.out, results.answered
        good = out.status == grounding_frames.OK
        new = good.copy()
        new[list(answered)] = False
        routes = np.bincount(out.route[new], minlength=len(results.routes)).tolist()
        from onlinesrl.mln.online.counted import counted

        by_class, predicates, pairs_ = counted(
            self.layout, self.names, self.by, results
        ) or self._from_marks(results, new, good)
        return Tally(
            counts=out.counts[good].sum(axis=0),
            labelled=int(np.sum(results.batch.labelled[good])),
            predicted=int(new.sum()),
            certified=int(new.sum()) - sum(bool(new[w]) for w in results.unproven),
            audited=len(results.audits),
            unsolved=sum(w not in answered or answered[w].certified for w in results.unsolved),
            routes={
                name: n
                for name, n in zip(results.routes, routes, strict=True)
                if n or name in ROUTES
            },
            by_class=by_class,
            errors=Counter(bad + [KINDS[status] for status in out.status[~good].tolist()]),
            predicates=predicates,
            pairs=pairs_,
            ranking=self._ranking(results, outcomes),
        )

    def _from_marks(self, results: Results, new: Bytes, good: Bytes) -> Counted:
        """Count by class, by predicate and by pairs of classes."""
        marks = self._marks(results, new)
        return (
            self._by_class(results, good),
            self._by_predicate(results, marks, good),
            self._pairs(results, marks, good),
        )

    def _ranking(self, results: Results, outcomes: Sequence[Outcome]) -> dict[str, Ranking]:
        """Count the probabilities of true and of false atoms, by predicate, where both are known."""
        found: dict[str, Ranking] = {}
        for world, outcome in zip(results.worlds, outcomes, strict=True):
            prediction = outcome.prediction
            if prediction is None or not prediction.marginals or world.example.truth is None:
                continue
            true = self._true(world.example.truth)
            for name, atoms in prediction.marginals.items():
                scores = np.array([atom.value for atom in atoms], np.float64)
                is_true = [(name, tuple(map(str, atom.args))) in true for atom in atoms]
                found.setdefault(name, Ranking()).add(scores, np.array(is_true, np.bool_))
        return found

    def _marks(self, results: Results, chosen: Bytes) -> Positives:
        """Return the true and predicted atoms of chosen worlds whose truth is known."""
        out, n = results.out, int(results.out.true_start[-1])
        world = np.repeat(np.arange(len(chosen)), np.diff(out.true_start))
        columns = (out.true_query[:n], out.true_key[:n], out.true_mark[:n])
        kept = chosen & (results.batch.labelled != 0)
        return Positives(world, *(each.astype(np.int64) for each in columns)).of(kept[world])

    def _by_predicate(self, results: Results, marks: Positives, good: Bytes) -> dict[str, Ints]:
        """Return hits, false alarms and misses of each query predicate."""
        query = self.layout.plan.query
        found = dict(zip(query, marks.by_query(len(query)), strict=True))
        for w in results.answered:
            if good[w]:
                true, predicted = self._answered_atoms(results, w)
                for column, atoms in enumerate(
                    (true & predicted, predicted - true, true - predicted)
                ):
                    for name, _ in atoms:
                        found[name][column] += 1
        return found

    def _pairs(self, results: Results, marks: Positives, good: Bytes) -> Mapping[Pair, int] | None:
        """Return how often each class was predicted for each true one; see ``confusion.pairs``."""
        confusion, q = Confusion(), self.by.query
        if q < 0:
            return confusion.counts
        kinds, batch = self.names[q].kinds, results.batch
        kind = kinds[self.by.argument]
        declared = self.layout.constants[self.layout.types[kind]]
        shared = bool(np.all(batch.domain[:, kind] == len(declared)))
        confusion.add(
            marks.of(marks.query == q).pairs(
                batch.domain[:, kinds].astype(np.int64),
                self.by.argument,
                lambda w: declared if shared else self.packer.names(batch, w, kind),
                shared,
            )
        )
        name = self.layout.plan.query[q]
        argument = self.layout.radix_order(name)[self.by.argument]
        for w in results.answered:
            if good[w]:
                true, predicted = self._answered_atoms(results, w)
                atoms = (
                    (args, (of, args) in true, (of, args) in predicted)
                    for of, args in true | predicted
                    if of == name
                )
                confusion.add(pairs(atoms, argument))
        return confusion.counts

    def _by_class(self, results: Results, good: Bytes) -> dict[str, Ints]:
        if self.by.query < 0:
            return {}
        code, out = self.layout.plans, results.out
        at = code.query_start[self.by.query] + self.by.argument
        kind = int(code.query_type[at])
        sizes = np.diff(out.class_start)
        if len(sizes) and np.all(sizes == code.declared[kind]):
            names = self.layout.constants[self.layout.types[kind]]
            table = out.by_class.reshape(len(sizes), -1, 3)[good].sum(axis=0)
            return dict(zip(names, table, strict=True))
        found: dict[str, Ints] = {}
        for w in np.flatnonzero(good).tolist():
            rows = out.by_class[out.class_start[w] : out.class_start[w + 1]]
            for name, row in zip(self.packer.names(results.batch, w, kind), rows, strict=True):
                found[str(name)] = found.get(str(name), 0) + row
        return found
