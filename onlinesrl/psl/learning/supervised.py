"""Losses of the most probable values: squared error and binary cross-entropy, as in PSL 2.4.

The loss d of the values of least energy is a bilevel objective. That they have least energy is what the value
function ``V(w) = min over y of E(y, w)`` says: ``E(y, w) - V(w)`` is 0 (Outrata 1990; Dickens et al. 2024,
Convex and Bilevel Optimization for Neuro-Symbolic Inference and Learning). Here it costs lambda:

    F(w) = min over y of (d(y) + lambda E(y, w)) - lambda V(w),  F'(w) = lambda (Phi(y) - Phi(y'))

by Danskin's theorem, where y is the first minimiser and y' that of V. With the energy ``w . Phi(y) + ridge
|y - 1/2|^2`` both are unique, so that F is smooth. It is never above d(y'), and meets it as lambda grows.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Positive
from onlinesrl.core.learning.batch import BatchLearner, Learned, LearningError, Trace, Watch
from onlinesrl.psl.ground.hinge_loss_mrf import with_powers
from onlinesrl.psl.inference.augmented_lagrangian import Augmented
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.learning.mle import LogEntropy, NotNegative
from onlinesrl.psl.learning.problem import PslProblem

ENGINE = Augmented()
"""Where both minimisations are solved: lambda multiplies what their values are off by."""
NEWTON = 50
"""The most steps of Newton's method for one minimisation."""
DECREMENT = 1e-12
"""The squared Newton decrement of the loss at which it ends."""
FLOOR = 1e-3
"""The probability below which nothing is held for impossible."""
SHORTEST, ROUNDING = 1e-9, 1e-14
"""The shortest share of a step; what an objective may be off by, relative to it (absolute below 1)."""


class Supervised(BatchLearner):
    """A loss of the most probable values, smoothed; weights have the sum 1, and PSL 2.4's regulariser."""

    penalty: Positive = 1000.0
    """lambda, what a unit of energy above the least costs; the greater, the nearer to the loss itself. With a
    small one, weights are best with which energies hardly differ."""
    ridge: Positive = 0.01
    """the weight of the squared distance of values to 1/2, which makes them unique."""
    log: Positive = 1.0
    """the weight of the regulariser - sum log w, which keeps weights above 0."""
    entropy: NotNegative = 10.0
    """the weight of the regulariser sum w log w, which draws weights together."""

    @abstractmethod
    def loss(self, y: Floats, truth: Floats) -> Floats:
        """Return the loss of each value, float64[n]."""

    @abstractmethod
    def slope(self, y: Floats, truth: Floats) -> tuple[Floats, Floats]:
        """Return its first and second derivatives, float64[n]."""

    def learn(self, problem: PslProblem, watch: Watch) -> Learned:
        """Minimise ``F(w) + regulariser`` by L-BFGS over the logarithms of weights, up to their sum.

        Targets without truth have no loss. Raises LearningError where none has a truth.
        """
        from scipy.optimize import minimize

        trace, soft, prior = Trace(watch), problem.soft, LogEntropy(self.log, self.entropy)
        smoothed = Smoothed(self, problem)

        def objective(logs: Floats) -> tuple[float, Floats]:
            w = softmax(logs)
            value, gradient = smoothed.value(problem.whole(w))
            gradient = gradient[soft] + prior.gradient(w)
            return value + prior.value(w), w * (gradient - gradient @ w)

        start = np.log(np.maximum(problem.start[soft], 1e-6))
        trace.add(objective(start)[0])
        result = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=lambda intermediate_result: trace.add(intermediate_result.fun),
            options={"ftol": 1e-6, "gtol": 1e-3, "maxiter": 200},
        )
        stats = {"evaluations": int(result.nfev), "map_states": smoothed.solved}
        warnings = [] if result.success else [f"L-BFGS ended early: {result.message}"]
        if smoothed.inexact:
            share = f"{smoothed.inexact:,} of {smoothed.solved:,} states"
            warnings.append(f"{share} were not solved to all digits: gradients may be off")
        return Learned(problem.whole(softmax(result.x)), trace.steps, stats, warnings)


class SquaredError(Supervised):
    """The squared error of the most probable values."""

    name = "squared-error"

    def loss(self, y: Floats, truth: Floats) -> Floats:
        """See ``Supervised.loss``."""
        distance: Floats = (y - truth) ** 2
        return distance

    def slope(self, y: Floats, truth: Floats) -> tuple[Floats, Floats]:
        """See ``Supervised.slope``."""
        return 2.0 * (y - truth), np.full_like(y, 2.0)


