"""Learning with latent variables: paired duals, EM, and the primal subgradient (Bach et al. 2015).

Minimised is ``F(w) = lambda/2 |w|^2 + min over z of E(w, truth, z) - min over y, z of E(w, y, z)``, where an
energy E is ``w . Phi - h`` with a surrogate h of the entropy (equation 4; as printed its sign would let
helpful rules go to 0). The gradient is ``lambda w + Phi(clamped) - Phi(free)``. Either minimisation is a run
of ADMM that goes on while the weights change.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from onlinesrl.core.arrays import Bools, Floats
from onlinesrl.core.io.config_types import Count, Names, Natural, Positive
from onlinesrl.core.learning.batch import BatchLearner, Learned, Trace, UnfitError, Watch
from onlinesrl.psl.ground.hinge_loss_mrf import HINGE, HingeLossMRF, clamp
from onlinesrl.psl.inference.admm import AdmmState
from onlinesrl.psl.kernels.features import add
from onlinesrl.psl.learning.problem import PslProblem

TOLERANCE, VIOLATION, ROUNDS = 1e-4, 1e-4, 25_000
"""To what a minimisation is solved (as ``Admm`` has it), and after how many rounds this may be missed."""


SETTLED = 10
"""Over how many updates weights that hardly move have settled."""


class Update(NamedTuple):
    """Weights after an update, float64[rules], the rounds of ADMM so far, and F at the present copies."""

    weights: Floats
    rounds: int
    objective: float


class Latent(BatchLearner):
    """Subgradient steps on F, divided by the number of potentials of each rule; the mean is returned."""

    latent: Names
    """the predicates whose targets have no truth."""
    entropy: Literal["squared", "loss", "none"] = "squared"
    """the surrogate of the entropy: squared hinges that draw values to 1/2, the L1 distance to the truth (as
    latent support vector machines have), or none."""
    entropy_weight: Positive = 0.1
    """the fixed weight of the surrogate."""
    l2: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    """lambda, the weight of half the squared weights, for each potential of a rule."""
    step: Positive = 0.3
    """the size of steps."""
    adagrad: bool = True
    """divide steps by the root of the sum of the squares of all gradients so far."""
    updates: Count = 100
    """how many updates of weights there are."""
    settled: Positive | None = None
    """learning ends earlier where ten updates have moved no weight by more than this share of the largest
    weight; null: it does not."""

    def learn(self, problem: PslProblem, watch: Watch) -> Learned:
        """Return the mean of the weights after each update, and some of the means before.

        Raises LearningError.
        """
        trace, mean, path = Trace(watch), np.zeros(len(problem.start)), list[dict[str, Any]]()
        last = deque[Floats](maxlen=SETTLED + 1)
        for n, update in enumerate(self.path(problem), 1):
            mean += (update.weights - mean) / n
            trace.add(update.objective)
            last.append(update.weights)
            ends = n == self.updates
            if self.settled is not None and len(last) > SETTLED:
                moved = np.abs(last[-1] - last[0]).max()
                ends = ends or bool(moved <= self.settled * last[-1].max())
            if n >= 1.25 * len(path) ** 2 / 4 or ends:
                path.append({"updates": n, "rounds": update.rounds, "weights": mean.tolist()})
            if ends:
                break
        return Learned(mean, trace.steps, {"rounds": path[-1]["rounds"], "path": path})

    def path(self, problem: PslProblem) -> Iterator[Update]:
        """Yield each update. Raises LearningError."""
        free, clamped = self.sides(problem)
        weights, squares = problem.start.copy(), np.zeros(len(problem.start))
        for rounds in self.minimise(free, clamped):
            value = self.objective(problem, weights, free, clamped)
            excess = clamped.phi[:-1] - free.phi[:-1]
            gradient = excess / np.maximum(problem.counts, 1.0) + self.l2 * weights
            squares += gradient**2
            rate = self.step / np.sqrt(np.maximum(squares, 1e-300)) if self.adagrad else self.step
            weights = np.where(problem.soft, np.maximum(weights - rate * gradient, 0.0), 0.0)
            for side in (free, clamped):
                side.reweigh(weights)
            yield Update(weights, rounds, value)

    def objective(self, problem: PslProblem, weights: Floats, free: Side, clamped: Side) -> float:
        """Return F at the present copies of both minimisations."""
        excess = weights @ (clamped.phi[:-1] - free.phi[:-1])
        prior = self.l2 / 2 * float(problem.counts @ weights**2)
        return float(prior + excess + clamped.surrogate - free.surrogate)

    @abstractmethod
    def minimise(self, free: Side, clamped: Side) -> Iterator[int]:
        """Advance both minimisations before each update; yield the rounds so far."""

    def sides(self, problem: PslProblem) -> tuple[Side, Side]:
        """Return the minimisations over all variables, and over the latent ones beside the truth."""
        truth, hidden = problem.truth, self._hidden(problem)
        model, bonus = problem.model, np.zeros(len(truth))
        fixed = self.entropy_weight if self.entropy == "squared" else 0.0
        if self.entropy == "squared":
            model = with_surrogate(model, len(problem.start))
        elif self.entropy == "loss":
            bonus = np.where(hidden, 0.0, self.entropy_weight * (1.0 - 2.0 * truth))
        weights = np.append(problem.start, fixed)
        beside = clamp(model, np.where(hidden, 0.0, truth), hidden)
        loss = float(np.sum(np.where(hidden, 0.0, truth))) if self.entropy == "loss" else 0.0
        offset = self.entropy_weight * loss
        nothing = np.zeros(hidden.sum())
        return (
            Side(AdmmState(model, weights, bonus), weights, bonus, offset),
            Side(AdmmState(beside, weights, nothing), weights, nothing, 0.0),
        )

    def _hidden(self, problem: PslProblem) -> Bools:
        """Return which variables are latent, bool[variables]. Raises UnfitError."""
        relations = problem.database.relations
        for name in self.latent:
            if name not in relations or not len(relations[name].targets):
                names = ", ".join(n for n, relation in relations.items() if len(relation.targets))
                raise UnfitError("latent", f"{name} has no targets; those with targets: {names}")
        parts = [
            np.full(len(relation.targets), name in self.latent)
            for name, relation in relations.items()
        ]
        hidden, unknown = np.concatenate(parts), np.isnan(problem.truth)
        wrong = np.flatnonzero(hidden != unknown)
        if len(wrong):
            atom = problem.atom(int(wrong[0]))
            reason = (
                "has a truth, but is latent"
                if hidden[wrong[0]]
                else "has no truth, and is not latent"
            )
            raise UnfitError("latent", f"{atom} {reason}")
        if np.all(hidden):
            raise UnfitError("latent", "every target is latent, so there is no truth to learn from")
        return hidden


class Side:
    """One of the two minimisations: ADMM, and the sums of potentials at its copies.

    ``weights`` are those of the rules, then that of the surrogate; ``offset`` is subtracted from the energy
    beside ``bonus . y``.
    """

    def __init__(self, state: AdmmState, weights: Floats, bonus: Floats, offset: float) -> None:
        self.state = state
        self.model = state.model
        self.weights = weights
        self.bonus = bonus
        self.offset = offset
        self.phi = np.zeros(len(weights))
        self.y = state.y

    def step(self, n: int) -> None:
        """Do ``n`` rounds, or fewer where they converge; potentials are then those of the local copies."""
        form, self.y = self.state.up_to(n), self.state.y
        self.phi = np.zeros(len(self.weights))
        add(self.model, form, self.phi)

    def solve(self) -> None:
        """Solve, from where ADMM is; potentials are then those of the solution."""
        until = self.state.n_rounds + ROUNDS
        self.y = self.state.solve(TOLERANCE, VIOLATION, until).y
        self.phi = self.model.totals(self.y, len(self.weights))

    def reweigh(self, weights: Floats) -> None:
        """Change the weights of the rules, and go on from where ADMM is."""
        self.weights = np.append(weights, self.weights[-1])
        self.state.reweigh(self.weights)

    @property
    def surrogate(self) -> float:
        """The part of the energy that does not depend on weights of rules."""
        linear = float(self.bonus @ self.y) + self.offset
        return float(self.weights[-1] * self.phi[-1]) - linear


class PairedDual(Latent):
    """Paired-dual learning: weights change after every few rounds of ADMM (algorithm 1)."""

    name = "paired-dual"
    rounds: Count = 1
    """N, the most rounds of ADMM between updates, in either minimisation: fewer where it converges."""
    warm_up: Natural = 0
    """K, how often there are as many before the first update."""
    eta: Positive | None = None
    """the step size of ADMM; without one it is changed now and then, as when weights stay.

    Either minimisation has the same: copies that do not agree yet then err alike in both, and the gradient
    is a difference."""

    def minimise(self, free: Side, clamped: Side) -> Iterator[int]:
        """See ``Latent.minimise``."""
        if self.eta is not None:
            free.state.keep(self.eta)
        for t in range(self.warm_up + self.updates):
            free.step(self.rounds)
            clamped.state.keep(free.state.eta)
            clamped.step(self.rounds)
            if t >= self.warm_up:
                yield free.state.n_rounds + clamped.state.n_rounds


class Primal(Latent):
    """The subgradient where both minimisations are solved before each update."""

    name = "primal"

    def minimise(self, free: Side, clamped: Side) -> Iterator[int]:
        """See ``Latent.minimise``."""
        for _ in range(self.updates):
            free.solve()
            clamped.solve()
            yield free.state.n_rounds + clamped.state.n_rounds


class Em(Latent):
    """EM with the most probable latent values: they are held for several updates of the weights."""

    name = "em"
    held: Count = 10
    """for how many updates the latent values are held."""

    def minimise(self, free: Side, clamped: Side) -> Iterator[int]:
        """See ``Latent.minimise``."""
        for t in range(self.updates):
            if t % self.held == 0:
                clamped.solve()
            free.solve()
            yield free.state.n_rounds + clamped.state.n_rounds


def with_surrogate(model: HingeLossMRF, weight_index: int) -> HingeLossMRF:
    """Add the potentials max(y, 0)^2 and max(1 - y, 0)^2 of every variable, with one weight."""
    n, m = model.n_variables, 2 * model.n_variables
    return HingeLossMRF(
        n,
        np.append(model.start, model.start[-1] + 1 + np.arange(m)),
        np.append(model.variable, np.repeat(np.arange(n, dtype=np.int32), 2)),
        np.append(model.coefficient, np.tile([1.0, -1.0], n)),
        np.append(model.constant, np.tile([0.0, 1.0], n)),
        np.append(model.weight_index, np.full(m, weight_index)),
        np.append(model.power, np.full(m, 2, np.uint8)),
        np.append(model.kind, np.full(m, HINGE, np.uint8)),
    )
