"""The ground model of a Markov logic network: one example's clauses over its open atoms, as arrays.

``score(y) = w . f(y)`` is the sum of the weights of the true soft ground clauses (Richardson & Domingos
2006, equation 2). Hard clauses and groups of atoms restrict the feasible states. The model holds no
weights, so it serves any weight vector; there is one weight per ground clause.

A ground network has these forms, each for its own users:

- ``Network`` (``kernels/ground_network``), which grounding writes. Clauses that differ by a constant step
  are one row. Elimination reads this form, so that an example of small treewidth needs no other form.
- ``GroundMRF``, which every engine takes. All clauses are written out and simplified by the evidence.
  ``convert.clause_model`` makes it from a network, ``convert.network_of`` a network from it.
- ``Clauses`` (``kernels/clauses``), for local search and sampling. ``inference/presolve`` makes it: the
  clauses left after simplification, their weights, and for each literal the clauses that contain it.
- ``Pairwise`` (``kernels/pairwise_mrf``), for branch and bound: costs of single variables and of pairs.
- ``CompactProgram`` (``inference/ilp``), for the solvers of integer and linear programs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from onlinesrl.core.arrays import Bools, Bytes, Floats, Ints, Ints32, check_rows, gathered

State = Bytes
"""One truth value, 0 or 1, for every open atom."""


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
        parts = (
            n * Fraction(gain) for gain, n in zip(distinct.tolist(), counts.tolist(), strict=True)
        )
        return sum(parts, Fraction(0))

    def feasible(self, state: State) -> bool:
        """Tell whether every hard clause is true and every group has an allowed number of true atoms."""
        true_groups = self.group[(state != 0) & (self.group >= 0)]
        count = np.bincount(true_groups, minlength=len(self.exactly))
        return bool(
            np.all(self.satisfied(state)[self.hard])
            and np.all(count <= 1)
            and np.all(count[self.exactly] == 1)
        )

    def select(self, clauses: Ints) -> GroundMRF:
        """Return the model with only the selected clauses, in the given order."""
        start, places = gathered(self.start, clauses)
        hard = self.hard[clauses]
        return replace(self, start=start, literals=self.literals[places], hard=hard)

    def with_units(self, literals: Ints32, hard: bool) -> GroundMRF:
        """Return the model with unit clauses appended to its clauses."""
        n, first = len(literals), int(self.start[-1])
        return replace(
            self,
            start=np.concatenate((self.start, first + 1 + np.arange(n))),
            literals=np.concatenate((self.literals, literals)),
            hard=np.concatenate((self.hard, np.full(n, hard, np.bool_))),
        )


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
