"""Weight learning from sampled counts: contrastive divergence and the voted perceptron.

The gradient of the log-likelihood is n(truth) - E[n] (Richardson & Domingos 2006). Contrastive divergence
(Hinton 2002) estimates the expectation by the mean of a few samples. The voted perceptron (Singla &
Domingos 2005) uses the counts of the most probable state. Both take gradient steps, or steps of the
diagonal Newton method (Lowd & Domingos 2007, section 4.3). As in that paper, unit clauses without a
weight start at their log-odds in the worlds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Count, Natural, Positive
from onlinesrl.core.kernels.random import generator
from onlinesrl.core.learning.batch import Learned, Trace, UnfitError, Watch
from onlinesrl.core.learning.diagonal_newton import Newton
from onlinesrl.mln.ground.ground_mrf import State
from onlinesrl.mln.inference.gibbs import Gibbs
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.inference.mcmc import Chains
from onlinesrl.mln.inference.mcsat import McSat
from onlinesrl.mln.learning.counted_world import CountedWorld, CountingSection
from onlinesrl.mln.learning.problem import MlnProblem
from onlinesrl.mln.learning.reweighted_world import ReweightedWorld

BATCHES = 10
"""The number of batches of steps whose means give the standard error of the mean gradient."""
UNSETTLED = (
    "the weights have not settled: more `steps` might gain {:.3g} of log-likelihood (standard error "
    "{:.2g}), over one half per weight"
)

Drawer: TypeAlias = Callable[[Floats], Floats]


class Contrast(CountingSection):
    """Gradient ascent along n(truth) - E[n]; the reported objective is the norm of the gradient."""

    counting: Literal["grounded", "exact", "ijgp"] = "grounded"
    """grounded: states are drawn from the ground network. exact: nothing is grounded, and each draw takes
    its odds from exact counts. ijgp: from counts estimated by IJGP(i) where a formula, with the atom that is
    drawn, is too wide for ``i_bound``."""
    steps: Count = 100
    """the number of steps."""
    newton: bool = True
    """diagonal Newton steps; else the gradient, times ``rate``."""
    rate: Positive = 0.01
    """the size of a gradient step, and the trust in the first Newton step."""
    prior_sd: Positive = 10.0
    """the standard deviation of the weights' Gaussian prior, whose mean is 0."""

    @abstractmethod
    def draws(self, problem: MlnProblem, counted: Sequence[CountedWorld] = ()) -> Drawer:
        """Return a function that draws counts f(state) - f(truth) by the weights.

        The counts are summed over the worlds, float64[samples, weights]. The last sample is the newest.
        """

    def worlds(self, problem: MlnProblem) -> list[CountedWorld]:
        """Return the worlds without grounding them; none where they are grounded."""
        if self.counting == "grounded":
            return []
        return [problem.counted(k, bound=self.bound) for k in range(len(problem.worlds))]

    def learn(self, problem: MlnProblem, watch: Watch) -> Learned:
        """Return the mean of the weights over the last half of the steps."""
        trace, n, remaining = Trace(watch), len(problem.start), RemainingGain()
        counted = self.worlds(problem)
        weights, draws = started(problem, counted), self.draws(problem, counted)
        least = self.least(problem, counted)
        step = Newton(self.rate) if self.newton else None
        mean = np.zeros(n)
        for t in range(self.steps):
            drawn = draws(weights)
            gradient = -self.expected(drawn) - weights / self.prior_sd**2
            precision = self.prior_sd**-2 + least
            trace.add(float(np.linalg.norm(gradient)))
            if step is None:
                weights = weights + self.rate * gradient
            else:
                weights = weights + step.of(gradient, drawn, precision)
            if 2 * t >= self.steps:
                remaining.add(gradient, drawn.var(axis=0) + precision)
                mean += (weights - mean) / len(remaining.gradients)
        gain, warnings = remaining.report()
        stats = {"worlds": len(problem.worlds), "newton": self.newton, **gain}
        return Learned(mean, trace.steps, stats, warnings)

    def expected(self, drawn: Floats) -> Floats:
        """Return the mean of the samples."""
        return np.asarray(drawn.mean(axis=0))

    def least(self, problem: MlnProblem, counted: Sequence[CountedWorld]) -> Floats:
        """Return the variances to add to the variances of the samples, float64[weights]."""
        return np.zeros(len(problem.start))


