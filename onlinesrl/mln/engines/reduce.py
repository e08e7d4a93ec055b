"""Simplify a ground model before search and sampling: exact, so that scores and marginals are kept.

Hard clauses of one literal fix atoms, and with the groups they propagate; two hard clauses ``x v y``
and ``!x v !y`` make ``y`` another name of ``!x``. Inertia written as hard rules grounds to chains of
hundreds of such pairs, which no search of one-atom steps gets across. What is left has its equal
clauses merged and its unit clauses, weights of zero and constants taken out; atoms that hard clauses
define stand last.
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
"""How far every infeasible state lies below every feasible one: exp(-1000) is 0 in a float."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """The clauses over the atoms that remain, and what the model's atoms are in terms of these.

    Atom ``i`` of the model has the value at ``stands_for[i]`` of the remaining atoms' values, then
    their complements, then 0, then 1; remaining atom ``k`` is the model's atom ``kept[k]``.
    """

    clauses: Clauses
    stands_for: Ints
    kept: Ints

    @property
    def n_atoms(self) -> int:
        """The number of atoms that remain."""
        return len(self.clauses.var_of)

    def expand(self, values: Values) -> Values:
        """Turn truth values or probabilities of the remaining atoms into those of the model's."""
        zero = np.zeros(1, values.dtype)
        return np.concatenate((values, 1 - values, zero, 1 - zero))[self.stands_for]


def reduced(model: ClauseModel, weight: Floats, bonus: Floats | None = None) -> Reduced:
    """Simplify the model under these weights and this bonus, both as in ``MapEngine.solve``.

    Raises Infeasible where propagation alone finds the hard part to have no solution, ValueError
    where a weight is not finite.
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
    """Return the hard clauses and the soft ones with their weights; the bonus as unit clauses."""
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
    """Add a soft clause; ``w !a`` is ``-w a`` up to a constant."""
    if len(clause) == 1 and clause[0] < 0:
        clause, weight = (-clause[0],), -weight
    merged[clause] = merged.get(clause, 0.0) + weight


def _turn_negative_pairs(merged: dict[Literals, float]) -> None:
    """Make ``x v y`` and ``!x v !y`` of weights below 0 ``x v !y`` and ``!x v y`` of weights above 0.

    Of the four always three are true. A sampler that keeps a clause of weight below 0 false fixes both
    atoms; one that keeps ``x <=> !y`` may still move them together.
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
    """Which literals are names of the same one: union-find with signs, ``true`` among the roots."""

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
        """Return the literal's one name."""
        return self.name[literal] if literal > 0 else -self.name[-literal]

    def rewrite(self, clause: Literals) -> Literals | None:
        """Return the clause in one name for each literal; None where it is always true."""
        found = {self.of(literal) for literal in clause}
        found.discard(-self.true)
        if self.true in found or any(-literal in found for literal in found):
            return None
        return tuple(sorted(found))

    def propagate(self, hard: list[Literals]) -> None:
        """Find all that unit clauses, pairs of opposite clauses and groups give; or Infeasible."""
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
        """Give two literals, both names, one name; atoms of two groups keep theirs."""
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
        """Who keeps its name: true, then an atom of a group, then the larger class."""
        return atom == self.true, self._group[atom] >= 0, len(self._members[atom])

    def _settle_group(
        self, group: int, queue: deque[Literals], occurrences: list[list[Literals]]
    ) -> None:
        """Fix what the group's fixed atoms leave no choice about."""
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
    """Lay out what remains, numbered anew with the atoms of a group side by side."""
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
