"""A world that is ground once and used with many weight vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.core.example import Constant, Example
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State, clause_model
from onlinesrl.mln.ground.grounder import ModelGrounder
from onlinesrl.mln.inference.presolve import HARD_MARGIN, Reduced, traced
from onlinesrl.mln.kernels import ground_network as n
from onlinesrl.mln.kernels.features import add_features


@dataclass(frozen=True, eq=False)
class ReweightedWorld:
    """A ground model, the features of its clauses, and the true state.

    A true clause adds ``factor`` (float64[clauses], 1 without numeric atoms) to the feature number
    ``feature`` (int64[clauses]; -1: hard). Clauses that evidence decides are omitted, so that features
    equal those of ``mln.lang.clausal_form`` up to a constant. ``predicted`` (bool[atoms]) marks the open
    query atoms; the loss is their Hamming distance to ``truth``. ``atoms`` are (predicate, arguments).
    """

    model: GroundMRF
    feature: Ints
    factor: Floats
    truth: State
    predicted: Bools
    atoms: Sequence[tuple[str, Sequence[Constant]]]

    def weigh(self, weights: Floats) -> Floats:
        """Return the clauses' weights, float64[clauses]."""
        clause_weights: Floats = self.factor * np.append(weights, 0.0)[self.feature]
        return clause_weights

    def features(self, state: State, size: int) -> Floats:
        """Return f(state), float64[size]."""
        model, total = self.model, np.zeros(size)
        add_features(model.start, model.literals, self.feature, self.factor, state, total)
        return total

    def every(self, size: int) -> Floats:
        """Return the features of a state in which all clauses are true, float64[size]."""
        soft = self.feature >= 0
        total: Floats = np.bincount(self.feature[soft], self.factor[soft], size).astype(np.float64)
        return total

    def numbered(self, number: Ints, share: Floats) -> ReweightedWorld:
        """Return the world with feature ``number[w]`` in place of w, and factors times ``share[w]``."""
        return replace(self, feature=number[self.feature], factor=self.factor * share[self.feature])

    def loss(self, state: State) -> float:
        """Return the Hamming distance of a state to the truth, over the predicted atoms."""
        return float(np.count_nonzero((state != self.truth) & self.predicted))

    @cached_property
    def loss_gain(self) -> Floats:
        """The loss of each atom if true minus its loss if false, float64[atoms]."""
        return np.where(self.predicted, 1.0 - 2.0 * self.truth, 0.0)

    @cached_property
    def reweighable(self) -> Reweighable:
        """The simplified model, for samplers."""
        return Reweighable.of(self.model, np.zeros(0))

    @cached_property
    def searchable(self) -> Reweighable:
        """The simplified model with a bonus for every open atom, for local search."""
        return Reweighable.of(self.model, self.predicted.astype(np.float64))


@dataclass(frozen=True, eq=False)
class Reweighable:
    """A simplified model whose clause weights are linear in the model's weights and a bonus.

    Soft clause ``k`` of ``problem`` has the weight sum_j ``sign[j]`` ``weight[clause[j]]`` over the entries
    with ``row[j]`` = k, all int64[entries]. ``weight`` has the model's weights, then the bonus of each atom.
    """

    problem: Reduced
    row: Ints
    clause: Ints
    sign: Ints

    @classmethod
    def of(cls, model: GroundMRF, bonus: Floats) -> Reweighable:
        """Simplify a model for any weights and any bonus of the atoms with ``bonus`` other than 0.

        The simplification uses random weights, because their sums are never zero.
        """
        rng, n = np.random.default_rng(0), model.n_clauses
        weight = np.where(model.hard, 0.0, rng.uniform(1.0, 2.0, n))
        bonus = np.where(bonus != 0, rng.uniform(1.0, 2.0, len(bonus)), 0.0)
        problem, soft = traced(model, weight, bonus)
        clause = np.append(np.flatnonzero(~model.hard), np.arange(n, n + len(bonus)))
        varies = (np.append(weight[~model.hard], bonus) != 0) & (soft.row >= 0)
        return cls(problem, soft.row[varies], clause[varies], soft.sign[varies])

    def weigh(self, weight: Floats) -> None:
        """Set the weights of the simplified model from the model's weights and the bonus."""
        clauses = self.problem.clauses
        soft = np.bincount(
            self.row, self.sign * weight[self.clause], len(clauses.weight) - clauses.hard
        )
        clauses.weight[clauses.hard :] = soft
        clauses.weight[: clauses.hard] = HARD_MARGIN + 4 * float(np.abs(soft).sum())


def ground_world(grounder: ModelGrounder, example: Example) -> ReweightedWorld:
    """Ground an example with its truth; features have the numbers of the grounder's weights.

    Raises ExampleError.
    """
    ground = grounder.ground_example(example, learning=True)
    net = ground.net
    model, place = clause_model(net)
    rows = int(net.size[n.ROWS])
    row = np.repeat(np.arange(rows), net.row_len[:rows])
    index = net.row_weight[row] + (np.arange(len(row)) - net.clause_start[row]) * net.row_step[row]
    ground_clause = np.maximum(place, 0)
    fixed = net.fixed[: model.n_atoms]
    return ReweightedWorld(
        model,
        np.where(model.hard, -1, index[ground_clause] if len(index) else 0),
        net.row_factor[row][ground_clause] if len(index) else np.ones(model.n_clauses),
        grounder.truth[: model.n_atoms].copy(),
        fixed == n.OPEN,
        [(name, args) for name, _, rows in grounder.atoms(ground.batch, 0) for args in rows],
    )
