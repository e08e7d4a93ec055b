"""Exact simplification of a ground model before search and sampling; scores and marginals are kept.

Unit propagation over hard clauses and groups fixes atoms. Two hard clauses ``x v y`` and
``!x v !y`` make ``y`` equivalent to ``!x``: inertia written as hard rules grounds to chains of
hundreds of such pairs, which local search cannot cross. Then equal clauses are merged, clauses of
weight zero removed, and atoms defined by hard clauses put last.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.engines.gates import Literals, definitions
from onlinesrl.mln.ground.model import ClauseModel, State
from onlinesrl.mln.kernels.clauses import Clauses

Values = TypeVar("Values", State, Floats)

HARD_MARGIN = 1000.0
"""The least difference in score between feasible and infeasible states; exp(-1000) is 0 in a float."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """The simplified clauses, and the model's atoms in terms of the remaining ones.

    The value of the model's atom ``i`` is entry ``stands_for[i]`` of the concatenation of the remaining
    atoms' values, their complements, 0 and 1. Remaining atom ``k`` is the model's atom ``kept[k]``.
    """

    clauses: Clauses
    stands_for: Ints
    kept: Ints

    @property
    def n_atoms(self) -> int:
        """The number of atoms that remain."""
        return len(self.clauses.var_of)

    def expand(self, values: Values) -> Values:
        """Return values or probabilities of the model's atoms from those of the remaining ones."""
        zero = np.zeros(1, values.dtype)
        return np.concatenate((values, 1 - values, zero, 1 - zero))[self.stands_for]


def reduced(model: ClauseModel, weight: Floats, bonus: Floats | None = None) -> Reduced:
    """Simplify the model under weights and a bonus as in ``MapEngine.solve``.

    Raises Infeasible if propagation derives a contradiction, ValueError if a weight is not finite.
    """
    names = _Names(model)
    hard, soft = _split(model, weight, bonus)
    names.propagate(hard)
    left = {clause for clause in map(names.rewrite, hard) if clause is not None}
    merged: dict[Literals, float] = {}
    for clause, gain in soft.items():
        if rewritten := names.rewrite(clause):
            _add(merged, rewritten, gain)
    _turn_negative_pairs(merged)
    kept = {clause: gain for clause, gain in merged.items() if gain != 0}
    return _assemble(model, names, sorted(left), kept)


def _split(
    model: ClauseModel, weight: Floats, bonus: Floats | None
) -> tuple[list[Literals], dict[Literals, float]]:
    """Return the hard clauses, and the soft ones with their weights; the bonus becomes unit clauses."""
    bonus = np.zeros(0) if bonus is None else bonus
    if not (np.all(np.isfinite(weight)) and np.all(np.isfinite(bonus))):
        raise ValueError("the weights and the bonus must be finite")
    literals = model.literals.tolist()
    clauses = [tuple(sorted(literals[i:j])) for i, j in pairwise(model.start.tolist())]
    hard, soft = [], dict[Literals, float]()
    for clause, is_hard, gain in zip(clauses, model.hard.tolist(), weight.tolist(), strict=True):
        if is_hard:
            hard.append(clause)
        else:
            _add(soft, clause, gain)
    for atom, gain in enumerate(bonus.tolist(), start=1):
        _add(soft, (atom,), gain)
    return list(dict.fromkeys(hard)), soft


def _add(merged: dict[Literals, float], clause: Literals, weight: float) -> None:
    """Add a soft clause; ``!a`` of weight w is ``a`` of weight -w, up to a constant."""
    if len(clause) == 1 and clause[0] < 0:
        clause, weight = (-clause[0],), -weight
    merged[clause] = merged.get(clause, 0.0) + weight


def _turn_negative_pairs(merged: dict[Literals, float]) -> None:
    """Replace ``x v y`` and ``!x v !y`` of negative weight by ``x v !y`` and ``!x v y`` of positive weight.

    In every state exactly three of the four are true. A sampler that keeps a clause of negative weight
    false fixes both atoms; one that keeps ``x v !y`` and ``!x v y`` true can flip them together.
    """
    for clause in [clause for clause in merged if len(clause) == 2]:
        x, y = clause
        opposite = tuple(sorted((-x, -y)))
        excess = max(merged[clause], merged.get(opposite, 0.0))
        if excess < 0:
            for pair, change in (
                (clause, -excess),
                (opposite, -excess),
                ((x, -y), -excess),
                ((-x, y), -excess),
            ):
                _add(merged, tuple(sorted(pair)), change)