class RemainingGain:
    """An estimate of the remaining gain of log-likelihood over the mean of the last steps.

    By diagonal Newton steps, the remaining gain is 1/2 sum_i g_i^2 / Var n_i. Noise adds its variance to
    the square of a mean gradient; this variance is subtracted. Consecutive gradients are correlated,
    because the Markov chains continue. The variance is therefore estimated from the means of ``BATCHES``
    batches of steps.
    """

    def __init__(self) -> None:
        self.gradients: list[Floats] = []
        self.variances: list[Floats] = []

    def add(self, gradient: Floats, variance: Floats) -> None:
        """Add a step's gradient and its variance of counts plus prior precision, float64[weights] each."""
        self.gradients.append(gradient)
        self.variances.append(variance)

    def gain(self) -> tuple[float, float]:
        """Return the gain and its standard error if the true gain is 0; (0, inf) after too few steps."""
        if len(self.gradients) < 2 * BATCHES:
            return 0.0, np.inf
        variance = np.mean(self.variances, axis=0)
        batches = [
            batch.mean(axis=0) for batch in np.array_split(np.array(self.gradients), BATCHES)
        ]
        scale = np.divide(0.5, variance, where=variance > 0, out=np.zeros_like(variance))
        noise = np.var(batches, axis=0, ddof=1) / BATCHES * scale
        gain = float(scale @ np.mean(batches, axis=0) ** 2 - noise.sum())
        return gain, float(np.sqrt(2.0 * noise @ noise))

    def report(self) -> tuple[dict[str, float], list[str]]:
        """Return the gain as statistics, and a warning if it exceeds 1/2 per weight."""
        gain, error = self.gain()
        if np.isinf(error):
            return {}, []
        stats = {"gain_left": gain, "gain_left_error": error}
        if gain - 3.0 * error <= 0.5 * len(self.variances[0]):
            return stats, []
        return stats, [UNSETTLED.format(gain, error)]


def started(problem: MlnProblem, counted: Sequence[CountedWorld] = ()) -> Floats:
    """Return the start weights: the program's, or log-odds for unit clauses without a weight."""
    n = len(problem.start)
    pairs = [world.units() for world in counted] or [
        (world.features(world.truth, n), world.every(n)) for world in problem.ground
    ]
    true, total = (sum(column, np.zeros(n)) for column in zip(*pairs, strict=True))
    units, weights = problem.units, problem.start.copy()
    weights[units] = np.log((true + 0.5)[units] / (total - true + 0.5)[units])
    return weights


class Chain:
    """A world's Markov chain, which starts at the truth and continues when the weights change."""

    def __init__(self, world: ReweightedWorld, engine: Chains, number: int, size: int) -> None:
        self.world = world
        self.reweighable = world.reweighable
        self.state = world.truth[self.reweighable.problem.atoms]
        self.draw = engine.sampler(self.reweighable.problem)
        self.rng = generator(engine.seed, engine.record, number)
        self.truth = world.features(world.truth, size)

    def begin(self, state: State) -> None:
        """Set the state from which the chain continues."""
        self.state = state[self.reweighable.problem.atoms]

    def step(self, weights: Floats, samples: int) -> Iterator[Floats]:
        """Yield f(state) - f(truth) after each sample."""
        self.reweighable.weigh(self.world.weigh(weights))
        for _ in range(samples):
            yield self._after(weights, 1)

    def go(self, weights: Floats, samples: int) -> Floats:
        """Return f(state) - f(truth) of the last of ``samples`` samples."""
        self.reweighable.weigh(self.world.weigh(weights))
        return self._after(weights, samples)

    def _after(self, weights: Floats, samples: int) -> Floats:
        if samples:
            self.draw(self.state, samples, self.rng, *np.zeros((2, len(self.state))))
        state = self.reweighable.problem.expand(self.state)
        return self.world.features(state, len(weights)) - self.truth


