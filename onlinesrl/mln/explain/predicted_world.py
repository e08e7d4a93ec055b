"""A predicted world: its network with averaged weights, its predicted state and alternative states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import ExampleError, Infeasible
from onlinesrl.core.example import Atom, Example, named_atoms
from onlinesrl.core.learner import Outcome
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State, clause_model, clause_weights
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.ground.lazy_clauses import LazyClauses
from onlinesrl.mln.ground.model_weights import ModelWeights
from onlinesrl.mln.inference.components import components, restrict
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.kernels import ground_network as n
from onlinesrl.mln.kernels.grounding_frames import EVERY, Batch


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


@dataclass(eq=False)
class PredictedWorld:
    """An example's network and its predicted ``state``; valid until the learner grounds another example.

    ``names`` are the names of the query atoms by number. Clauses that the prediction left out of the network
    are ``lazy``: their ground clauses are added where a state violates them.
    """

    predictor: Predictor
    net: n.Network
    names: list[Atom]
    state: State
    certified: bool | None
    lazy: LazyClauses | None

    def __post_init__(self) -> None:
        """Read the network, with what the predicted state violates."""
        self.eager = int(self.net.clause_start[self.net.size[n.ROWS]])
        """The number of the network's ground clauses that are ground for every state."""
        self._read()
        self._complete(self.state)

    def _read(self) -> None:
        self.ground = self.predictor.averaged(self.net)
        """The weights of the network's ground clauses, float64[ground clauses]."""
        self.model, self.place = clause_model(self.net)
        """The network simplified by the evidence, and the ground clause of each of its clauses, -1: none."""
        self.weight = clause_weights(self.model, self.place, self.ground)
        """The weights of the model's clauses, float64[clauses]."""

    @classmethod
    def of(cls, predictor: Predictor, example: Example) -> PredictedWorld:
        """Predict and ground an example without its truth, as far as its prediction grounds it.

        Raises ExampleError for a bad example.
        """
        blind = msgspec.structs.replace(example, truth=None)
        (outcome,) = predictor.predict([blind])
        prediction = outcome.prediction
        if prediction is None:
            raise ExampleError(outcome.error or "it cannot be predicted")
        grounder = predictor.grounder
        eager = np.where(grounder.net.left_out, 0, EVERY)
        plans = replace(grounder.layout.plans, eager=eager)
        batch = grounder.ground_one(blind, plans=plans)
        net, names = grounder.net, atom_names(grounder, batch)
        lazy = LazyClauses(grounder, batch) if np.any(net.left_out) else None
        true = named_atoms(prediction.predicted)
        state = np.zeros(int(net.size[n.ATOMS]), np.uint8)
        state[: len(names)] = [name in true for name in names]
        state[net.fixed[: len(state)] == n.TRUE] = 1
        n.define(net, state)  # also the atoms that stand for existentials
        return cls(predictor, net, names, state, prediction.certified, lazy)

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
        self._complete(state)
        return state

    def complete_turns(self) -> None:
        """Ground the soft clauses whose truth an atom alone can turn in the predicted state."""
        if self.lazy is not None and (part := self.lazy.turned(self.state)) is not None:
            self.net = n.joined(self.net, part)
            self._read()

    def best_otherwise(self, atom: int) -> tuple[State, bool] | None:
        """Return the best state with the atom's other value, and whether it is certified.

        Only atoms connected with the atom may differ from the predicted state. None: no such state is
        feasible. Raises Unsolved if the search ends at its limit without any state, and ExampleError where it
        violates more ground clauses than the limit.
        """
        if self.lazy is not None:
            return self._lazily_otherwise(atom)
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

    def _lazily_otherwise(self, atom: int) -> tuple[State, bool] | None:
        """Do as ``best_otherwise`` by cutting planes."""
        from onlinesrl.mln.inference.cutting_planes import CuttingPlanes

        literal = -(atom + 1) if self.state[atom] else atom + 1
        model = self.model.with_units(np.array([literal], np.int32), hard=True)
        weight = np.append(self.weight, 0.0)
        try:
            planes = CuttingPlanes(model, weight, self._violated)
            solution = planes.solve(self.predictor.inference.max_work)
        except Infeasible:
            return None
        finally:
            self._read()
        while True:
            state = self._near(atom, solution.state)
            if not self._complete(state):
                return state, solution.certified

    def _near(self, atom: int, other: State) -> State:
        """Return another state of the network, as predicted where the atom's component does not need it."""
        parts = components(self.model, self.model.hard | (self.weight != 0))
        live = np.flatnonzero(self.weight)
        part = parts.number[np.abs(self.model.literals[self.model.start[live]]) - 1]
        gain = np.bincount(part, self.gain(self.state, other)[live], len(parts))
        differs = gain < -Magnitude.of(self.weight).rounding
        differs[parts.number[atom]] = True
        return np.where(differs[parts.number], other, self.state)

    def _complete(self, state: State) -> bool:
        """Ground what a state violates, and tell whether there was any."""
        some = self._violated(state.astype(np.float64), conflicts=False) is not None
        if some:
            self._read()
        return some

    def _violated(self, value: Floats, conflicts: bool) -> tuple[GroundMRF, Floats] | None:
        """Ground what values of the atoms violate, and return it, see ``cutting_planes.Violated``."""
        part = None if self.lazy is None else self.lazy.violated(value, conflicts)
        if part is None:
            return None
        weight = self.predictor.averaged(part)
        self.net = n.joined(self.net, part)
        model, place = clause_model(part)
        return model, clause_weights(model, place, weight)


def atom_names(grounder: Grounder, batch: Batch) -> list[Atom]:
    """Return the query atoms of the only world of a batch, which is the last ground world."""
    return [
        (name, tuple(map(str, args))) for name, _, rows in grounder.atoms(batch, 0) for args in rows
    ]
