"""What is said of the worlds of a batch: predictions, reasons why examples are bad, counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import msgspec
import numpy as np

from onlinesrl.core.arrays import Bytes, Ints
from onlinesrl.core.confusion import Confusion, Pair, pairs
from onlinesrl.core.counts import BEYOND_RANGE
from onlinesrl.core.errors import printable
from onlinesrl.core.example import Constant, ValuedAtom, arguments
from onlinesrl.core.learner import Outcome, Prediction, Tally
from onlinesrl.core.ranking import Ranking
from onlinesrl.mln.engines.diagnostics import Diagnostics
from onlinesrl.mln.ground import reasons
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.ground.pack import World
from onlinesrl.mln.kernels import outcome as k
from onlinesrl.mln.kernels import plans
from onlinesrl.mln.kernels.plans import INFEASIBLE
from onlinesrl.mln.marks import SAID, Marks

ELIMINATION, ILP = 0, 1
ROUTES = ("elimination", "ilp")
"""The routes that are always counted; others are, once an engine has taken them."""
OVERFLOW, UNSOLVED = 24, 32
"""The status of a world whose update is beyond the range of numbers; whose search ended at its limit."""
_REASONS = {
    INFEASIBLE: "no state satisfies the hard rules",
    OVERFLOW: BEYOND_RANGE,
    UNSOLVED: (
        "the search ended at its limit (inference.max_work, max_nodes) without a proven answer"
    ),
}
KINDS = {
    **reasons.KINDS,
    INFEASIBLE: "infeasible",
    OVERFLOW: "overflow",
    UNSOLVED: "unsolved",
}
"""What kind of ExampleError the statuses are."""

_Atom: TypeAlias = tuple[str, tuple[str, ...]]
"""A query predicate and the spelling of its arguments."""


@dataclass(eq=False)
class Taken:
    """The worlds of a batch, and what was written of those that have been taken."""

    batch: plans.Batch
    worlds: Sequence[World]
    out: k.Output
    routes: list[str]  # the names of what ``out.route`` numbers
    served: Mapping[int, Prediction]  # by world, what was given out before its truth came
    unproven: set[int] = field(default_factory=set)  # those whose prediction is not certified
    unsolved: set[int] = field(default_factory=set)  # those of which a search ended at its limit
    audits: dict[int, float] = field(default_factory=dict)  # the score that another engine found
    marginals: dict[int, dict[str, list[ValuedAtom]]] = field(default_factory=dict)
    diagnostics: dict[int, Diagnostics] = field(default_factory=dict)

    def first(self, n: int) -> Taken:
        """Return the first worlds only: the others have not been taken."""
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
            served={w: prediction for w, prediction in self.served.items() if w < n},
            unproven={w for w in self.unproven if w < n},
            unsolved={w for w in self.unsolved if w < n},
            audits={w: value for w, value in self.audits.items() if w < n},
        )


class Teller:
    """Puts in words and counts what was written of worlds."""

    def __init__(self, grounder: Grounder, by: k.By):
        self.grounder = grounder
        self.layout, self.packer, self.names = grounder.layout, grounder.packer, grounder.names
        self.by = by

    def outcomes(self, taken: Taken) -> list[Outcome]:
        """Return the outcome of every world; its counts become those of what was given out."""
        out = taken.out
        for w in taken.served:
            if out.status[w] == plans.OK:
                self._score_served(taken, w)
        said = out.true_mark[: out.true_start[-1]] & SAID != 0
        starts = np.append(0, np.cumsum(said))[out.true_start].tolist()
        queries, keys = (
            each[: len(said)][said].tolist() for each in (out.true_query, out.true_key)
        )
        status = out.status.tolist()
        scores, hamming = out.score.tolist(), out.counts[:, k.HAMMING].tolist()
        margins = [m if math.isfinite(m) else None for m in out.margin.tolist()]
        outcomes = []
        for w, world in enumerate(taken.worlds):
            if status[w] != plans.OK:
                reason = printable(self.reason(taken, w))
                outcomes.append(Outcome(None, reason, status[w] == UNSOLVED))
                continue
            if w in taken.served:
                given = msgspec.structs.replace(taken.served[w], hamming=hamming[w])
                outcomes.append(Outcome(given))
                continue
            example = world.example
            prediction = Prediction(
                example.id,
                self._atoms(taken.batch, w, slice(starts[w], starts[w + 1]), queries, keys),
                scores[w],
                w not in taken.unproven,
                example.group,
                hamming[w] if example.truth is not None else None,
                margins[w],
                marginals=taken.marginals.get(w),
            )
            if w in taken.diagnostics:
                prediction.r_hat = round(taken.diagnostics[w].largest_r_hat, 4)
                prediction.ess = round(taken.diagnostics[w].least_ess, 1)
            outcomes.append(Outcome(prediction))
        return outcomes

    def _atoms(
        self,
        batch: plans.Batch,
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

    def _score_served(self, taken: Taken, w: int) -> None:
        """Count by the prediction that was given out; what the kernel counted is another one's."""
        count = taken.out.counts[w]
        true, said = self._served_atoms(taken, w)
        wrong = {self._unit(*atom) for atom in true ^ said}
        count[k.HITS] = len(true & said)
        count[k.FALSE_ALARMS], count[k.MISSES] = len(said - true), len(true - said)
        count[k.RIGHT_UNITS] = count[k.UNITS] - len(wrong)
        count[k.HAMMING] = len(true ^ said)
        count[k.EXACT] = not wrong
        if self.by.query >= 0:
            self._count_classes(taken, w, true, said)

    def _served_atoms(self, taken: Taken, w: int) -> tuple[set[_Atom], set[_Atom]]:
        """Return the true and the predicted atoms of a world whose prediction was given out before."""
        example = taken.worlds[w].example
        true = self._true(example.truth or {}) - self._true(example.evidence)
        return true, self._true(taken.served[w].predicted)

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

    def _count_classes(self, taken: Taken, w: int, true: set[_Atom], said: set[_Atom]) -> None:
        """Count hits, false alarms and misses for each value of the chosen argument."""
        name = self.layout.plan.query[self.by.query]
        argument = self.layout.radix_order(name)[self.by.argument]
        kind = self.layout.type_number[self.layout.arguments(name)[argument]]
        names = map(str, self.packer.names(taken.batch, w, kind))
        number = {value: n for n, value in enumerate(names, taken.out.class_start.item(w))}
        taken.out.by_class[taken.out.class_start[w] : taken.out.class_start[w + 1]] = 0
        for column, atoms in enumerate((true & said, said - true, true - said)):
            for args in (args for of, args in atoms if of == name):
                taken.out.by_class[number[args[argument]], column] += 1

    def reason(self, taken: Taken, w: int) -> str:
        """Say why a world is bad."""
        status, detail = int(taken.out.status[w]), int(taken.out.detail[w])
        if status in _REASONS:
            return _REASONS[status]
        return self.grounder.reasons.of(taken.batch, w, status, detail)

    def tally(self, taken: Taken, outcomes: Sequence[Outcome], bad: list[str]) -> Tally:
        """Count a batch and its outcomes; ``bad`` are the kinds of those that were not ground."""
        out, served = taken.out, taken.served
        good = out.status == plans.OK
        new = good.copy()
        new[list(served)] = False
        routes = np.bincount(out.route[new], minlength=len(taken.routes)).tolist()
        marks = self._marks(taken, new)
        return Tally(
            counts=out.counts[good].sum(axis=0),
            labelled=int(np.sum(taken.batch.labelled[good])),
            predicted=int(new.sum()),
            certified=int(new.sum()) - sum(bool(new[w]) for w in taken.unproven),
            audited=len(taken.audits),
            unsolved=sum(w not in served or served[w].certified for w in taken.unsolved),
            routes={
                name: n for name, n in zip(taken.routes, routes, strict=True) if n or name in ROUTES
            },
            by_class=self._by_class(taken, good),
            errors=Counter(bad + [KINDS[status] for status in out.status[~good].tolist()]),
            predicates=self._by_predicate(taken, marks, good),
            pairs=self._pairs(taken, marks, good),
            ranking=self._ranking(taken, outcomes),
        )

    def _ranking(self, taken: Taken, outcomes: Sequence[Outcome]) -> dict[str, Ranking]:
        """Count the probabilities of true and of false atoms, by predicate, where both are known."""
        found: dict[str, Ranking] = {}
        for world, outcome in zip(taken.worlds, outcomes, strict=True):
            prediction = outcome.prediction
            if prediction is None or not prediction.marginals or world.example.truth is None:
                continue
            true = self._true(world.example.truth)
            for name, atoms in prediction.marginals.items():
                scores = np.array([atom.value for atom in atoms], np.float64)
                is_true = [(name, tuple(map(str, atom.args))) in true for atom in atoms]
                found.setdefault(name, Ranking()).add(scores, np.array(is_true, np.bool_))
        return found

    def _marks(self, taken: Taken, chosen: Bytes) -> Marks:
        """Return the true and predicted atoms of chosen worlds whose truth is known."""
        out, n = taken.out, int(taken.out.true_start[-1])
        world = np.repeat(np.arange(len(chosen)), np.diff(out.true_start))
        columns = (out.true_query[:n], out.true_key[:n], out.true_mark[:n])
        kept = chosen & (taken.batch.labelled != 0)
        return Marks(world, *(each.astype(np.int64) for each in columns)).of(kept[world])

    def _by_predicate(self, taken: Taken, marks: Marks, good: Bytes) -> dict[str, Ints]:
        """Return hits, false alarms and misses of each query predicate."""
        query = self.layout.plan.query
        found = dict(zip(query, marks.by_query(len(query)), strict=True))
        for w in taken.served:
            if good[w]:
                true, said = self._served_atoms(taken, w)
                for column, atoms in enumerate((true & said, said - true, true - said)):
                    for name, _ in atoms:
                        found[name][column] += 1
        return found

    def _pairs(self, taken: Taken, marks: Marks, good: Bytes) -> Mapping[Pair, int] | None:
        """Return how often each class was predicted for each true one; see ``confusion.pairs``."""
        confusion, q = Confusion(), self.by.query
        if q < 0:
            return confusion.counts
        kinds, batch = self.names[q].kinds, taken.batch
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
        for w in taken.served:
            if good[w]:
                true, said = self._served_atoms(taken, w)
                atoms = (
                    (args, (of, args) in true, (of, args) in said)
                    for of, args in true | said
                    if of == name
                )
                confusion.add(pairs(atoms, argument))
        return confusion.counts

    def _by_class(self, taken: Taken, good: Bytes) -> dict[str, Ints]:
        if self.by.query < 0:
            return {}
        code, out = self.layout.plans, taken.out
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
            for name, row in zip(self.packer.names(taken.batch, w, kind), rows, strict=True):
                found[str(name)] = found.get(str(name), 0) + row
        return found
