"""Exact simplification of a ground model before search and sampling; scores and marginals are kept.

Unit propagation over hard clauses and groups fixes atoms. Two hard clauses ``x v y`` and
``!x v !y`` make ``y`` equivalent to ``!x``: inertia written as hard rules grounds to chains of
hundreds of such pairs, which local search cannot cross. Then equal clauses are merged, clauses of
weight zero removed, and atoms defined by hard clauses put last.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State, distinct, normal, signed
from onlinesrl.mln.inference.gate_detection import LEVELS, Literals, definitions
from onlinesrl.mln.kernels import clause_merging as kernel
from onlinesrl.mln.kernels.clauses import Clauses

Values = TypeVar("Values", State, Floats)

HARD_MARGIN = 1000.0
"""The least difference in score between feasible and infeasible states; exp(-1000) is 0 in a float."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """The simplified clauses, and the model's atoms in terms of the remaining ones.

    The value of the model's atom ``i`` is entry ``stands_for[i]`` of the concatenation of the remaining
    atoms' values, their complements, 0 and 1. Remaining atom ``k`` is the model's atom ``atoms[k]``.
    """

    clauses: Clauses
    stands_for: Ints
    atoms: Ints

    @property
    def n_atoms(self) -> int:
        """The number of atoms that remain."""
        return len(self.clauses.var_of)

    def expand(self, values: Values) -> Values:
        """Return values or probabilities of the model's atoms from those of the remaining ones."""
        zero = np.zeros(1, values.dtype)
        return np.concatenate((values, 1 - values, zero, 1 - zero))[self.stands_for]

    @cached_property
    def core(self) -> tuple[GroundMRF, Floats]:
        """Return the simplified clauses as a ground model over the remaining atoms, and their weights."""
        clauses = self.clauses
        hard = np.arange(len(clauses.weight)) < clauses.hard
        grouped = (np.diff(clauses.var_start) > 1) | (clauses.exactly != 0)
        number = np.where(grouped, np.cumsum(grouped) - 1, -1)
        model = GroundMRF(
            n_atoms=self.n_atoms,
            start=clauses.start.astype(np.int64),
            literals=signed(clauses.literal // 2, clauses.literal % 2 == 0),
            hard=hard,
            group=number[clauses.var_of].astype(np.int32),
            exactly=clauses.exactly[grouped] != 0,
        )
        return model, np.where(hard, 0.0, clauses.weight)

    def rewritten(self, model: GroundMRF, weight: Floats) -> tuple[GroundMRF, Floats]:
        """Return further clauses of the model over the remaining atoms, equal ones merged.

        Soft clauses that are constant are left out.
        """
        m = self.n_atoms
        name, positive = self.stands_for[np.abs(model.literals) - 1], model.literals > 0
        clause = np.repeat(np.arange(model.n_clauses), np.diff(model.start))
        true = np.zeros(model.n_clauses, np.bool_)
        true[clause[(name == 2 * m + positive)]] = True
        free = name < 2 * m
        code = 2 * (name % max(1, m)) + ((name < m) == positive)
        clause, code, tautology = normal(clause[free], code[free], model.n_clauses, m)
        length = np.bincount(clause, minlength=model.n_clauses)
        chosen = ~true & ~tautology & (model.hard | (length > 0))
        code = code[chosen[clause]]
        literals = signed(code // 2, code % 2)
        start = np.concatenate(([0], np.cumsum(length[chosen])))
        rest = replace(self.core[0], start=start, literals=literals, hard=model.hard[chosen])
        first, total, hard = distinct(rest, weight[chosen])
        return replace(rest.select(first), hard=hard), np.where(hard, 0.0, total)


class Soft(NamedTuple):
    """Distinct soft clauses in compressed rows, and how they represent the original clauses.

    ``row``, int64[original clauses], is the number of the distinct clause, -1 for a constant. ``sign``, of
    the same shape, is -1 if the original clause is that clause's negation, up to a constant.
    """

    start: Ints
    literal: Ints32
    weight: Floats
    row: Ints
    sign: Ints

    @classmethod
    def of(cls, start: Ints, literal: Ints32, weight: Floats, name: Ints) -> Soft:
        """Merge clauses that are equal by the names of their atoms, and add up their weights."""
        merged = kernel.distinct(len(weight), len(literal))
        n = kernel.distinguish(start, literal, name, merged)
        start, row, sign = merged.start[: n + 1], merged.row, merged.sign
        total = np.bincount(row[row >= 0], (sign * weight)[row >= 0], n).astype(np.float64)
        return cls(start, merged.literal[: start[-1]], total, row, sign)

    def renamed(self, name: Ints) -> Soft:
        """Merge the clauses that are equal by other names of their atoms."""
        merged = Soft.of(self.start, self.literal, self.weight, name)
        place = np.maximum(self.row, 0)
        row = np.where(self.row < 0, -1, np.append(merged.row, -1)[place])
        return merged._replace(row=row, sign=self.sign * np.append(merged.sign, 1)[place])

    def nonzero(self) -> Soft:
        """Leave out the clauses of weight zero."""
        remaining = self.weight != 0
        length = np.diff(self.start)
        number = np.append(np.where(remaining, np.cumsum(remaining) - 1, -1), -1)
        start = np.cumsum(np.append(0, length[remaining]))
        literal = self.literal[np.repeat(remaining, length)]
        return Soft(start, literal, self.weight[remaining], number[self.row], self.sign)


def reduced(model: GroundMRF, weight: Floats, bonus: Floats | None = None) -> Reduced:
    """Simplify the model under weights and a bonus as in ``MapEngine.solve``.

    Raises Infeasible if propagation derives a contradiction, Unsolved if a weight is not finite.
    """
    return traced(model, weight, bonus)[0]


def traced(model: GroundMRF, weight: Floats, bonus: Floats | None = None) -> tuple[Reduced, Soft]:
    """Do as ``reduced``, and return the soft clauses with their origins: soft clauses, then bonuses."""
    bonus = np.zeros(0) if bonus is None else bonus
    if not (np.all(np.isfinite(weight)) and np.all(np.isfinite(bonus))):
        raise Unsolved("the weights and the bonus must be finite")
    names = _Names(model)
    rows = ((model.start[c], model.start[c + 1]) for c in np.flatnonzero(model.hard))
    hard = list(dict.fromkeys(tuple(sorted(model.literals[i:j].tolist())) for i, j in rows))
    names.propagate(hard)
    rewritten = {clause for clause in map(names.rewrite, hard) if clause is not None}
    identity, name = np.arange(model.n_atoms + 2), np.array(names.name, np.int64)
    length = np.diff(model.start)[~model.hard]
    literal = model.literals[np.repeat(~model.hard, np.diff(model.start))]
    units = np.arange(1, len(bonus) + 1, dtype=np.int32)
    start = np.cumsum(np.concatenate(([0], length, np.ones_like(units))))
    gains = np.concatenate((weight[~model.hard], bonus))
    soft = Soft.of(start, np.concatenate((literal, units)), gains, identity)
    if np.any(name != identity):
        soft = soft.renamed(name)
    soft = _turn_negative_pairs(soft).nonzero()
    return _assemble(model, names, sorted(rewritten), soft), soft


def _turn_negative_pairs(soft: Soft) -> Soft:
    """Replace ``x v y`` and ``!x v !y`` of negative weight by ``x v !y`` and ``!x v y`` of positive weight.

    In every state exactly three of the four are true. A sampler that keeps a clause of negative weight
    false fixes both atoms; one that keeps ``x v !y`` and ``!x v y`` true can flip them together.
    """
    two = np.flatnonzero(np.diff(soft.start) == 2)
    if not np.any(soft.weight[two] < 0):
        return soft
    places, weight = two.tolist(), soft.weight.tolist()
    pairs = [*map(tuple, soft.literal[soft.start[two][:, None] + (0, 1)].tolist())]
    row, old = dict(zip(pairs, places, strict=True)), len(pairs)
    for place, (x, y) in zip(places, pairs[:old], strict=True):
        opposite = tuple(sorted((-x, -y)))
        excess = max(weight[place], weight[row[opposite]] if opposite in row else 0.0)
        if excess >= 0:
            continue
        for pair in ((x, y), opposite, tuple(sorted((x, -y))), tuple(sorted((-x, y)))):
            if pair not in row:
                row[pair] = len(weight)
                pairs.append(pair)
                weight.append(0.0)
            weight[row[pair]] -= excess
    added = np.array(pairs[old:], np.int32).ravel()
    start = np.append(soft.start, soft.start[-1] + 2 * np.arange(1, len(pairs) - old + 1))
    literal = np.concatenate((soft.literal, added))
    return soft._replace(start=start, literal=literal, weight=np.array(weight))


class _Names:
    """Equivalence classes of literals: union-find with signs; ``true`` is one of the representatives."""

    def __init__(self, model: GroundMRF) -> None:
        n = model.n_atoms
        self.true = n + 1
        self.name = list(range(n + 2))
        self._members = [[atom] for atom in self.name]
        self._queue: deque[Literals] = deque()
        self._occurrences: list[list[Literals]] = [[] for _ in self.name]
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
        literals = {self.of(literal) for literal in clause}
        literals.discard(-self.true)
        if self.true in literals or any(-literal in literals for literal in literals):
            return None
        return tuple(sorted(literals))

    def propagate(self, hard: list[Literals]) -> None:
        """Propagate unit clauses, binary clauses and groups to a fixed point. Raises Infeasible."""
        for row in hard:
            for literal in row:
                self._occurrences[abs(literal)].append(row)
        self._queue.extend(hard)
        for group in range(len(self._exactly)):
            self._settle_group(group)
        pairs: set[Literals] = set()
        while self._queue:
            clause = self.rewrite(self._queue.popleft())
            if clause is None or len(clause) > 2 or clause in pairs:
                continue
            if not clause:
                raise Infeasible("the hard clauses contradict each other")
            if len(clause) == 1:
                self._unite(clause[0], self.true)
            elif (-clause[1], -clause[0]) in pairs:
                self._unite(clause[0], -clause[1])
            elif (clause[0], -clause[1]) in pairs or (-clause[1], clause[0]) in pairs:
                self._unite(clause[0], self.true)
            elif (-clause[0], clause[1]) in pairs or (clause[1], -clause[0]) in pairs:
                self._unite(clause[1], self.true)
            else:
                pairs.add(clause)

    def _unite(self, x: int, y: int) -> None:
        """Merge the classes of two representatives, unless both have atoms of groups."""
        if self._rank(abs(x)) > self._rank(abs(y)):
            x, y = y, x
        if self._group[abs(x)] >= 0 and abs(y) != self.true:
            return
        y = y if x > 0 else -y
        absorbed = self._members[abs(x)]
        for atom in absorbed:
            self.name[atom] = y if self.name[atom] > 0 else -y
            self._queue.extend(self._occurrences[atom])
        self._members[abs(y)] += absorbed
        for atom in absorbed:
            if self._group[atom] >= 0:
                self._settle_group(self._group[atom])

    def _rank(self, atom: int) -> tuple[bool, bool, int]:
        """Rank representatives for merging: ``true``, then atoms of groups, then larger classes."""
        return atom == self.true, self._group[atom] >= 0, len(self._members[atom])

    def _settle_group(self, group: int) -> None:
        """Propagate in a group, given its fixed atoms. Raises Infeasible."""
        atoms = self._atoms[group]
        true = [atom for atom in atoms if self.name[atom] == self.true]
        open_ = [atom for atom in atoms if abs(self.name[atom]) != self.true]
        if len(true) > 1 or (self._exactly[group] and not true and not open_):
            raise Infeasible("the hard clauses contradict a group")
        if true and open_:
            self._unite(open_[0], -self.true)
        elif self._exactly[group] and not true and len(open_) == 1:
            self._unite(open_[0], self.true)


def _assemble(model: GroundMRF, names: _Names, hard: list[Literals], soft: Soft) -> Reduced:
    """Renumber the remaining atoms, those of a group in sequence, and build the clauses."""
    atom = np.arange(1, model.n_atoms + 1)
    name = np.array(names.name[1:-1], np.int64).reshape(-1)
    representatives = np.flatnonzero(name == atom)
    representatives = representatives[np.argsort(model.group[representatives], kind="stable")]
    gates = definitions(hard, (model.group >= 0).tolist(), LEVELS)
    computed = np.array([abs(gate.literal) - 1 for gate in gates], np.int64)
    representatives = np.concatenate(
        [representatives[~np.isin(representatives, computed)], computed]
    )
    m = len(representatives)
    number = np.zeros(names.true + 1, np.int64)
    number[representatives + 1] = np.arange(m)
    stands_for = np.where(name > 0, number[abs(name)], m + number[abs(name)])
    stands_for[name == -names.true], stands_for[name == names.true] = 2 * m, 2 * m + 1
    group = model.group[representatives]
    first = np.ones(m, np.bool_)
    first[1:] = (group[1:] < 0) | (group[1:] != group[:-1])
    defining = [gate.clauses() for gate in gates]
    first_rows = [row[0] for row in defining] + [pair for row in defining for pair in row[1:]]
    literal_sets = {tuple(sorted(row)) for row in first_rows}
    hard = [*first_rows, *(clause for clause in hard if clause not in literal_sets)]

    literals = [x for clause in hard for x in clause]
    x: Ints = np.concatenate((np.array(literals, np.int64), soft.literal))
    hard_start = np.cumsum([0, *map(len, hard)])
    heavy = HARD_MARGIN + 4 * float(np.abs(soft.weight).sum())
    clauses = Clauses.of(
        first=first,
        exactly=np.append(model.exactly, False)[group[first]],
        start=np.concatenate((hard_start, hard_start[-1] + soft.start[1:])).astype(np.int32),
        literal=(2 * number[np.abs(x)] + (x < 0)).astype(np.int32),
        gates=len(gates),
        weight=np.concatenate((np.full(len(hard), heavy), soft.weight)),
        hard=len(hard),
    )
    return Reduced(clauses, stands_for, representatives)