class ContrastiveDivergence(Contrast):
    """Contrastive divergence with persistent Markov chains that start at the truth."""

    name = "contrastive-divergence"
    sampler: Literal["gibbs", "mcsat"] = "gibbs"
    """the sampler: a sample is one sweep of Gibbs sampling, or one step of MC-SAT."""
    samples: Count = 50
    """the number of samples of each world per step."""

    def draws(self, problem: MlnProblem, counted: Sequence[CountedWorld] = ()) -> Drawer:
        """See ``Contrast.draws``."""
        if counted and self.sampler != "gibbs":
            raise UnfitError("sampler", f"{self.sampler} needs `counting: grounded`")
        engine = {"gibbs": Gibbs, "mcsat": McSat}[self.sampler](seed=problem.seed)
        worlds, n = () if counted else problem.ground, len(problem.start)
        grounded = [Chain(world, engine, k, n) for k, world in enumerate(worlds)]
        chains: Sequence[Chain | CountedWorld] = counted or grounded

        def drawn(weights: Floats) -> Floats:
            total = np.zeros((self.samples, len(weights)))
            for chain in chains:
                total += np.stack([*chain.step(weights, self.samples)])
            return total

        return drawn


class VotedPerceptron(Contrast):
    """The voted perceptron: counts of the most probable state, found by MaxWalkSAT."""

    name = "voted-perceptron"
    perturbed: bool = True
    """perturb each atom with random noise, so that states are approximate samples; false: the most probable
    state, as the learner was published (Singla & Domingos 2005)."""
    sweeps: Natural = 10
    """the sweeps of Gibbs sampling after a perturbed search, which bring the state closer to a sample."""
    flips: Count = 10_000
    """the maximal number of moves of a search."""
    states: Count = 10
    """the number of last states from which the variances of Newton steps are estimated."""

    def draws(self, problem: MlnProblem, counted: Sequence[CountedWorld] = ()) -> Drawer:
        """See ``Contrast.draws``."""
        engine, n = WalkSat(flips=self.flips, tries=1, seed=problem.seed), len(problem.start)
        rng = np.random.default_rng(problem.seed)
        worlds, gibbs = () if counted else problem.ground, Gibbs(seed=problem.seed)
        chains = [Chain(world, gibbs, k, n) for k, world in enumerate(worlds)]
        last: list[Floats] = []

        def found(weights: Floats) -> Floats:
            total = np.zeros(n)
            for world in counted:
                seed = int(rng.integers(1 << 62)) if self.perturbed else None
                world.search(weights, self.flips, engine.noise, seed)
                for _ in range(self.sweeps if self.perturbed else 0):
                    world.sweep(weights)
                total += world.features()
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

    def least(self, problem: MlnProblem, counted: Sequence[CountedWorld]) -> Floats:
        """Return the variances of the counts if each ground clause were an independent fair coin.

        The most probable state may stay the same for many steps; its counts then have no variance.
        """
        n = len(problem.start)
        if self.perturbed:
            return np.zeros(n)
        worlds = counted or problem.ground
        return sum((np.abs(world.every(n)) for world in worlds), np.zeros(n)) / 4.0

    def expected(self, drawn: Floats) -> Floats:
        """Return the counts of the newest state."""
        return np.asarray(drawn[-1])


def noise(world: ReweightedWorld, rng: np.random.Generator) -> Floats:
    """Draw a bonus for each open atom (Papandreou & Yuille 2011), float64[atoms].

    With Gumbel noise for each value of a variable, the most probable value is a sample of the variable.
    This is exact for independent variables. The values of an atom are true and false. The values of a group
    are its atoms and, unless one must be true, none.
    """
    model = world.model
    atom, group = np.arange(model.n_atoms), model.n_atoms + model.group
    other = np.where(model.group < 0, atom, group)  # false, or none
    draw = rng.gumbel(size=model.n_atoms)
    false = rng.gumbel(size=model.n_atoms + len(model.exactly))
    return np.where(world.predicted, draw - false[other], 0.0)
