"""A predicted world: its network with averaged weights, its predicted state and alternative states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import ExampleError, Infeasible
from onlinesrl.core.example import Atom, Example, named_atoms
from onlinesrl.core.learner import Outcome
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State, clause_model, clause_weights
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.ground.model_weights import ModelWeights
from onlinesrl.mln.inference.components import components, restrict
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.kernels import ground_network as n
from onlinesrl.mln.kernels.grounding_frames import Batch


@dataclass(frozen=True, eq=False)
class Predictor:
    """The parts of a learner that explanations need.

    ``predict`` returns the outcomes of examples, without margins and without any effect on learning.
    ``averaged`` returns the averaged weights of a network's ground clauses, float64[ground clauses], and
    ``variance`` that of the difference of two states' scores by the covariance of the weights, 0 without one.
    """

    grounder: Grounder
    weights: ModelWeights
    inference: Inference
    predict: Callable[[Sequence[Example]], list[Outcome]]
    averaged: Callable[[n.Network], Floats]
    variance: Callable[[n.Network, State, State], float]


@dataclass(frozen=True, eq=False)
class PredictedWorld:
    """An example's network and its predicted ``state``; valid until the learner grounds another example.

    ``names`` are the names of the query atoms by number; ``ground`` has the weights of the network's ground
    clauses, float64[ground clauses]. ``model`` is the network simplified by the evidence. ``place`` has the
    ground clause of each of its clauses (-1: none), and ``weight`` their weights, float64[clauses].
    """

    predictor: Predictor
    net: n.Network
    names: list[Atom]
    ground: Floats
    model: GroundMRF
    place: Ints
    weight: Floats
    state: State
    certified: bool | None

    @classmethod
    def of(cls, predictor: Predictor, example: Example) -> PredictedWorld:
        """Predict and ground an example without its truth. Raises ExampleError for a bad example."""
        blind = replace(example, truth=None)
        (outcome,) = predictor.predict([blind])
        prediction = outcome.prediction
        if prediction is None:
            raise ExampleError(outcome.error or "it cannot be predicted")
        grounder = predictor.grounder
        batch = grounder.ground_one(blind)
        net, names = grounder.net, atom_names(grounder, batch)
        ground = predictor.averaged(net)
        model, place = clause_model(net)
        weight = clause_weights(model, place, ground)
        true = named_atoms(prediction.predicted)
        state = np.zeros(int(net.size[n.ATOMS]), np.uint8)
        state[: len(names)] = [name in true for name in names]
        state[net.fixed[: len(state)] == n.TRUE] = 1
        n.define(net, state)  # also the atoms that stand for existentials
        return cls(predictor, net, names, ground, model, place, weight, state, prediction.certified)

    def members(self, atom: int) -> range:
        """Return the atoms of an atom's group; an atom without a group is alone."""
        v = self.net.var_of[atom]
        return range(*self.net.var_start[v : v + 2].tolist())

    def gain(self, state: State, other: State) -> Floats:
        """Return each clause's contribution to the score of ``state`` minus that to ``other``."""
        satisfied = self.model.satisfied(state).astype(np.int64)
        return self.weight * (satisfied - self.model.satisfied(other))

    def turned(self, atom: int, other: State | None) -> State:
        """Return the predicted state, with the values of ``other`` in the atom's group.

        Without ``other``, the atom has its other value, and the rest of its group is false.
        """
        state, members = self.state.copy(), self.members(atom)
        if other is not None:
            state[members] = other[members]
        else:
            state[members] = 0
            state[atom] = not self.state[atom]
        n.define(self.net, state)
        return state

    def best_otherwise(self, atom: int) -> tuple[State, bool] | None:
        """Return the best state with the atom's other value, and whether it is certified.

        Only atoms connected with the atom may differ from the predicted state. None: no such state is
        feasible. Raises Unsolved if the search ends at its limit without any state.
        """
        connecting = self.model.hard | (self.weight != 0)
        atoms = components(self.model, connecting).having(atom)[0]
        self.net.fixed[atom] = n.FALSE if self.state[atom] else n.TRUE
        model, place = clause_model(self.net)
        self.net.fixed[atom] = n.OPEN
        weight = clause_weights(model, place, self.ground)
        if np.any(model.hard & (np.diff(model.start) == 0)):
            return None
        selected = np.zeros(model.n_atoms, np.bool_)
        selected[atoms] = True
        clause = np.repeat(np.arange(model.n_clauses), np.diff(model.start))
        selected_clause = clause[selected[np.abs(model.literals) - 1]]
        touching = np.bincount(selected_clause, minlength=model.n_clauses) > 0
        clauses = np.flatnonzero(touching & (model.hard | (weight != 0)))
        try:
            part = restrict(model, atoms, clauses)
            solution = self.predictor.inference.engine.solve(part, weight[clauses])
        except Infeasible:
            return None
        state = self.state.copy()
        state[atoms] = solution.state
        return state, solution.certified


def atom_names(grounder: Grounder, batch: Batch) -> list[Atom]:
    """Return the query atoms of the only world of a batch, which is the last ground world."""
    return [
        (name, tuple(map(str, args))) for name, _, rows in grounder.atoms(batch, 0) for args in rows
    ]
