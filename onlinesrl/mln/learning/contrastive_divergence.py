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
from onlinesrl.core.io.config_types import Count, Natural, Positive
from onlinesrl.core.kernels.random import generator
from onlinesrl.core.learning.batch import Learned, Trace, Watch
from onlinesrl.core.learning.diagonal_newton import Newton
from onlinesrl.mln.ground.ground_mrf import State
from onlinesrl.mln.inference.gibbs import Gibbs
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.inference.mcmc import Chains
from onlinesrl.mln.inference.mcsat import McSat
from onlinesrl.mln.learning.estimated_counts import CountingLearner, EstimatedWorld
from onlinesrl.mln.learning.problem import MlnProblem
from onlinesrl.mln.learning.reweighted_world import ReweightedWorld

BATCHES = 10
"""Of steps, whose means tell the standard error of the mean gradient."""
UNSETTLED = (
    "the weights have not settled: more `steps` might gain {:.3g} of log-likelihood (standard error "
    "{:.2g}), over one half per weight"
)

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
        trace, n, left = Trace(watch), len(problem.start), RemainingGain()
        weights, draws = started(problem), self.draws(problem)
        step = Newton(self.rate) if self.newton else None
        mean = np.zeros(n)
        for t in range(self.steps):
            interrupt.check()
            drawn = draws(weights)
            gradient = -self.expected(drawn) - weights / self.prior_sd**2
            precision = self.prior_sd**-2 + self.least(problem)
            trace.add(float(np.linalg.norm(gradient)))
            if step is None:
                weights = weights + self.rate * gradient
            else:
                weights = weights + step.of(gradient, drawn, precision)
            if 2 * t >= self.steps:
                left.add(gradient, drawn.var(axis=0) + precision)
                mean += (weights - mean) / len(left.gradients)
        gain, warnings = left.report()
        stats = {"worlds": len(problem.ground), "newton": self.newton, **gain}
        return Learned(mean, trace.steps, stats, warnings)

    def expected(self, drawn: Floats) -> Floats:
        """Return the mean of the samples."""
        return np.asarray(drawn.mean(axis=0))

    def least(self, problem: MlnProblem) -> Floats:
        """Return what the variances are larger by than those of the samples, float64[weights]."""
        return np.zeros(len(problem.start))


class RemainingGain:
    """How much log-likelihood the mean of the last steps is below the optimum, estimated from them.

    By diagonal Newton steps, 1/2 sum_i g_i^2 / Var n_i is the log-likelihood still to be gained. Noise adds
    its own variance to the square of a mean gradient; it is taken off. It comes from the means of
    ``BATCHES`` of consecutive steps, since chains go on and gradients depend on those before.
    """

    def __init__(self) -> None:
        self.gradients: list[Floats] = []
        self.variances: list[Floats] = []

    def add(self, gradient: Floats, variance: Floats) -> None:
        """Take the gradient of a step, and the variances of the counts and the prior, float64[weights]."""
        self.gradients.append(gradient)
        self.variances.append(variance)

    def gain(self) -> tuple[float, float]:
        """Return the gain, and its standard error where there is none, (0, inf) of too few steps."""
        if len(self.gradients) < 2 * BATCHES:
            return 0.0, np.inf
        variance = np.mean(self.variances, axis=0)
        batches = [each.mean(axis=0) for each in np.array_split(np.array(self.gradients), BATCHES)]
        scale = np.divide(0.5, variance, where=variance > 0, out=np.zeros_like(variance))
        noise = np.var(batches, axis=0, ddof=1) / BATCHES * scale
        gain = float(scale @ np.mean(batches, axis=0) ** 2 - noise.sum())
        return gain, float(np.sqrt(2.0 * noise @ noise))

    def report(self) -> tuple[dict[str, float], list[str]]:
        """Return the gain as statistics, and a warning where it is more than the data can tell weights."""
        gain, error = self.gain()
        if np.isinf(error):
            return {}, []
        stats = {"gain_left": gain, "gain_left_error": error}
        if gain - 3.0 * error <= 0.5 * len(self.variances[0]):
            return stats, []
        return stats, [UNSETTLED.format(gain, error)]


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
        self, world: ReweightedWorld, features: Features, engine: Chains, number: int, size: int
    ) -> None:
        self.world = world
        self.features = features
        self.of = world.reweighable
        self.state = world.truth[self.of.problem.kept]
        self.draw = engine.sampler(self.of.problem)
        self.rng = generator(engine.seed, engine.record, number)
        self.truth = features(world.truth, size)

    def begin(self, state: State) -> None:
        """Go on from a state of the model."""
        self.state = state[self.of.problem.kept]

    def step(self, weights: Floats, samples: int) -> Iterator[Floats]:
        """Yield f(state) - f(truth) after each of some samples."""
        self.of.weigh(self.world.weigh(weights))
        for _ in range(samples):
            yield self._after(weights, 1)

    def go(self, weights: Floats, samples: int) -> Floats:
        """Return f(state) - f(truth) after some samples, none of which is looked at."""
        self.of.weigh(self.world.weigh(weights))
        return self._after(weights, samples)

    def _after(self, weights: Floats, samples: int) -> Floats:
        if samples:
            self.draw(self.state, samples, self.rng, *np.zeros((2, len(self.state))))
        state = self.of.problem.expand(self.state)
        return self.features(state, len(weights)) - self.truth


class ContrastiveDivergence(Contrast):
    """Contrastive divergence: counts of samples of chains that begin at the truth and go on."""

    kind: Literal["contrastive-divergence"] = "contrastive-divergence"
    """how weights are learned."""
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
    """how weights are learned."""
    perturbed: bool = True
    """search with random noise at each atom, so that states are nearly draws; else the most probable one."""
    sweeps: Natural = 10
    """of Gibbs sampling after a search with noise: each brings the state nearer to a draw."""
    flips: Count = 10_000
    """the most moves of a search."""
    states: Count = 10
    """from how many of the last states the variances of Newton steps are taken."""

    def draws(self, problem: MlnProblem) -> Drawer:
        """See ``Contrast.draws``."""
        engine, n = WalkSat(flips=self.flips, tries=1, seed=problem.seed), len(problem.start)
        rng = np.random.default_rng(problem.seed)
        worlds = enumerate(zip(problem.ground, self.features(problem), strict=True))
        chains = [Chain(w, f, Gibbs(seed=problem.seed), k, n) for k, (w, f) in worlds]
        last: list[Floats] = []

        def found(weights: Floats) -> Floats:
            total = np.zeros(n)
            for chain in chains:
                model, simple = chain.world.model, chain.world.searchable
                bonus = noise(chain.world, rng) if self.perturbed else np.zeros(model.n_atoms)
                simple.weigh(np.append(chain.world.weigh(weights), bonus))
                chain.begin(engine.search(model, simple.problem))
                total += chain.go(weights, self.sweeps if self.perturbed else 0)
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
        return np.asarray(drawn[-1])


def noise(world: ReweightedWorld, rng: np.random.Generator) -> Floats:
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
