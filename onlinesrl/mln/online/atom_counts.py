"""Counts of true and predicted atoms by class, by query predicate and as a confusion matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Bools, Bytes, Floats, Ints
from onlinesrl.core.evaluation.confusion_matrix import Confusion, Pair, pairs
from onlinesrl.core.example import Atom, Rows, ValuedAtom, arguments
from onlinesrl.core.learner import Prediction, Tally
from onlinesrl.mln.ground.atom_names import AtomNames
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.kernels import batch_report
from onlinesrl.mln.kernels import prediction_counts as k
from onlinesrl.mln.kernels.batch_report import LATENT, PREDICTED, TRUE
from onlinesrl.mln.kernels.grounding_frames import LISTED, Batch
from onlinesrl.mln.online.results import Results

_OUTCOMES = [PREDICTED | TRUE, PREDICTED, TRUE]
"""The marks of hits, false alarms and misses."""
MOST_CLASSES = 64
"""The largest number of classes whose pairs (true, predicted) a kernel counts."""


class AtomCounter:
    """A counter of the atoms of a batch.

    ``by`` is a query predicate and the number of the argument whose values are the classes.
    """

    def __init__(self, grounder: Grounder, by: tuple[str, int] | None) -> None:
        self.layout, self.packer, self.names = grounder.layout, grounder.packer, grounder.names
        self.query = self.layout.plan.query
        self.by = k.By(-1, 0)
        if by is not None:
            self.predicate, self.argument = by
            place = self.layout.radix_order(self.predicate).index(self.argument)
            self.by = k.By(self.query.index(self.predicate), place)
            self.kinds = self.names[self.by.query].kinds
            self.kind = self.kinds[place]
            self.declared = self.layout.constants[self.layout.types[self.kind]]

    def count(self, results: Results, new: Bytes, good: Bytes, tally: Tally) -> None:
        """Count atoms of the labelled ``good`` worlds in a tally: by class, by predicate, and class pairs.

        ``new`` marks the good worlds that have been predicted in this batch, not before it.
        """
        if self._countable(results):
            self._by_kernel(results, good, tally)
            return
        # the true and predicted atoms of the worlds that are not scored apart and whose truth is known
        batch, out, n = results.batch, results.out, int(results.out.true_start[-1])
        selected = new & ~np.isin(np.arange(len(new)), [*results.apart]) & (batch.labelled != 0)
        world = np.repeat(np.arange(len(selected)), np.diff(out.true_start))
        columns = (out.true_query[:n], out.true_key[:n], out.true_mark[:n])
        counted = selected[world] & (columns[-1] & LATENT == 0)
        marks = Positives(world, *(c.astype(np.int64) for c in columns)).of(counted)

        apart = [atoms for w, atoms in results.apart.items() if good[w]]
        by_query = marks.by_query(len(self.query))
        predicates = dict(zip(self.query, by_query, strict=True))
        for true, predicted in apart:
            for column, atoms in enumerate(outcomes(true, predicted)):
                for name, _ in atoms:
                    predicates[name][column] += 1
        tally.predicates = self._of_atoms(results.batch, good, by_query)
        if self.by.query < 0:
            return

        by_class: dict[str, Ints] = {}
        sizes = np.diff(out.class_start)
        if len(sizes) and np.all(sizes == self.layout.plans.declared[self.kind]):
            table = out.by_class.reshape(len(sizes), -1, 3)[good].sum(axis=0)
            by_class = dict(zip(self.declared, table, strict=True))
        else:
            for w in np.flatnonzero(good).tolist():
                rows = out.by_class[out.class_start[w] : out.class_start[w + 1]]
                for value, row in zip(self.packer.names(batch, w, self.kind), rows, strict=True):
                    by_class[str(value)] = by_class.get(str(value), 0) + row

        confusion = Confusion()  # counts of (true class, predicted class)
        shared = bool(np.all(batch.domain[:, self.kind] == len(self.declared)))
        confusion.add(
            marks.of(marks.query == self.by.query).pairs(
                batch.domain[:, self.kinds].astype(np.int64),
                self.by.argument,
                lambda w: self.declared if shared else self.packer.names(batch, w, self.kind),
                shared,
            )
        )
        for true, predicted in apart:
            scored = (
                (args, (name, args) in true, (name, args) in predicted)
                for name, args in true | predicted
                if name == self.predicate
            )
            confusion.add(pairs(scored, self.argument))
        tally.by_class, tally.pairs = by_class, confusion.counts

    # by a kernel -------------------------------------------------------------------------------

    def _countable(self, results: Results) -> bool:
        """Tell whether a kernel can count this batch.

        No world may list its atoms, have an earlier prediction, or be scored on some atoms only. All worlds
        must have the same classes, and the class must be the last argument in radix order.
        """
        if results.answered or results.apart or results.batch.listed.any():
            return False
        if self.by.query < 0:
            return True
        if self.by.argument != len(self.kinds) - 1 or len(self.declared) > MOST_CLASSES:
            return False
        return bool(np.all(results.batch.domain[:, self.kind] == len(self.declared)))

    def _of_atoms(self, batch: Batch, good: Bytes, by_query: Ints) -> dict[str, Ints]:
        """Return the rows, int64[query predicate, 3], of predicates with atoms in labelled good worlds."""
        scored, listed = good & (batch.labelled != 0), batch.listed == LISTED

        def is_there(names: AtomNames) -> bool:
            sizes = batch.domain[scored & ~listed][:, names.kinds]
            counts = batch.count[scored & listed, self.layout.listed[names.name]]
            return bool(sizes.all(axis=1).any() or counts.any())

        rows = zip(self.names, by_query, strict=True)
        return {names.name: row for names, row in rows if row.any() or is_there(names)}

    def _by_kernel(self, results: Results, good: Bytes, tally: Tally) -> None:
        classes = self.declared if self.by.query >= 0 else ()
        n = len(classes)
        by_class, predicates = np.zeros((n, 3), np.int64), np.zeros((len(self.query), 3), np.int64)
        cells = np.zeros((n + 1, n + 1), np.int64)
        counts = batch_report.Counts(by_query=predicates, by_class=by_class, pairs=cells)
        single = batch_report.count(results.batch, self.by, results.out, counts)
        spelled = [None, *classes]
        confusion = {
            (spelled[true], spelled[predicted]): int(cells[true, predicted])
            for true, predicted in np.argwhere(cells).tolist()
        }
        tally.by_class = dict(zip(classes, by_class, strict=True))
        tally.predicates = self._of_atoms(results.batch, good, predicates)
        tally.pairs = confusion if single else None

    # earlier predictions, and those scored on some atoms only ---------------------------

    def count_apart(self, results: Results, w: int, prediction: Prediction) -> None:
        """Replace the kernel's counts of a world: by its earlier prediction, or on the atoms asked for."""
        count, (example, _, asked, unlabelled) = results.out.counts[w], results.worlds[w]
        example = example.whole()
        true = self.true_atoms(example.truth or {}) - self.true_atoms(example.evidence)
        predicted = self.true_atoms(prediction.predicted)
        predicted = {atom for atom in predicted if atom not in unlabelled}
        if asked is not None:
            scored = {atom for atom in asked if atom not in unlabelled}
            true, predicted = true & scored, predicted & scored
            count[k.UNITS] = len({self._unit(*atom) for atom in scored})
        results.apart[w] = true, predicted
        wrong = {self._unit(*atom) for atom in true ^ predicted}
        count[k.HITS] = len(true & predicted)
        count[k.FALSE_ALARMS], count[k.MISSES] = len(predicted - true), len(true - predicted)
        count[k.RIGHT_UNITS] = count[k.UNITS] - len(wrong)
        count[k.HAMMING] = len(true ^ predicted)
        count[k.EXACT] = not wrong
        if self.by.query < 0:
            return
        names = map(str, self.packer.names(results.batch, w, self.kind))
        first, stop = results.out.class_start[w : w + 2].tolist()
        number = {value: n for n, value in enumerate(names, first)}
        results.out.by_class[first:stop] = 0
        for column, atoms in enumerate(outcomes(true, predicted)):
            for name, args in atoms:
                if name == self.predicate:
                    results.out.by_class[number[args[self.argument]], column] += 1

    def wrong(
        self, results: Results, w: int, prediction: Prediction
    ) -> tuple[set[Atom], set[Atom]] | None:
        """Return the true atoms that are not predicted, and those predicted that are not true.

        None where the truth of some atoms is not known, or not asked.
        """
        example, _, asked, unlabelled = results.worlds[w]
        if not example.labelled or unlabelled or asked is not None:
            return None
        if prediction.hamming == 0:
            return set(), set()
        example = example.whole()
        true = self.true_atoms(example.truth or {}) - self.true_atoms(example.evidence)
        predicted = self.true_atoms(prediction.predicted)
        return true - predicted, predicted - true

    def scored(self, results: Results, w: int) -> Sequence[tuple[str, Floats, Bools]]:
        """Return by predicate the probabilities of a world's scored atoms, and whether they are true."""
        scored = list[tuple[str, Floats, Bools]]()
        for name, truths in self.truths(results, w).items():
            scores = np.array([atom.value for atom in _marginals(results, w)[name]], np.float64)
            is_true = np.array(truths, np.bool_)
            if None in truths:
                known = [true is not None for true in truths]
                scores, is_true = scores[known], is_true[known]
            if len(scores):
                scored.append((name, scores, is_true))
        return scored

    def truths(self, results: Results, w: int) -> Mapping[str, list[bool | None]]:
        """Return by predicate whether each open atom of a world is true; None: it is not scored."""
        if w in results.truths:
            return results.truths[w]
        example, _, asked, unlabelled = results.worlds[w]
        true = self.true_atoms(example.truth or {})
        truths = results.truths[w] = dict[str, list[bool | None]]()
        for name, open_atoms in _marginals(results, w).items():
            atoms = [(name, tuple(map(str, atom.args))) for atom in open_atoms]
            truths[name] = [atom in true for atom in atoms]
            if unlabelled or asked is not None:
                for n, atom in enumerate(atoms):
                    if atom in unlabelled or (asked is not None and atom not in asked):
                        truths[name][n] = None
        return truths

    def true_atoms(self, atoms: Rows) -> set[Atom]:
        """Return the true atoms of query predicates."""
        return {
            (name, tuple(map(str, arguments(atom))))
            for name in self.query
            for atom in atoms.get(name, ())
            if not isinstance(atom, ValuedAtom) or atom.value
        }

    def _unit(self, name: str, args: tuple[str, ...]) -> Atom:
        """Return the predicate and the arguments that all atoms of the atom's unit share."""
        group = self.layout.plan.groups.get(name)
        return name, tuple(
            a for n, a in enumerate(args) if group is None or n not in group.arguments
        )


