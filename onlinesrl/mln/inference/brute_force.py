"""Enumeration of every state of a small model: the reference for the other engines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
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
        best = _first_maximum(model, state_scores(model, weight, bonus), weight, bonus)
        if best is None:
            raise Infeasible("no state satisfies the hard clauses and the groups")
        return best

    def second_best(
        self,
        model: GroundMRF,
        weight: Floats,
        best_state: State,
        bonus: Floats | None = None,
    ) -> Solution | None:
        """Return the best feasible state other than ``best_state``; None if there is none."""
        scores = state_scores(model, weight, bonus)
        scores[_number(best_state)] = -np.inf
        return _first_maximum(model, scores, weight, bonus)


def _first_maximum(
    model: GroundMRF, scores: Floats, weight: Floats, bonus: Floats | None
) -> Solution | None:
    size = Magnitude.of(weight, bonus)
    maxima = _maxima(scores, min(1.0, size.total))
    if not len(maxima):
        return None
    states = [_state(number, model.n_atoms) for number in maxima.tolist()]
    state = states[0]
    if size.lost:
        state = max(states, key=lambda candidate: model.exact_score(candidate, weight, bonus))
    score = model.score(state, weight, bonus)
    return Solution(state, score, score, "brute", certified=True)


def _maxima(scores: Floats, least: float) -> NDArray[np.int64]:
    """Return the numbers of the states of highest finite score, within ``TIE``, ascending."""
    top = scores.max()
    if top == -np.inf:
        return np.array([], np.int64)
    return np.flatnonzero(scores >= top - TIE * max(least, abs(top)))


def state_scores(model: GroundMRF, weight: Floats, bonus: Floats | None) -> Floats:
    """Return the score of every state, float64[2 ** n_atoms]; -inf if infeasible."""
    n = model.n_atoms
    if n > MAX_ATOMS:
        raise ValueError(f"{n} atoms are too many for brute force, which takes up to {MAX_ATOMS}")
    number = np.arange(1 << n)
    true = [(number >> (n - 1 - atom) & 1).astype(np.bool_) for atom in range(n)]
    scores = np.zeros(1 << n)
    for atom_true, gain in zip(true, np.zeros(n) if bonus is None else bonus, strict=True):
        scores[atom_true] += gain
    _add_clauses(model, weight, true, scores)
    for group, exactly in enumerate(model.exactly):
        count = sum((true[a] for a in np.flatnonzero(model.group == group)), np.zeros(1 << n, int))
        scores[(count > 1) | (exactly & (count == 0))] = -np.inf
    return scores


def _add_clauses(
    model: GroundMRF, weight: Floats, true: list[NDArray[np.bool_]], scores: Floats
) -> None:
    """Add the weight of every soft clause where it is true; set -inf where a hard one is false."""
    for c in range(model.n_clauses):
        satisfied = np.zeros(len(scores), np.bool_)
        for literal in model.literals[model.start[c] : model.start[c + 1]]:
            satisfied |= true[abs(literal) - 1] == (literal > 0)
        if model.hard[c]:
            scores[~satisfied] = -np.inf
        else:
            scores[satisfied] += weight[c]


def _state(number: int, n_atoms: int) -> State:
    """Return the state of a number, in the order of ``Brute``."""
    return np.array([number >> (n_atoms - 1 - atom) & 1 for atom in range(n_atoms)], np.uint8)


def _number(state: State) -> int:
    """Return the number of a state, in the order of ``Brute``."""
    return int("0" + "".join("1" if true else "0" for true in state), 2)
