"""Search on a random grid, at random, and by Hyperband (Srinivasan 2020, sections 6.4.3 to 6.4.5)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import count
from math import ceil
from typing import Annotated, Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field, field_validator

from onlinesrl.core.arrays import Floats
from onlinesrl.core.evaluation.metrics import METRICS
from onlinesrl.core.io.config_types import Count, Name, Positive, Positives
from onlinesrl.core.learning.batch import BatchLearner, Learned, Trace, Watch
from onlinesrl.core.learning.search.evaluator import Evaluations, Scorer, Searchable, Trial
from onlinesrl.core.learning.search.weight_space import Space
from onlinesrl.core.parallel.config import PoolSection, opened

SHOWN = 10
"""How many of the best configurations are told."""
ATTEMPTS = 1000
"""How often a configuration that is not a multiple of an explored one is drawn for."""


class Search(PoolSection, BatchLearner):
    """Weights that make a metric best on the data learned from."""

    metric: Name = "f1"
    """what is made best: auroc, aupr, aupr_negative, mse, mae, accuracy, categorical_accuracy, f1, map or
    cll."""
    predicate: Name | None = None
    """whose atoms are measured; null: the only predicate whose truth is known."""

    def needs(self) -> Mapping[str, str]:
        """See ``Section.needs``."""
        return {"engine": "ray"} if self.engine == "ray" else {}

    @field_validator("metric")
    @classmethod
    def _known(cls, metric: str) -> str:
        if metric not in METRICS:
            raise ValueError(f"{metric} is no metric; known are {', '.join(METRICS)}")
        return metric

    def learn(self, problem: Searchable, watch: Watch) -> Learned:
        """Return the best weights found; those of the model are the first that are tried.

        The objective of a step is the best metric so far, negated where greater is better. Raises
        LearningError.
        """
        scorer = Scorer(problem, self.metric, self.predicate)
        with opened(self) as pool:
            run = Run(problem, Evaluations(scorer, pool), Trace(watch))
            run.evaluate([run.first])
            self.explore(run)
        best = sorted(run.found, key=lambda scored: -scored[1])  # of equal ones the first
        weights = np.zeros(len(problem.start))
        weights[problem.soft] = best[0][0]
        sign = 1.0 if METRICS[self.metric].greater else -1.0
        stats = {
            "metric": self.metric,
            "value": sign * best[0][1],
            "configurations": run.tried,
            "best": [{"value": sign * v, "weights": w.tolist()} for w, v in best[:SHOWN]],
        }
        few = f"there are no more than {len(run.rays):,} configurations that differ"
        return Learned(weights, run.trace.steps, stats, [few] if run.exhausted else [])

    @abstractmethod
    def explore(self, run: Run) -> None:
        """Choose configurations, and evaluate them."""


class Run:
    """A search: what was explored, and how good it was."""

    def __init__(self, problem: Searchable, evaluations: Evaluations, trace: Trace) -> None:
        self.evaluations = evaluations
        self.trace = trace
        self.space = Space(int(np.count_nonzero(problem.soft)), problem.signed)
        self.rng = np.random.default_rng(problem.seed)
        self.scale = self.space.size if problem.signed else 1
        self.start = problem.start[problem.soft]
        self.rays: set[bytes] = set()
        self.found: list[tuple[Floats, float]] = []
        self.tried = 0
        self.exhausted = False

    @cached_property
    def first(self) -> Floats:
        """The weights of the model, or equal ones where all are 0; their absolute values have the sum 1."""
        start = self.start if np.any(self.start) else np.ones(self.space.size)
        weights: Floats = start / np.abs(start).sum()
        self.rays.add(self.space.ray(weights))
        return weights

    def some(self, n: int, draw: Any) -> list[Floats]:
        """Draw weights that are no multiples of explored ones: ``n``, or fewer, and ``exhausted``."""
        distinct: list[Floats] = []
        attempts = 0
        while len(distinct) < n and attempts < ATTEMPTS:
            weights: Floats = draw()
            ray, attempts = self.space.ray(weights), attempts + 1
            if ray not in self.rays:
                self.rays.add(ray)
                distinct.append(weights)
                attempts = 0
        self.exhausted |= len(distinct) < n
        return distinct

    def evaluate(
        self, weights: list[Floats], share: float = 1.0, iterations: int | None = None
    ) -> list[float]:
        """Evaluate, and note those that were predicted with all the effort."""
        scores = []
        trials = [Trial(self.scale * w, share, iterations) for w in weights]
        for trial, score in zip(trials, self.evaluations.scores(trials), strict=True):
            self.tried += 1
            scores.append(score)
            if share == 1.0:
                self.found.append((trial.weights, score))
                self.trace.add(-max(value for _, value in self.found))
        return scores


class RandomGrid(Search):
    """Random search on a grid: configurations of which none is a multiple of another."""

    name = "random-grid"
    configurations: Count = 50
    """how many are tried, beside the model's own weights."""
    grid: Positives = (0.001, 0.01, 0.1, 1.0, 10.0)
    """the values that a weight may have, with both signs in Markov logic."""

    def explore(self, run: Run) -> None:
        """See ``Search.explore``."""
        values = np.array(self.grid)
        run.evaluate(run.some(self.configurations, lambda: run.space.grid(run.rng, values)))


