"""Weights from sampled counts: contrastive divergence and the voted perceptron.

The gradient of the log-likelihood is n(truth) - E[n] (Richardson & Domingos 2006). Contrastive divergence
(Hinton 2002) takes the mean of a few samples for the expectation, the voted perceptron (Singla &
Domingos 2005) the counts of the most probable state. Either follows the gradient, or takes steps of the
diagonal Newton method (Lowd & Domingos 2007, section 4.3). Unit clauses without a weight begin at their
log-odds in the worlds, as there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

import numpy as np

from onlinesrl.core import interrupt
from onlinesrl.core.arrays import Floats
from onlinesrl.core.batch import Learned, Trace, Watch
from onlinesrl.core.kernels.random import generator
from onlinesrl.core.newton import Newton
from onlinesrl.core.values import Count, Positive
from onlinesrl.mln.engines.chains import Chains
from onlinesrl.mln.engines.gibbs import Gibbs
from onlinesrl.mln.engines.mcsat import McSat
from onlinesrl.mln.engines.walksat import WalkSat
from onlinesrl.mln.ground.model import State
from onlinesrl.mln.learning.estimates import CountingLearner, EstimatedWorld
from onlinesrl.mln.learning.ground_world import GroundWorld
from onlinesrl.mln.learning.problem import MlnProblem

Drawer: TypeAlias = Callable[[Floats], Floats]
Features: TypeAlias = Callable[[State, int], Floats]


class Contrast(CountingLearner):
    """Ascent along n(truth) - E[n]; the objective that is shown is the norm of the mean gradient."""

    steps: Count = 100
    """the number of steps."""
    newton: bool = True
    """diagonal Newton steps; else the gradient, times ``rate``."""
    rate: Positive = 0.01
    """the size of a gradient step, and the trust in the first Newton step."""
    prior_sd: Positive = 10.0
    """the standard deviation of the weights' Gaussian prior, whose mean is 0."""

    @abstractmethod
    def draws(self, problem: MlnProblem) -> Drawer:
        """Return what draws counts by given weights: f(state) - f(truth), float64[samples, weights].

        They are summed over the worlds. The last sample is the newest.
        """

    def features(self, problem: MlnProblem) -> list[Features]:
        """Return what gives the features of a state, for each world."""
        if self.bound is None:
            return [world.features for world in problem.ground]
        numbers = range(len(problem.ground))
        return [EstimatedWorld(problem, k, self.bound).features for k in numbers]

    def learn(self, problem: MlnProblem, watch: Watch) -> Learned:
        """Return the mean of the weights after each step of the last half."""
        trace, n = Trace(watch), len(problem.start)
        weights, draws = started(problem), self.draws(problem)
        step = Newton(self.rate) if self.newton else None
        mean, kept = np.zeros(n), 0
        for t in range(self.steps):
            interrupt.check()
            drawn = draws(weights)
            gradient = -self.expected(drawn) - weights / self.prior_sd**2
            trace.add(float(np.linalg.norm(gradient)))
            if step is None:
                weights = weights + self.rate * gradient
            else:
                weights = weights + step.of(
                    gradient, drawn, self.prior_sd**-2 + self.least(problem)
                )
            if 2 * t >= self.steps:
                kept += 1
                mean += (weights - mean) / kept
        return Learned(mean, trace.steps, {"worlds": len(problem.ground), "newton": self.newton})

    def expected(self, drawn: Floats) -> Floats:
        """Return the mean of the samples."""
        mean: Floats = drawn.mean(axis=0)
        return mean

    def least(self, problem: MlnProblem) -> Floats:
        """Return what the variances are larger by than those of the samples, float64[weights]."""
        return np.zeros(len(problem.start))


def started(problem: MlnProblem) -> Floats:
    """Return the weights of the program; of unit clauses that have none, the log-odds of their truth."""
    n = len(problem.start)
    true = sum((world.features(world.truth, n) for world in problem.ground), np.zeros(n))
    every = sum((world.every(n) for world in problem.ground), np.zeros(n))
    units, weights = problem.units, problem.start.copy()
    weights[units] = np.log((true + 0.5)[units] / (every - true + 0.5)[units])
    return weights


