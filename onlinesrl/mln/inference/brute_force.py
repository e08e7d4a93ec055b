"""Enumeration of every state of a small model: the reference for the other engines."""

from __future__ import annotations

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.inference.rounding import Magnitude

MAX_ATOMS = 20
TIE = 1e-9
"""Scores closer than this count as equal, because of rounding.

It is relative to the largest score, but at least to 1 or, if that is less, to the sum of the weights."""


class Brute:
    """Exact inference by enumeration; raises ValueError beyond ``MAX_ATOMS`` atoms.

    Of several optimal states it returns the lexicographically first (atom 0 first, false before true).
    """

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``."""
        scores, size = state_scores(model, weight, bonus), Magnitude.of(weight, bonus)
        if (top := scores.max()) == -np.inf:
            raise Infeasible("no state satisfies the hard clauses and the groups")
        first = np.argmax(scores >= top - TIE * max(min(1.0, size.total), abs(top)))
        state = ((first >> np.arange(model.n_atoms)[::-1]) & 1).astype(np.uint8)
        score = model.score(state, weight, bonus)
        return Solution(state, score, score, "brute", certified=True)


def state_scores(model: GroundMRF, weight: Floats, bonus: Floats | None) -> Floats:
    """Return the score of every state, float64[2 ** n_atoms]; -inf if infeasible.

    The number of a state has the truth of atom 0 as its highest bit, and so on.
    """
    n = model.n_atoms
    if n > MAX_ATOMS:
        raise ValueError(f"{n} atoms are too many for brute force, which takes up to {MAX_ATOMS}")
    number = np.arange(1 << n)
    true = [(number >> (n - 1 - atom) & 1).astype(np.bool_) for atom in range(n)]
    scores = np.zeros(1 << n)
    for atom_true, gain in zip(true, np.zeros(n) if bonus is None else bonus, strict=True):
        scores[atom_true] += gain
    for c in range(model.n_clauses):
        satisfied = np.zeros(len(scores), np.bool_)
        for literal in model.literals[model.start[c] : model.start[c + 1]]:
            satisfied |= true[abs(literal) - 1] == (literal > 0)
        if model.hard[c]:
            scores[~satisfied] = -np.inf
        else:
            scores[satisfied] += weight[c]
    for group, exactly in enumerate(model.exactly):
        count = sum((true[a] for a in np.flatnonzero(model.group == group)), np.zeros(1 << n, int))
        scores[(count > 1) | (exactly & (count == 0))] = -np.inf
    return scores
