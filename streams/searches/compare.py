"""Learners of PSL's weights by what they predict: tables 6.1, 6.3 to 6.5 and figure 6.1 of Srinivasan (2020).

usage: python streams/searches/compare.py FOLDER DATASET EXPERIMENT [--folds N]

FOLDER holds citeseer/, epinions/ and jester/. See README.md.

experiments:
  methods      all learners on eight folds, with a paired t-test and CPU seconds (6.1, and times of 6.3)
  seeds        the searches with ten seeds, on the first fold (6.3)
  a            the parameter A of the Dirichlet distribution (6.4)
  acquisition  the acquisition functions of Bayesian optimisation (6.5)
  likelihood   how random weights rank by a metric and by likelihoods (figure 6.1)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from data import DATASETS, Dataset, Fold
from pydantic import TypeAdapter
from scipy.stats import spearmanr, ttest_rel

from onlinesrl.core.batch import LearningError
from onlinesrl.core.scores import METRICS
from onlinesrl.core.search.space import Space
from onlinesrl.psl.learning.learners import AnyPslLearner
from onlinesrl.psl.learning.mple import conditionals_of
from onlinesrl.psl.learning.problem import PslProblem

LIKELIHOODS: dict[str, dict[str, Any]] = {
    "equal weights": {},
    "mle": {"kind": "mle", "log": 0.1, "entropy": 0.0},
    "mple": {"kind": "mple"},
    "lme": {"kind": "lme", "c": 10.0},
    "squared-error": {"kind": "squared-error", "log": 0.1, "entropy": 0.0},
    "cross-entropy": {"kind": "cross-entropy", "log": 0.1, "entropy": 0.0},
}
SEARCHES = ("random-grid", "random", "hyperband", "bayesian")
SEEDS, DRAWS = 10, 100
Learner = Mapping[str, Any]


def main() -> None:
    """Run an experiment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    experiments = {
        "methods": methods,
        "seeds": seeds,
        "a": dirichlet,
        "acquisition": acquisition,
        "likelihood": likelihood,
    }
    parser.add_argument("folder", type=Path)
    parser.add_argument("dataset", choices=DATASETS)
    parser.add_argument("experiment", choices=experiments)
    parser.add_argument("--folds", type=int, default=8)
    given = parser.parse_args()
    dataset = DATASETS[given.dataset]
    folds = [fold for fold, _ in zip(dataset.folds(given.folder), range(given.folds), strict=False)]
    of = folds[0].learn
    print(f"{given.dataset}: {of.soft.sum()} weights, {of.model.n_rows:,} groundings", flush=True)
    experiments[given.experiment](dataset, folds)


def methods(dataset: Dataset, folds: list[Fold]) -> None:
    """Print a table of all learners by each metric."""
    likely = {name: [*_each(of, folds)] for name, of in LIKELIHOODS.items()}
    for metric in dataset.metrics:
        searches = {kind: {"kind": kind, "metric": metric} for kind in SEARCHES}
        found = likely | {name: [*_each(of, folds)] for name, of in searches.items()}
        table(metric, folds, {name: of for name, of in found.items() if of})


def seeds(dataset: Dataset, folds: list[Fold]) -> None:
    """Print mean and standard deviation on held-out data over seeds."""
    metric = dataset.metrics[-1]
    for kind in SEARCHES:
        learner = {"kind": kind, "metric": metric}
        varied = [replace(folds[0].learn, seed=n) for n in range(SEEDS)]
        found = [measure(folds[0].test, learned(of, learner), metric) for of in varied]
        print(f"{kind:16}{metric}  {shown(found)}", flush=True)


def dirichlet(dataset: Dataset, folds: list[Fold]) -> None:
    """Print what a search finds by the parameter of the distribution that it draws from."""
    metric = dataset.metrics[0]
    for kind in SEARCHES[1:]:
        for a in (10.0, 1.0, 0.1, 0.01):
            learner = {"kind": kind, "metric": metric, "a": a}
            found = held_out(learner, folds)
            print(f"{kind:12}A = {a:<6g}{metric}  {shown(found)}", flush=True)