class CrossEntropy(Supervised):
    """The binary cross-entropy of truth and most probable values."""

    name = "cross-entropy"

    def loss(self, y: Floats, truth: Floats) -> Floats:
        """See ``Supervised.loss``; ``FLOOR`` is added to y and to 1 - y, so that it is finite."""
        loss: Floats = -truth * np.log(y + FLOOR) - (1.0 - truth) * np.log(1.0 - y + FLOOR)
        return loss

    def slope(self, y: Floats, truth: Floats) -> tuple[Floats, Floats]:
        """See ``Supervised.slope``."""
        yes, no = truth / (y + FLOOR), (1.0 - truth) / (1.0 - y + FLOOR)
        return no - yes, yes / (y + FLOOR) + no / (1.0 - y + FLOOR)


class Smoothed:
    """F, and the two minimisations in it; each begins at its last solution.

    ``solved`` counts states, ``inexact`` those of them of which some digits are missing.
    """

    def __init__(self, learner: Supervised, problem: PslProblem) -> None:
        self.of = learner
        self.known = ~np.isnan(problem.truth)
        if not np.any(self.known):
            raise LearningError(f"{problem.program.file}: no target has a truth to learn from")
        self.truth = problem.truth[self.known]
        self.rules = len(problem.start)
        self.model = with_powers(problem.model, self.rules, 2)
        self.y: Floats | None = None
        self.free: HingeSolution | None = None
        self.near: HingeSolution | None = None
        self.solved = self.inexact = 0

    def value(self, weights: Floats) -> tuple[float, Floats]:
        """Return F and its gradient, float64[rules]."""
        ridge = np.full(self.model.n_variables, self.of.ridge)
        self.free = self._solve(weights, ridge, ridge, self.free)
        start = self.free.y if self.y is None else self.y
        self.y, value = self.attracted(weights, start)
        phi, least = (self.model.totals(y, self.rules + len(y)) for y in (self.y, self.free.y))
        gradient: Floats = self.of.penalty * (phi - least)[: self.rules]
        return self.of.penalty * (value - self.energy(weights, self.free.y)), gradient

    def energy(self, weights: Floats, y: Floats) -> float:
        """Return E, without what does not depend on y."""
        phi = self.model.totals(y, self.rules + len(y))[: self.rules]
        return float(weights @ phi + self.of.ridge * np.sum(y * y - y))

    def attracted(self, weights: Floats, y: Floats) -> tuple[Floats, float]:
        """Minimise ``E(y) + d(y) / lambda`` by Newton's method from feasible values; return both.

        Each step has the quadratic of d at y for d, which the engine minimises with the energy.
        """

        def objective(y: Floats) -> float:
            loss = float(np.sum(self.of.loss(y[self.known], self.truth)))
            return self.energy(weights, y) + loss / self.of.penalty

        labelled, value = self.known, objective(y)
        for _ in range(NEWTON):
            first, second = np.zeros((2, len(y)))
            first[labelled], second[labelled] = self.of.slope(y[labelled], self.truth)
            square = self.of.ridge + second / self.of.penalty / 2
            bonus = self.of.ridge + (second * y - first) / self.of.penalty
            self.near = self._solve(weights, square, bonus, self.near)
            step, length = self.near.y - y, 1.0
            most = value + ROUNDING * max(1.0, abs(value))
            while not (new := objective(y + length * step)) <= most and length > SHORTEST:
                length /= 2
            if new <= most:
                y, value = y + length * step, new
            if length <= SHORTEST or second @ step**2 <= DECREMENT:
                break
        return y, value

    def _solve(
        self, weights: Floats, square: Floats, bonus: Floats, start: HingeSolution | None
    ) -> HingeSolution:
        all_weights = np.append(weights, square)
        solution = ENGINE.solve(self.model, all_weights, bonus=bonus, start=start)
        self.solved += 1
        self.inexact += not solution.certified
        return solution


def softmax(logs: Floats) -> Floats:
    """Return weights with the sum 1 that have these logarithms, up to a constant."""
    weights = np.exp(logs - logs.max())
    normalised: Floats = weights / weights.sum()
    return normalised