def _marginals(results: Results, w: int) -> Mapping[str, Sequence[ValuedAtom]]:
    """Return the probabilities that predicted a world, earlier or now."""
    answer = results.answered.get(w)
    return (results.marginals.get(w) if answer is None else answer.marginals) or {}


def outcomes(true: set[Atom], predicted: set[Atom]) -> tuple[set[Atom], set[Atom], set[Atom]]:
    """Return hits, false alarms and misses."""
    return true & predicted, predicted - true, true - predicted


class Positives(NamedTuple):
    """The true or predicted atoms of several worlds, ordered by world; each field is [atom]."""

    world: Ints
    query: Ints
    key: Ints  # the number among the groundings of the query predicate
    mark: Ints

    def of(self, selected: Ints) -> Positives:
        """Return the ``selected`` atoms, bool[atom] or indices."""
        return Positives(*(column[selected] for column in self))

    def by_query(self, queries: int) -> Ints:
        """Return hits, false alarms and misses of each query predicate, int64[queries, 3]."""
        counts = np.bincount(4 * self.query + self.mark, minlength=4 * queries)
        return counts.reshape(queries, 4)[:, _OUTCOMES]

    def classes(self, sizes: Ints, argument: int) -> tuple[Ints, Ints]:
        """Return the class of each atom (the value of ``argument``) and its unit (the other arguments).

        ``sizes`` int64[world, argument] is the number of constants of each argument, in radix order.
        All atoms must have the same query predicate.
        """
        below = np.prod(sizes[:, argument + 1 :], axis=1, dtype=np.int64)[self.world]
        size = sizes[self.world, argument]
        above, rest = np.divmod(self.key, below * size)
        return rest // below, above * below + rest % below

    def pairs(
        self, sizes: Ints, argument: int, names: Callable[[int], Sequence[object]], shared: bool
    ) -> Counter[Pair] | None:
        """Return the counts of (true class, predicted class); None if a unit has several classes.

        ``names`` returns the names of the classes of a world. ``shared``: all worlds have the same names.
        """
        kind, unit = self.classes(sizes, argument)
        most = int(sizes[:, argument].max(initial=1))
        number = 1 + kind if shared else 1 + self.world * most + kind
        if unit.max(initial=0) >= 2**62 // max(1, len(sizes)):
            unit = np.unique(unit, return_inverse=True)[1]
        unit = self.world * (1 + unit.max(initial=0)) + unit
        order = np.argsort(unit, kind="stable")
        unit, number, mark = unit[order], number[order], self.mark[order]
        begins = np.ones(len(unit), np.bool_)
        np.not_equal(unit[1:], unit[:-1], out=begins[1:])
        group = np.cumsum(begins) - 1
        columns = np.zeros((2, int(begins.sum())), np.int64)
        for column, mark_bit in zip(columns, (TRUE, PREDICTED), strict=True):
            marked = np.flatnonzero(mark & mark_bit)
            column[group[marked]] = number[marked]
            if np.count_nonzero(column) < len(marked):
                return None
        span = 1 + most * len(sizes)
        cells, counts = np.unique(columns[0] * span + columns[1], return_counts=True)

        def spelled(n: int) -> str | None:
            return str(names((n - 1) // most)[(n - 1) % most]) if n else None

        confusion: Counter[Pair] = Counter()
        for cell, n in zip(cells.tolist(), counts.tolist(), strict=True):
            confusion[spelled(cell // span), spelled(cell % span)] += n
        return confusion
