"""What is said of the worlds of a batch: predictions, reasons why examples are bad, counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from onlinesrl.confusion import Confusion, Pair, pairs
from onlinesrl.errors import printable
from onlinesrl.ground.encode import Layout
from onlinesrl.ground.model import Indices
from onlinesrl.ground.pack import AtomNames, Packer, World
from onlinesrl.kernels import ground, network
from onlinesrl.kernels import learn as k
from onlinesrl.lang.example import Constant, ValuedAtom, arguments, show_ground_atom
from onlinesrl.lang.normal import Clause
from onlinesrl.lang.text import quote
from onlinesrl.learn.learner import Outcome, Prediction, Tally
from onlinesrl.learn.marks import SAID, Marks
from onlinesrl.learn.weights import WeightTable

ROUTES = dict(enumerate(("elimination", "ilp", "walksat", "lp", "mcsat")))
UNSOLVED = 32
"""The status of a world that was left because a search ended at its limit; see kernels.learn."""
KINDS = {
    k.TRUTH_NOT_OPEN: "not_open",
    k.TRUTH_BREAKS_GROUP: "hard_rule",
    k.TRUTH_BREAKS_RULE: "hard_rule",
    k.INFEASIBLE: "infeasible",
    ground.EVIDENCE_BREAKS_RULE: "hard_rule",
    ground.TOO_MANY_ATOMS: "limit",
    ground.TOO_MANY_GROUNDINGS: "limit",
    k.OVERFLOW: "overflow",
    UNSOLVED: "unsolved",
}
"""What kind of ExampleError the kernel's statuses are."""

_Atom: TypeAlias = tuple[str, tuple[str, ...]]
"""A query predicate and the spelling of its arguments."""


class Taken(NamedTuple):
    """Worlds that have been taken, and what was written of them."""

    batch: ground.Batch
    worlds: Sequence[World]
    out: k.Output
    served: Mapping[int, Prediction]  # by world, what was given out before its truth came
    unproven: Collection[int]  # the worlds whose prediction is not certified
    unsolved: Collection[int]  # the worlds of which a search ended at its limit

    def first(self, n: int) -> Taken:
        """Return the first worlds only: the others have not been taken."""
        batch, out = self.batch, self.out
        if n == len(self.worlds):
            return self
        classes = out.class_start[: n + 1]
        whole = {"true_query", "true_key", "true_mark", "true_start", "class_start", "by_class"}
        columns = {name: getattr(out, name)[:n] for name in out._names if name not in whole}
        return Taken(
            replace(batch, labelled=batch.labelled[:n], domain=batch.domain[:n]),
            self.worlds[:n],
            replace(
                out,
                **columns,
                true_start=out.true_start[: n + 1],
                class_start=classes,
                by_class=out.by_class[: classes[-1]],
            ),
            {w: prediction for w, prediction in self.served.items() if w < n},
            {w for w in self.unproven if w < n},
            {w for w in self.unsolved if w < n},
        )