class _Names:
    """Equivalence classes of literals: union-find with signs; ``true`` is one of the representatives."""

    def __init__(self, model: ClauseModel) -> None:
        n = model.n_atoms
        self.true = n + 1
        self.name = list(range(n + 2))
        self._members = [[atom] for atom in self.name]
        self._group = [-1, *model.group.tolist(), -1]
        self._exactly = model.exactly.tolist()
        self._atoms: list[list[int]] = [[] for _ in self._exactly]
        for atom, group in enumerate(model.group.tolist(), start=1):
            if group >= 0:
                self._atoms[group].append(atom)

    def of(self, literal: int) -> int:
        """Return the representative of a literal's class."""
        return self.name[literal] if literal > 0 else -self.name[-literal]

    def rewrite(self, clause: Literals) -> Literals | None:
        """Return the clause over representatives; None if it is a tautology."""
        found = {self.of(literal) for literal in clause}
        found.discard(-self.true)
        if self.true in found or any(-literal in found for literal in found):
            return None
        return tuple(sorted(found))

    def propagate(self, hard: list[Literals]) -> None:
        """Propagate unit clauses, binary clauses and groups to a fixed point. Raises Infeasible."""
        occurrences: list[list[Literals]] = [[] for _ in self.name]
        for row in hard:
            for literal in row:
                occurrences[abs(literal)].append(row)
        queue = deque(hard)
        for group in range(len(self._exactly)):
            self._settle_group(group, queue, occurrences)
        pairs: set[Literals] = set()
        while queue:
            clause = self.rewrite(queue.popleft())
            if clause is None or len(clause) > 2 or clause in pairs:
                continue
            if not clause:
                raise Infeasible("the hard clauses contradict each other")
            if len(clause) == 1:
                self._unite(clause[0], self.true, queue, occurrences)
            elif (-clause[1], -clause[0]) in pairs:
                self._unite(clause[0], -clause[1], queue, occurrences)
            elif (clause[0], -clause[1]) in pairs or (-clause[1], clause[0]) in pairs:
                self._unite(clause[0], self.true, queue, occurrences)
            elif (-clause[0], clause[1]) in pairs or (clause[1], -clause[0]) in pairs:
                self._unite(clause[1], self.true, queue, occurrences)
            else:
                pairs.add(clause)

    def _unite(
        self, x: int, y: int, queue: deque[Literals], occurrences: list[list[Literals]]
    ) -> None:
        """Merge the classes of two representatives, unless both have atoms of groups."""
        if self._rank(abs(x)) > self._rank(abs(y)):
            x, y = y, x
        if self._group[abs(x)] >= 0 and abs(y) != self.true:
            return
        y = y if x > 0 else -y
        absorbed = self._members[abs(x)]
        for atom in absorbed:
            self.name[atom] = y if self.name[atom] > 0 else -y
            queue.extend(occurrences[atom])
        self._members[abs(y)] += absorbed
        for atom in absorbed:
            if self._group[atom] >= 0:
                self._settle_group(self._group[atom], queue, occurrences)

    def _rank(self, atom: int) -> tuple[bool, bool, int]:
        """Rank representatives for merging: ``true``, then atoms of groups, then larger classes."""
        return atom == self.true, self._group[atom] >= 0, len(self._members[atom])

    def _settle_group(
        self, group: int, queue: deque[Literals], occurrences: list[list[Literals]]
    ) -> None:
        """Propagate in a group, given its fixed atoms. Raises Infeasible."""
        atoms = self._atoms[group]
        true = [atom for atom in atoms if self.name[atom] == self.true]
        open_ = [atom for atom in atoms if abs(self.name[atom]) != self.true]
        if len(true) > 1 or (self._exactly[group] and not true and not open_):
            raise Infeasible("the hard clauses contradict a group")
        if true and open_:
            self._unite(open_[0], -self.true, queue, occurrences)
        elif self._exactly[group] and not true and len(open_) == 1:
            self._unite(open_[0], self.true, queue, occurrences)


def _assemble(
    model: ClauseModel, names: _Names, hard: list[Literals], soft: dict[Literals, float]
) -> Reduced:
    """Renumber the remaining atoms, those of a group in sequence, and build the clauses."""
    atom = np.arange(1, model.n_atoms + 1)
    name = np.array(names.name[1:-1], np.int64).reshape(-1)
    own = np.flatnonzero(name == atom)
    own = own[np.argsort(model.group[own], kind="stable")]
    gates = definitions(hard, (model.group >= 0).tolist())
    computed = np.array([abs(gate.literal) - 1 for gate in gates], np.int64)
    own = np.concatenate([own[~np.isin(own, computed)], computed])
    m = len(own)
    number = np.zeros(names.true + 1, np.int64)
    number[own + 1] = np.arange(m)
    stands_for = np.where(name > 0, number[abs(name)], m + number[abs(name)])
    stands_for[name == -names.true], stands_for[name == names.true] = 2 * m, 2 * m + 1
    group = model.group[own]
    first = np.ones(m, np.bool_)
    first[1:] = (group[1:] < 0) | (group[1:] != group[:-1])
    defining = [gate.clauses() for gate in gates]
    first_rows = [row[0] for row in defining] + [pair for row in defining for pair in row[1:]]
    known = {tuple(sorted(row)) for row in first_rows}
    hard = [*first_rows, *(clause for clause in hard if clause not in known)]

    def code(x: int) -> int:
        return 2 * int(number[abs(x)]) + (x < 0)

    soft_weight = np.array(list(soft.values()), np.float64)
    heavy = HARD_MARGIN + 4 * float(np.abs(soft_weight).sum())
    clauses = Clauses.of(
        first=first,
        exactly=np.array([g >= 0 and bool(model.exactly[g]) for g in group[first]], np.bool_),
        rows=[[code(x) for x in clause] for clause in [*hard, *soft]],
        gates=len(gates),
        weight=np.concatenate((np.full(len(hard), heavy), soft_weight)),
        hard=len(hard),
    )
    return Reduced(clauses, stands_for, own)