def acquisition(dataset: Dataset, folds: list[Fold]) -> None:
    """Print what Bayesian optimisation finds by its acquisition function."""
    metric = dataset.metrics[-1]
    for name in ("ucb", "ts", "pi", "ei"):
        learner = {"kind": "bayesian", "metric": metric, "acquisition": name}
        found = held_out(learner, folds)
        print(f"{name:6}{metric}  {shown(found)}", flush=True)


def likelihood(dataset: Dataset, folds: list[Fold]) -> None:
    """Print rank correlations of metrics and likelihoods over random weights, on the first fold."""
    of, rng = folds[0].learn, np.random.default_rng(0)
    draws = [of.whole(w) for w in Space(int(of.soft.sum()), False).dirichlet(rng, DRAWS, 1.0)]
    by = {"MAP likelihood": [of.solve(w).energy - float(w @ of.observed) for w in draws]}
    conditionals = conditionals_of(of.model, of.truth, len(of.start))
    if len(conditionals.width):
        by["pseudo-likelihood"] = [conditionals.value(w)[0] for w in draws]
    for metric in dataset.metrics:
        sign = 1.0 if METRICS[metric].greater else -1.0
        scores = [sign * measure(of, w, metric) for w in draws]
        for name, values in by.items():
            best = scores[int(np.argmax(values))]
            rank = spearmanr(values, scores).statistic
            print(
                f"{metric}, {name}: rank correlation {rank:.2f}; the most likely of {DRAWS} has "
                f"{sign * best:.4f}, the best {sign * max(scores):.4f}",
                flush=True,
            )


# learning ----------------------------------------------------------------------------------------


def learned(of: PslProblem, learner: Learner) -> Any:
    """Return learned weights, float64[rules]; in this process alone, so that its seconds are known."""
    if not learner:
        return of.start
    alone = {"workers": 1} if learner["kind"] in SEARCHES else {}
    section: Any = TypeAdapter(AnyPslLearner).validate_python({**learner, **alone})
    return section.learn(of, lambda step: None).weights


def _each(learner: Learner, folds: list[Fold]) -> Iterator[tuple[Any, float]]:
    """Yield for each fold the weights and the CPU seconds; nothing where the learner cannot learn."""
    for fold in folds:
        began = time.process_time()
        try:
            weights = learned(fold.learn, learner)
        except LearningError as error:
            print(f"{learner['kind']}: {error}", flush=True)
            return
        yield weights, time.process_time() - began


def held_out(learner: Learner, folds: list[Fold]) -> list[float]:
    """Return a search's metric on held-out data."""
    found = zip(_each(learner, folds), folds, strict=True)
    return [measure(fold.test, weights, learner["metric"]) for (weights, _), fold in found]


def measure(of: PslProblem, weights: Any, metric: str) -> float:
    """Return a metric of the values of least energy."""
    (scored,) = of.predicted(weights).values()
    value = METRICS[metric].measure(*scored)
    assert value is not None
    return value


def table(metric: str, folds: list[Fold], found: Mapping[str, list[tuple[Any, float]]]) -> None:
    """Print means, standard deviations, and p-values against the best on held-out data."""
    train, test = (
        {
            name: [measure(fold[side], w, metric) for (w, _), fold in zip(of, folds, strict=True)]
            for name, of in found.items()
        }
        for side in (0, 1)
    )
    best = (max if METRICS[metric].greater else min)(test, key=lambda name: fmean(test[name]))
    print(f"| {metric} | learned from | held out | p | CPU s |\n|---|---|---|---|---|")
    for name, of in found.items():
        same = test[name] == test[best] or len(folds) < 2
        p = "" if same else f"{ttest_rel(test[name], test[best]).pvalue:.3f}"
        seconds = fmean(s for _, s in of)
        row = f"| `{name}` | {shown(train[name])} | {shown(test[name])} | {p} | {seconds:.2f} |"
        print(row, flush=True)


def shown(values: list[float]) -> str:
    """Return mean and standard deviation."""
    return f"{fmean(values):.4f} ({stdev(values) if len(values) > 1 else 0.0:.4f})"


if __name__ == "__main__":
    main()