class Teller:
    """Puts in words and counts what was written of worlds."""

    def __init__(self, layout: Layout, weights: WeightTable, packer: Packer, settings: k.Settings):
        self.layout = layout
        self.weights = weights
        self.packer = packer
        self.settings = settings
        self.names = [AtomNames(layout, name) for name in layout.plan.query]

    def outcomes(self, taken: Taken) -> list[Outcome]:
        """Return the outcome of every world; its counts become those of what was given out."""
        out = taken.out
        for w in taken.served:
            if out.status[w] == ground.OK:
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
            if status[w] != ground.OK:
                reason = printable(self.reason(taken, w))
                outcomes.append(Outcome(None, reason, status[w] == UNSOLVED))
                continue
            if w in taken.served:
                given = msgspec.structs.replace(taken.served[w], hamming=hamming[w])
                outcomes.append(Outcome(given))
                continue
            example = world.example
            outcomes.append(
                Outcome(
                    Prediction(
                        example.id,
                        self._atoms(taken.batch, w, slice(starts[w], starts[w + 1]), queries, keys),
                        scores[w],
                        w not in taken.unproven,
                        example.group,
                        hamming[w] if example.truth is not None else None,
                        margins[w],
                    )
                )
            )
        return outcomes

    def _atoms(
        self,
        batch: ground.Batch,
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
        if self.settings.by_query >= 0:
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
        name = self.layout.plan.query[self.settings.by_query]
        argument = self.layout.radix_order(name)[self.settings.by_argument]
        kind = self.layout.type_number[self.layout.arguments(name)[argument]]
        names = map(str, self.packer.names(taken.batch, w, kind))
        number = {value: n for n, value in enumerate(names, taken.out.class_start.item(w))}
        taken.out.by_class[taken.out.class_start[w] : taken.out.class_start[w + 1]] = 0
        for column, atoms in enumerate((true & said, said - true, true - said)):
            for args in (args for of, args in atoms if of == name):
                taken.out.by_class[number[args[argument]], column] += 1

    def reason(self, taken: Taken, w: int) -> str:
        """Say why a world is bad."""
        batch, detail, clauses = taken.batch, int(taken.out.detail[w]), self.weights.clauses
        keys = self.packer.keys
        reasons: dict[int, Callable[[], str]] = {
            k.TRUTH_NOT_OPEN: lambda: self._not_open(batch, w, detail),
            k.TRUTH_BREAKS_GROUP: lambda: (
                "the truth breaks "
                + " or ".join(sorted(g.show(q) for q, g in self.layout.plan.groups.items()))
            ),
            k.TRUTH_BREAKS_RULE: lambda: f"the truth breaks the hard rule {clauses[detail].text}",
            k.INFEASIBLE: lambda: "no state satisfies the hard rules",
            k.OVERFLOW: lambda: (
                "its update is beyond the range of numbers: learner.sigma is too small, or the "
                "weights are too large"
            ),
            UNSOLVED: lambda: (
                "the search ended at its limit (inference.max_work, max_nodes) without a proven answer"
            ),
            ground.EVIDENCE_BREAKS_RULE: lambda: (
                "the evidence breaks the hard rule " + clauses[detail].text
            ),
            ground.TOO_MANY_ATOMS: lambda: (
                f"more query atoms than {keys.atoms} ({self.settings.max_atoms})"
            ),
            ground.TOO_MANY_GROUNDINGS: lambda: self._too_many(clauses[detail]),
        }
        return reasons[int(taken.out.status[w])]()

    def _too_many(self, clause: Clause) -> str:
        """Say which rule has too many ground clauses, and what to do."""
        keys, most = self.packer.keys, self.settings.max_groundings
        line = self.layout.plan.program.rules[clause.rule].position.line
        long = f", where {ground.LITERALS_EACH} literals more count as another one"
        return (
            f"more ground clauses than {keys.groundings} ({most}), reached in the rule {clause.text} "
            f"(line {line}){long if clause.exists else ''}; {keys.advice} a condition that evidence "
            f"decides to the rule, or a hard rule that decides atoms; or raise {keys.groundings}"
        )

    def _not_open(self, batch: ground.Batch, w: int, detail: int) -> str:
        slot, row = detail >> 32, detail & 0xFFFFFFFF
        name, told = self.layout.slot_predicates()[slot], self.packer.told(batch, slot, w, row)
        atom = show_ground_atom(name, [constant for constant, _ in told])
        said = f"truth atom {atom} is not an open atom of the example: "
        unknown = [(constant, kind) for constant, kind in told if kind is not None]
        listed = batch.listed[w] == ground.LISTED
        if not unknown or listed:
            return (
                said
                + ("it is not in its `query`, or " if listed else "")
                + ("evidence says otherwise")
            )
        constant, kind = unknown[0]
        return said + (
            f"only the truth names the {kind} {constant}; declare it in the model, `{kind} = "
            f"{{{quote(str(constant))}, ...}}` (`...`: and what the stream brings), name it in the "
            "evidence, or list the atoms to predict in `query`"
        )

    def tally(self, taken: Taken, bad: list[str], audited: int) -> Tally:
        """Count a batch; ``bad`` are the kinds of those that did not come to the kernel."""
        out, served = taken.out, taken.served
        good = out.status == ground.OK
        new = good.copy()
        new[list(served)] = False
        routes = np.bincount(out.route[new], minlength=len(ROUTES))
        marks = self._marks(taken, new)
        return Tally(
            counts=out.counts[good].sum(axis=0),
            labelled=int(np.sum(taken.batch.labelled[good])),
            predicted=int(new.sum()),
            certified=int(new.sum()) - sum(bool(new[w]) for w in taken.unproven),
            audited=audited,
            unsolved=sum(w not in served or served[w].certified for w in taken.unsolved),
            routes={ROUTES[n]: int(routes[n]) for n in ROUTES if routes[n] or n <= k.ILP},
            by_class=self._by_class(taken, good),
            errors=Counter(bad + [KINDS[status] for status in out.status[~good].tolist()]),
            predicates=self._by_predicate(taken, marks, good),
            pairs=self._pairs(taken, marks, good),
        )

    def _marks(self, taken: Taken, chosen: network.Bytes) -> Marks:
        """Return the true and predicted atoms of chosen worlds whose truth is known."""
        out, n = taken.out, int(taken.out.true_start[-1])
        world = np.repeat(np.arange(len(chosen)), np.diff(out.true_start))
        columns = (out.true_query[:n], out.true_key[:n], out.true_mark[:n])
        kept = chosen & (taken.batch.labelled != 0)
        return Marks(world, *(each.astype(np.int64) for each in columns)).of(kept[world])

    def _by_predicate(self, taken: Taken, marks: Marks, good: network.Bytes) -> dict[str, Indices]:
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

    def _pairs(self, taken: Taken, marks: Marks, good: network.Bytes) -> Mapping[Pair, int] | None:
        """Return how often each class was predicted for each true one; see ``confusion.pairs``."""
        confusion, q = Confusion(), self.settings.by_query
        if q < 0:
            return confusion.counts
        kinds, batch = self.names[q].kinds, taken.batch
        kind = kinds[self.settings.by_argument]
        declared = self.layout.constants[self.layout.types[kind]]
        shared = bool(np.all(batch.domain[:, kind] == len(declared)))
        confusion.add(
            marks.of(marks.query == q).pairs(
                batch.domain[:, kinds].astype(np.int64),
                self.settings.by_argument,
                lambda w: declared if shared else self.packer.names(batch, w, kind),
                shared,
            )
        )
        name = self.layout.plan.query[q]
        argument = self.layout.radix_order(name)[self.settings.by_argument]
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

    def _by_class(self, taken: Taken, good: network.Bytes) -> dict[str, Indices]:
        if self.settings.by_query < 0:
            return {}
        plans, out = self.weights.plans, taken.out
        at = plans.query_start[self.settings.by_query] + self.settings.by_argument
        kind = int(plans.query_type[at])
        sizes = np.diff(out.class_start)
        if len(sizes) and np.all(sizes == plans.declared[kind]):
            names = self.layout.constants[self.layout.types[kind]]
            table = out.by_class.reshape(len(sizes), -1, 3)[good].sum(axis=0)
            return dict(zip(names, table, strict=True))
        found: dict[str, Indices] = {}
        for w in np.flatnonzero(good).tolist():
            rows = out.by_class[out.class_start[w] : out.class_start[w + 1]]
            for name, row in zip(self.packer.names(taken.batch, w, kind), rows, strict=True):
                found[str(name)] = found.get(str(name), 0) + row
        return found
