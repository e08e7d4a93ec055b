"""The ground model of a Markov logic network: one example's clauses over its open atoms, as arrays.

``score(y) = w . f(y)`` is the sum of the weights of the true soft ground clauses (Richardson & Domingos
2006, equation 2). Hard clauses and groups of atoms restrict the feasible states. The model holds no
weights, so it serves any weight vector; there is one weight per ground clause.

A ground network has these forms, each for its own users:

- ``Network`` (``kernels/ground_network``), which grounding writes. Clauses that differ by a constant step
  are one row. Elimination reads this form, so that an example of small treewidth needs no other form.
- ``GroundMRF``, which every engine takes. All clauses are written out and simplified by the evidence.
  ``clause_model`` makes it from a network, ``network_of`` a network from it.
- ``Clauses`` (``kernels/clauses``), for local search and sampling. ``inference/presolve`` makes it: the
  clauses left after simplification, their weights, and for each literal the clauses that contain it.
- ``Pairwise`` (``kernels/pairwise_mrf``), for branch and bound: costs of single variables and of pairs.
- ``CompactProgram`` (``inference/ilp``), for the solvers of integer and linear programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from onlinesrl.core.arrays import Bools, Bytes, Floats, Ints, Ints32, check_rows, gathered
from onlinesrl.mln.kernels import ground_network as n

State = Bytes
"""One truth value, 0 or 1, for every open atom."""

LITERALS = 1 << 18
"""The approximate number of literals converted at once; each takes about a hundred bytes."""
ROWS = LITERALS
"""The largest number of rows converted at once."""


@dataclass(frozen=True, eq=False)
class GroundMRF:
    """Ground clauses in compressed rows, over the atoms ``0 .. n_atoms - 1``.

    Clause ``c`` is the disjunction of ``literals[start[c]:start[c + 1]]``, each ``atom + 1`` or
    ``-(atom + 1)``. A hard clause (``hard[c]``) must be true; a soft clause adds its weight to the score of
    every state in which it is true. ``group[a]`` is the number of the atom's group, -1 for none. Exactly one
    atom of group ``g`` is true if ``exactly[g]``, otherwise at most one. ``validate`` checks further
    conditions.
    """

    n_atoms: int
    start: Ints
    literals: Ints32
    hard: Bools
    group: Ints32
    exactly: Bools

    @property
    def n_clauses(self) -> int:
        """The number of ground clauses, soft and hard."""
        return len(self.hard)

    def satisfied(self, state: State) -> Bools:
        """Return which clauses are true in the state, bool[n_clauses]."""
        true = (state[np.abs(self.literals) - 1] != 0) == (self.literals > 0)
        count = np.concatenate(([0], np.cumsum(true)))
        return count[self.start[1:]] > count[self.start[:-1]]

    def score(self, state: State, weight: Floats, bonus: Floats | None = None) -> float:
        """Return ``w . f(state) + bonus . state``, whether the state is feasible or not.

        ``weight`` is float64[n_clauses], 0 for hard clauses; ``bonus`` is float64[n_atoms].
        """
        score = float(weight[self.satisfied(state)].sum())
        return score if bonus is None else score + float(bonus[state != 0].sum())

    def exact_score(self, state: State, weight: Floats, bonus: Floats | None = None) -> Fraction:
        """Return ``score`` without rounding."""
        gains = [weight[self.satisfied(state)]] + ([] if bonus is None else [bonus[state != 0]])
        distinct, counts = np.unique(np.concatenate(gains), return_counts=True)
        pairs = zip(distinct.tolist(), counts.tolist(), strict=True)
        return sum((count * Fraction(gain) for gain, count in pairs), Fraction(0))

    def feasible(self, state: State) -> bool:
        """Tell whether every hard clause is true and every group has an allowed number of true atoms."""
        true_groups = self.group[(state != 0) & (self.group >= 0)]
        count = np.bincount(true_groups, minlength=len(self.exactly))
        return bool(
            np.all(self.satisfied(state)[self.hard])
            and np.all(count <= 1)
            and np.all(count[self.exactly] == 1)
        )

    def gains(self, weight: Floats) -> tuple[Floats, float]:
        """Return what each atom gains by soft unit clauses where it is true, and the score of all false."""
        unit = np.flatnonzero(~self.hard & (np.diff(self.start) == 1))
        literal, weight = self.literals[self.start[unit]], weight[unit]
        gain = np.bincount(np.abs(literal) - 1, np.sign(literal) * weight, self.n_atoms)
        return gain.astype(np.float64), float(weight[literal < 0].sum())

    def select(self, clauses: Ints) -> GroundMRF:
        """Return the model with only the selected clauses, in the given order."""
        start, places = gathered(self.start, clauses)
        hard = self.hard[clauses]
        return replace(self, start=start, literals=self.literals[places], hard=hard)

    def with_clauses(self, *others: GroundMRF) -> GroundMRF:
        """Return the model with the clauses of models over the same atoms appended to its own."""
        every = (self, *others)
        length = np.concatenate([np.diff(model.start) for model in every])
        return replace(
            self,
            start=np.concatenate(([0], np.cumsum(length))),
            literals=np.concatenate([model.literals for model in every]),
            hard=np.concatenate([model.hard for model in every]),
        )

    def without(self, state: State, atoms: Ints) -> GroundMRF:
        """Return the model with a further hard clause: of some atoms, one differs from the state."""
        true = atoms[state[atoms] != 0]
        decided = np.isin(self.group[atoms], self.group[true][self.group[true] >= 0])
        false = atoms[(state[atoms] == 0) & ~decided]  # in other groups, or in none
        literals = np.concatenate((signed(true, False), signed(false, True)))
        clause = replace(
            self, start=np.array([0, len(literals)]), literals=literals, hard=np.ones(1, np.bool_)
        )
        return self.with_clauses(clause)

    def with_units(self, literals: Ints32, hard: bool) -> GroundMRF:
        """Return the model with unit clauses appended to its clauses."""
        more, first = len(literals), int(self.start[-1])
        return replace(
            self,
            start=np.concatenate((self.start, first + 1 + np.arange(more))),
            literals=np.concatenate((self.literals, literals)),
            hard=np.concatenate((self.hard, np.full(more, hard, np.bool_))),
        )


class Soft(NamedTuple):
    """Soft clauses over all atoms of a world, and their weights, float64[clauses]."""

    model: GroundMRF
    weight: Floats


def distinct(model: GroundMRF, weight: Floats) -> tuple[Ints, Floats, Bools]:
    """Return the K distinct clauses of a model, in the order of first occurrence.

    The result has the number of the first occurrence, int64[K], the sum of the weights of equal soft clauses,
    float64[K], and whether an equal clause is hard, bool[K].
    """
    length, clauses = np.diff(model.start), model.n_clauses
    clause = np.repeat(np.arange(clauses), length)
    literals = model.literals[np.lexsort((np.abs(model.literals), clause))]
    number, count = np.zeros(clauses, np.int64), 0
    for size in np.unique(length).tolist():
        rows = np.flatnonzero(length == size)
        same = np.zeros(len(rows), np.int64)
        # refine classes of clauses with equal first literals by the next literal
        for place in range(size):
            code = same * (2 * model.n_atoms + 1) + literals[model.start[rows] + place]
            same = np.unique(code, return_inverse=True)[1].reshape(-1)
        number[rows] = count + same
        count += int(same.max(initial=-1)) + 1
    first = np.zeros(count, np.int64)
    first[number[::-1]] = np.arange(clauses)[::-1]
    order = np.argsort(first)
    total: Floats = np.bincount(number, np.where(model.hard, 0.0, weight), count).astype(np.float64)
    return first[order], total[order], (np.bincount(number, model.hard, count) > 0)[order]


def validate(model: GroundMRF) -> None:
    """Check the assumptions of every engine; too slow for inner loops.

    Raises ValueError if shapes or types do not fit, a literal or a group is out of range, a soft clause is
    empty, a clause has an atom twice, or a group has no atom.
    """
    expected: dict[str, tuple[type[np.generic], int]] = {
        "start": (np.int64, model.n_clauses + 1),
        "literals": (np.int32, int(model.start[-1])),
        "hard": (np.bool_, model.n_clauses),
        "group": (np.int32, model.n_atoms),
        "exactly": (np.bool_, len(model.exactly)),
    }
    check_rows(model, expected)
    length = np.diff(model.start)
    atom = np.abs(model.literals.astype(np.int64)) - 1
    clause = np.repeat(np.arange(model.n_clauses), length)
    seen = np.unique(clause * max(model.n_atoms, 1) + atom)
    groups = model.group[model.group >= 0]
    rules = {
        "a literal names no atom": np.all((atom >= 0) & (atom < model.n_atoms)),
        "a clause has an atom twice": len(seen) == len(atom),
        "a soft clause has no literal": np.all(length[~model.hard] > 0),
        "a group number is below -1": np.all(model.group >= -1),
        "the groups are not 0 .. G-1, each with an atom": np.array_equal(
            np.unique(groups), np.arange(len(model.exactly))
        ),
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise ValueError(f"not a ground model: {'; '.join(broken)}")


def clause_models(
    net: n.Network, of_ground: Floats, units: Sequence[tuple[int, float]]
) -> tuple[GroundMRF, Floats, Soft]:
    """Return the model of a network, the weights of its clauses, and all soft clauses.

    ``of_ground`` has the weights of the ground clauses. ``units`` are further soft clauses of one literal.
    """
    full, place = clause_model(net, folded=False)
    full, gain = _with_units(full, clause_weights(full, place, of_ground), units)
    is_soft = np.flatnonzero(~full.hard)
    model, place = clause_model(net)
    model, weight = _with_units(model, clause_weights(model, place, of_ground), units)
    return model, weight, Soft(full.select(is_soft), gain[is_soft])


def _with_units(
    model: GroundMRF, weight: Floats, units: Sequence[tuple[int, float]]
) -> tuple[GroundMRF, Floats]:
    """Return the model and the weights with soft unit clauses appended."""
    model = model.with_units(np.array([x for x, _ in units], np.int32), hard=False)
    return model, np.concatenate([weight, [gain for _, gain in units]])


def clause_model(net: n.Network, folded: bool = True) -> tuple[GroundMRF, Ints]:
    """Return a world's network as a ``GroundMRF``, and the number in the network of each of its clauses.

    Runs are expanded; duplicate literals and tautologies are dropped. Hard unit clauses at the end, with
    number -1, state the atoms that evidence fixes. ``folded`` simplifies the other clauses by these atoms:
    it drops false literals, true clauses, and false soft clauses.
    """
    atoms = int(net.size[n.ATOMS])
    parts = [clauses(net, *block, folded) for block in blocks(net)]
    units = fixed_units(net)
    unit_rows = (np.ones(len(units), np.int32), units, np.ones(len(units), np.bool_))
    places, length, literals, hard = zip(*parts, (np.full(len(units), -1), *unit_rows), strict=True)
    group, exactly = groups(net)
    model = GroundMRF(
        n_atoms=atoms,
        start=np.cumsum(np.concatenate([[0], *length]), dtype=np.int64),
        literals=np.concatenate(literals),
        hard=np.concatenate(hard),
        group=group,
        exactly=exactly,
    )
    return model, np.concatenate(places)


def fixed_units(net: n.Network) -> Ints32:
    """Return the true literals of the atoms that evidence fixes."""
    fixed = net.fixed[: net.size[n.ATOMS]]
    units = np.flatnonzero((fixed == n.TRUE) | (fixed == n.FALSE))
    return signed(units, fixed[units] == n.TRUE)


def blocks(net: n.Network) -> Iterator[tuple[int, int]]:
    """Yield blocks of rows, each with about ``LITERALS`` literals, as first row and end."""
    rows = int(net.size[n.ROWS])
    for first in range(0, rows, ROWS):
        stop = min(first + ROWS, rows)
        length = np.diff(net.lit_start[first : stop + 1]).astype(np.int64) * net.row_len[first:stop]
        cuts = np.flatnonzero(np.diff(np.cumsum(length) // LITERALS)) + 1
        yield from pairwise([first, *(first + cuts).tolist(), stop])


def clauses(
    net: n.Network, first: int, stop: int, folded: bool
) -> tuple[Ints, Ints32, Ints32, Bools]:
    """Return the remaining clauses of a range of rows: their numbers, lengths, literals and hardness.

    For ``folded`` see ``clause_model``. Literals are in the order of their atoms.
    """
    atoms, before = int(net.size[n.ATOMS]), int(net.clause_start[first])
    clause, code = _literals(net, first, stop)
    clause, code, true = normal(clause, code, int(net.clause_start[stop]) - before, atoms)
    hard = np.repeat(net.row_weight[first:stop] < 0, net.row_len[first:stop])
    if folded:
        fixed = net.fixed[code >> 1]
        value = np.where(code & 1, n.TRUE, n.FALSE)
        true[clause[fixed == value]] = True
        open_ = (fixed != n.TRUE) & (fixed != n.FALSE)
        clause, code = clause[open_], code[open_]
        true |= ~hard & (np.bincount(clause, minlength=len(true)) == 0)
    remaining = np.flatnonzero(~true)
    length = np.bincount(clause, minlength=len(true))[remaining].astype(np.int32)
    code = code[~true[clause]]
    return before + remaining, length, signed(code >> 1, code & 1), hard[remaining]


def normal(clause: Ints, code: Ints, clauses: int, atoms: int) -> tuple[Ints, Ints, Bools]:
    """Sort the literals of clauses, drop those that come twice, and tell which clauses are tautologies.

    A literal has the number of its clause, and the code 2 * atom + positive.
    """
    order = np.sort(clause * (2 * atoms) + code, kind="stable")  # quick: they are nearly in order
    order = order[np.diff(order, prepend=-1) != 0]
    clause, code = order // (2 * atoms or 1), order % (2 * atoms or 1)
    same = (clause[1:] == clause[:-1]) & (code[1:] >> 1 == code[:-1] >> 1)
    true = np.zeros(clauses, np.bool_)
    true[clause[1:][same]] = True
    return clause, code, true


def signed(atom: Ints | Ints32, positive: Any) -> Ints32:
    """Return literals: the atom plus 1, negated unless ``positive``."""
    return ((atom + 1) * np.where(positive, 1, -1)).astype(np.int32)


def clause_weights(model: GroundMRF, place: Ints, weight: Floats) -> Floats:
    """Return the weights of a model's clauses from the weights of all ground clauses; hard ones have 0."""
    return np.where(model.hard, 0.0, weight[np.maximum(place, 0)] if len(weight) else 0.0)