class Sampled(Search):
    """A search of weights drawn from a distribution."""

    sampling: Literal["dirichlet", "hypersphere"] = "dirichlet"
    """how they are drawn: from a Dirichlet distribution, or uniformly by direction."""
    a: Positive = 1.0
    """the parameter of the Dirichlet distribution; the smaller, the larger are the ratios of weights."""
    floor: Annotated[float, Field(ge=0, le=1)] = 1e-4
    """the smallest ratio of two weights drawn; beyond it inference is slow and hardly differs. 0: none."""

    def draws(self, run: Run, rng: Generator, n: int) -> Floats:
        """Return weights, float64[n, weights]."""
        if self.sampling == "dirichlet":
            return run.space.dirichlet(rng, n, self.a, self.floor)
        return run.space.hypersphere(rng, n)

    def one(self, run: Run) -> Floats:
        """Return weights, float64[weights]."""
        first: Floats = self.draws(run, run.rng, 1)[0]
        return first


class RandomSearch(Sampled):
    """Continuous random search."""

    name = "random"
    configurations: Count = 50
    """how many are tried, beside the model's own weights."""

    def explore(self, run: Run) -> None:
        """See ``Search.explore``."""
        run.evaluate(run.some(self.configurations, lambda: self.one(run)))


class Hyperband(Sampled):
    """Hyperband (Li et al. 2018): many configurations with little effort, the best ones with more."""

    name = "hyperband"
    iterations: Count | None = None
    """R, the most iterations of inference for a configuration: rounds of ADMM (at least ten are done), flips
    of MaxWalkSAT in place of mpe and lp, which the last round of a bracket uses, or samples of gibbs and
    mcsat. null: in PSL the rounds that equal weights take; in Markov logic the worlds, and where they are
    too few 100,000 flips, or 1,000 samples."""
    brackets: Count | None = None
    """how many ways to divide the effort are tried, from many configurations to few; null: 4, or with
    iterations as many as there are powers of eta from 1 to it."""
    eta: Annotated[int, Field(ge=2)] = 4
    """one in so many configurations goes to the next round, with so many times the effort."""

    def explore(self, run: Run) -> None:
        """See ``Search.explore``."""
        for rounds in schedule(self._brackets, self.eta):
            left = run.some(rounds[0][0], lambda: self.one(run))
            for n, share in rounds:
                effort = None if self.iterations is None else ceil(share * self.iterations)
                scores = run.evaluate(left := left[:n], share, effort)
                left = [left[k] for k in np.argsort(-np.array(scores), kind="stable")]

    @property
    def _brackets(self) -> int:
        """The number of brackets, by default floor(log_eta R) + 1."""
        if self.brackets is not None or self.iterations is None:
            return self.brackets or 4
        return next(s for s in count(1) if self.eta**s > self.iterations)


def schedule(brackets: int, eta: int) -> Iterator[list[tuple[int, float]]]:
    """Yield for each bracket its rounds: the number of configurations, and the share of the effort.

    Bracket s = s_max .. 0 begins with ceil((s_max + 1) eta^s / (s + 1)) configurations at the share eta^-s
    (algorithm 6, whose loop must include s = 0).
    """
    for s in reversed(range(brackets)):
        t = ceil(brackets * eta**s / (s + 1))
        yield [(t // eta**i, float(eta) ** (i - s)) for i in range(s + 1)]