class Chain:
    """A world's Markov chain, from its truth; it goes on where the last weights left it."""

    def __init__(
        self, world: GroundWorld, features: Features, engine: Chains, number: int, size: int
    ) -> None:
        self.world = world
        self.features = features
        self.of = world.reweighable
        self.state = world.truth[self.of.problem.kept]
        self.draw = engine.sampler(self.of.problem)
        self.rng = generator(engine.seed, engine.record, number)
        self.truth = features(world.truth, size)

    def step(self, weights: Floats, samples: int) -> Iterator[Floats]:
        """Yield f(state) - f(truth) after each of some samples."""
        self.of.weigh(self.world.weigh(weights))
        for _ in range(samples):
            self.draw(self.state, 1, self.rng, *np.zeros((2, len(self.state))))
            state = self.of.problem.expand(self.state)
            yield self.features(state, len(weights)) - self.truth


class ContrastiveDivergence(Contrast):
    """Contrastive divergence: counts of samples of chains that begin at the truth and go on."""

    kind: Literal["contrastive-divergence"] = "contrastive-divergence"
    sampler: Literal["gibbs", "mcsat"] = "gibbs"
    """what a sample is: a sweep of Gibbs sampling, or one of MC-SAT."""
    samples: Count = 50
    """how many samples of each world a step takes."""

    def draws(self, problem: MlnProblem) -> Drawer:
        """See ``Contrast.draws``."""
        engine = {"gibbs": Gibbs, "mcsat": McSat}[self.sampler](seed=problem.seed)
        worlds = zip(problem.ground, self.features(problem), strict=True)
        chains = [Chain(w, f, engine, k, len(problem.start)) for k, (w, f) in enumerate(worlds)]

        def drawn(weights: Floats) -> Floats:
            total = np.zeros((self.samples, len(weights)))
            for chain in chains:
                total += np.stack([*chain.step(weights, self.samples)])
            return total

        return drawn


class VotedPerceptron(Contrast):
    """The voted perceptron: counts of the most probable state by MaxWalkSAT."""

    kind: Literal["voted-perceptron"] = "voted-perceptron"
    perturbed: bool = True
    """search with random noise at each atom, so that states are nearly draws; else the most probable one."""
    flips: Count = 10_000
    """the most moves of a search."""
    states: Count = 10
    """from how many of the last states the variances of Newton steps are taken."""

    def draws(self, problem: MlnProblem) -> Drawer:
        """See ``Contrast.draws``."""
        engine, n = WalkSat(flips=self.flips, tries=1, seed=problem.seed), len(problem.start)
        rng = np.random.default_rng(problem.seed)
        features = self.features(problem)
        truth = [f(world.truth, n) for f, world in zip(features, problem.ground, strict=True)]
        last: list[Floats] = []

        def found(weights: Floats) -> Floats:
            total = np.zeros(n)
            for world, of, true in zip(problem.ground, features, truth, strict=True):
                bonus = noise(world, rng) if self.perturbed else np.zeros(world.model.n_atoms)
                simple = world.searchable
                simple.weigh(np.append(world.weigh(weights), bonus))
                total += of(engine.search(world.model, simple.problem), n) - true
            return total

        def drawn(weights: Floats) -> Floats:
            last.append(found(weights))
            while self.perturbed and len(last) < self.states:
                last.append(found(weights))
            del last[: -self.states]
            return np.stack(last)

        return drawn

    def least(self, problem: MlnProblem) -> Floats:
        """Return the variances of the counts where each ground clause is a coin of its own.

        A most probable state may stay the same for many steps: its counts then say nothing of variance.
        """
        n = len(problem.start)
        if self.perturbed:
            return np.zeros(n)
        return sum((world.every(n) for world in problem.ground), np.zeros(n)) / 4.0

    def expected(self, drawn: Floats) -> Floats:
        """Return the counts of the newest state."""
        newest: Floats = drawn[-1]
        return newest


def noise(world: GroundWorld, rng: np.random.Generator) -> Floats:
    """Draw a bonus for each open atom (Papandreou & Yuille 2011), float64[atoms].

    With Gumbel noise for each value of a variable, its most probable value is a draw of it: exactly so where
    variables do not depend on each other. The values of an atom are true and false, those of a group its
    atoms and, unless one must be true, none.
    """
    model = world.model
    atom, group = np.arange(model.n_atoms), model.n_atoms + model.group
    other = np.where(model.group < 0, atom, group)  # false, or none
    draw = rng.gumbel(size=model.n_atoms)
    false = rng.gumbel(size=model.n_atoms + len(model.exactly))
    return np.where(world.predicted, draw - false[other], 0.0)