def _literals(net: n.Network, first: int, stop: int) -> tuple[Ints, Ints]:
    """Return the clause of every literal of a range of rows, and its code 2 * atom + positive.

    Clauses are numbered from the first clause of the range.
    """
    length = np.diff(net.lit_start[first : stop + 1]).astype(np.int64)
    row = np.repeat(np.arange(first, stop), net.row_len[first:stop])
    k = np.arange(len(row)) - (net.clause_start[row] - net.clause_start[first])
    count = length[row - first]
    clause = np.repeat(np.arange(len(row)), count)
    within = np.arange(len(clause)) - np.repeat(np.cumsum(count) - count, count)
    p = net.lit_start[row[clause]] + within
    atom = net.lit_atom[p] + k[clause] * net.lit_step[p]
    return clause, 2 * atom + net.lit_positive[p]


def groups(net: n.Network) -> tuple[Ints32, Bools]:
    """Return the group of each atom (-1: none), and the groups with exactly one true atom."""
    variables = int(net.size[n.VARIABLES])
    size = np.diff(net.var_start[: variables + 1])
    grouped = (size > 1) | (net.exactly[:variables] != 0)
    number = np.where(grouped, np.cumsum(grouped) - 1, -1)
    return np.repeat(number, size).astype(np.int32), net.exactly[:variables][grouped] != 0


def network_of(model: GroundMRF) -> tuple[n.Network, Ints]:
    """Return a ``GroundMRF`` as a ``Network``, and the model's atom of each atom of the network.

    Atoms are reordered so that groups are contiguous; each clause is a run of length 1.
    """
    key = np.where(model.group >= 0, model.group.astype(np.int64), -1)
    order = np.argsort(key, kind="stable")
    place = np.empty(model.n_atoms, np.int64)
    place[order] = np.arange(model.n_atoms)
    net = n.network(model.n_atoms + 1, model.n_clauses + 1, len(model.literals) + 1)
    grouped = key[order]
    new = np.ones(model.n_atoms, bool)
    new[1:] = (grouped[1:] < 0) | (grouped[1:] != grouped[:-1])
    first = np.flatnonzero(new)
    net.var_of[: model.n_atoms] = np.cumsum(new) - 1
    net.var_start[: len(first)] = first
    net.var_start[len(first)] = model.n_atoms
    net.exactly[: len(first)] = [g >= 0 and bool(model.exactly[g]) for g in grouped[first]]
    rows = model.n_clauses
    net.row_len[:rows] = 1
    net.row_weight[:rows] = np.where(model.hard, -1, 0)
    net.clause_start[: rows + 1] = np.arange(rows + 1)
    net.lit_start[: rows + 1] = model.start
    net.lit_atom[: len(model.literals)] = place[np.abs(model.literals) - 1]
    net.lit_positive[: len(model.literals)] = model.literals > 0
    net.size[:] = model.n_atoms, len(first), rows, len(model.literals), rows, model.n_atoms
    return net, order
