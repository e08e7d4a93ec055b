"""Learners of PSL's weights by what they predict: the experiments of Srinivasan (2020), chapter 6.

usage: python streams/papers/searches/compare.py FOLDER DATASET EXPERIMENT
                                            [--folds N] [--users N] [--output FOLDER]

FOLDER holds citeseer/, cora/, epinions/ and jester/. Tables are printed, and figures go to the output, with
matplotlib. See README.md.

experiments:
  methods      all learners on eight folds, with a paired t-test and CPU seconds (table 6.1)
  seeds        the searches with several seeds, on the first fold (table 6.3)
  thesis       Hyperband and Bayesian optimisation with the settings of the thesis, beside the defaults
  a            the parameter A of the Dirichlet distribution (table 6.4)
  acquisition  the acquisition functions of Bayesian optimisation (table 6.5)
  likelihood   random weights by a metric and by likelihoods (figure 6.1)
  time         CPU seconds by groundings and by rules, on the first fold (figure 6.3)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import figures
import numpy as np
import scipy.optimize  # noqa: F401 - before seconds are measured
import sklearn.gaussian_process  # noqa: F401
from data import DATASETS, Dataset, Fold, with_rules
from pydantic import TypeAdapter
from scipy.stats import spearmanr, ttest_rel

import onlinesrl as srl
from onlinesrl.psl.learning.mple import conditionals_of
from onlinesrl.psl.learning.problem import PslProblem
from onlinesrl.psl.learning.registry import AnyPslLearner

LIKELIHOODS: dict[str, dict[str, Any]] = {
    "equal weights": {},
    "mle": {"kind": "mle", "log": 0.1, "entropy": 0.0},
    "voted-perceptron": {"kind": "voted-perceptron"},
    "mple": {"kind": "mple"},
    "lme": {"kind": "lme", "c": 10.0},
    "squared-error": {"kind": "squared-error", "log": 0.1, "entropy": 0.0},
    "cross-entropy": {"kind": "cross-entropy", "log": 0.1, "entropy": 0.0},
}
SEARCHES = ("random-grid", "random", "hyperband", "bayesian")
RIVALS = ("mle", "mple", "lme")
SEEDS, DRAWS, USERS = 10, 100, (5, 10, 20, 40, 80)
Learner = Mapping[str, Any]
Learnt = Sequence[tuple[Any, float]]
"""For each fold the weights learned, and the CPU seconds."""


def main() -> None:
    """Run an experiment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("dataset", choices=DATASETS)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--folds", type=int, default=8)
    parser.add_argument("--users", type=int, default=250, help="of each of Jester's folds")
    parser.add_argument("--output", type=Path, default=Path("runs/searches"))
    given = parser.parse_args()
    dataset = DATASETS[given.dataset]
    folds = dataset.folds(given.folder, given.users)
    some = [fold for fold, _ in zip(folds, range(given.folds), strict=False)]
    of = some[0].learn
    print(f"{given.dataset}: {of.soft.sum()} weights, {of.model.n_rows:,} groundings", flush=True)
    given.output.mkdir(parents=True, exist_ok=True)
    EXPERIMENTS[given.experiment](dataset, some, given)


def methods(dataset: Dataset, folds: list[Fold], given: Any) -> None:
    """Print a table of all learners by each metric."""
    likely = {name: [*_each(of, folds)] for name, of in LIKELIHOODS.items()}
    for metric in dataset.metrics:
        searches = {kind: {"kind": kind, "metric": metric} for kind in SEARCHES}
        found = likely | {name: [*_each(of, folds)] for name, of in searches.items()}
        found = {name: of for name, of in found.items() if of}
        table(metric, folds, found, timed=metric == dataset.metrics[0])


def seeds(dataset: Dataset, folds: list[Fold], given: Any) -> None:
    """Print mean and standard deviation over seeds."""
    for metric in dataset.metrics:
        for kind in SEARCHES:
            learner = {"kind": kind, "metric": metric}
            varied = [Fold(replace(folds[0].learn, seed=n), folds[0].test) for n in range(SEEDS)]
            both(f"{metric} | {kind}", metric, [*_each(learner, varied)], varied)


def dirichlet(dataset: Dataset, folds: list[Fold], given: Any) -> None:
    """Print what a search finds by the parameter of the distribution that it draws from."""
    metric = dataset.metrics[0]
    for kind in SEARCHES[1:]:
        for a in (10.0, 1.0, 0.1, 0.01):
            learner = {"kind": kind, "metric": metric, "a": a}
            both(f"{metric} | {kind} | {a:g}", metric, [*_each(learner, folds)], folds)


def thesis(dataset: Dataset, folds: list[Fold], given: Any) -> None:
    """Print what the searches find with the settings of the thesis (section 6.7), one by one."""
    drawn = {"a": 0.05, "floor": 0.0}
    settings = {
        "random": [{}, {"a": 0.05}, drawn],
        "hyperband": [{}, {"iterations": 1000}, drawn | {"iterations": 1000}],
        "bayesian": [{}, {"space": "ratios"}, {"rho": 1.0}, {"a": 0.05}],
    }
    settings["bayesian"].append(drawn | {"space": "ratios", "rho": 1.0})
    for metric in dataset.metrics:
        for kind, of in settings.items():
            for each in of:
                name = ", ".join(f"{key}: {value}" for key, value in each.items()) or "defaults"
                learnt = [*_each({"kind": kind, "metric": metric, **each}, folds)]
                spent = f" {fmean(s for _, s in learnt):.2f} s"
                both(f"{metric} | {kind} | {name} | {spent}", metric, learnt, folds)


def acquisition(dataset: Dataset, folds: list[Fold], given: Any) -> None:
    """Print what Bayesian optimisation finds by its acquisition function."""
    metric = dataset.metrics[-1]
    for name in ("ucb", "ts", "pi", "ei"):
        learner = {"kind": "bayesian", "metric": metric, "acquisition": name}
        both(f"{metric} | {name}", metric, [*_each(learner, folds)], folds)


def likelihood(dataset: Dataset, folds: list[Fold], given: Any) -> None:
    """Print rank correlations of metrics and likelihoods over random weights, on the first fold."""
    of, rng = folds[0].learn, np.random.default_rng(0)
    draws = [of.whole(w) for w in rng.dirichlet(np.ones(int(of.soft.sum())), DRAWS)]
    by = {"MAP likelihood": [of.solve(w).energy - float(w @ of.observed) for w in draws]}
    conditionals = conditionals_of(of.model, of.truth, len(of.start))
    if len(conditionals.width):
        by["pseudo-likelihood"] = [conditionals.value(w)[0] for w in draws]
    scores = {metric: [measure(of, w, metric) for w in draws] for metric in dataset.metrics}
    for metric, found in scores.items():
        better = np.array(found) * (1.0 if srl.METRICS[metric].greater else -1.0)
        for name, values in by.items():
            rank = spearmanr(values, better).statistic
            best = found[int(np.argmax(values))], found[int(np.argmax(better))]
            print(f"| {metric} | {name} | {rank:.2f} | {best[0]:.4f} | {best[1]:.4f} |", flush=True)
    figures.likelihoods(by, scores, given.output / f"{given.dataset}-likelihood.svg")


def seconds(dataset: Dataset, folds: list[Fold], given: Any) -> None:
    """Print and draw CPU seconds by the number of groundings (users, where there are), and of rules."""
    learners = {name: each for name, each in LIKELIHOODS.items() if each}
    learners |= {kind: {"kind": kind, "metric": dataset.metrics[0]} for kind in SEARCHES}
    parts = (next(dataset.folds(given.folder, users)).learn for users in USERS)
    largest = folds[0].learn
    some = (with_rules(largest, n) for n in range(3, int(largest.soft.sum()) + 1, 2))
    found: dict[str, Any] = {
        "groundings": {part.model.n_rows: part for part in parts},
        "rules": {int(part.soft.sum()): part for part in some},
    }
    for what, problems in found.items():
        found[what] = {name: {} for name in learners}
        for (size, of), (name, learner) in product(problems.items(), learners.items()):
            alone = replace(of)  # which remembers nothing
            for _, spent in _each(learner, [Fold(alone, alone)]):
                found[what][name][size] = spent
                print(f"| {what} | {size:,} | {name} | {spent:.2f} |", flush=True)
    figures.seconds(found, given.output / f"{given.dataset}-time.svg")


EXPERIMENTS: Mapping[str, Callable[[Dataset, list[Fold], Any], None]] = {
    "methods": methods,
    "seeds": seeds,
    "thesis": thesis,
    "a": dirichlet,
    "acquisition": acquisition,
    "likelihood": likelihood,
    "time": seconds,
}


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
        except srl.LearningError as error:
            print(f"{learner['kind']}: {error}", flush=True)
            return
        yield weights, time.process_time() - began


def measure(of: PslProblem, weights: Any, metric: str) -> float:
    """Return a metric of the values of least energy."""
    value = srl.METRICS[metric].measure(*_predicted(of, weights.tobytes()))
    assert value is not None
    return value


@cache
def _predicted(of: PslProblem, weights: bytes) -> Any:
    (scored,) = of.predicted(np.frombuffer(weights)).values()
    return scored


def table(metric: str, folds: list[Fold], found: Mapping[str, Learnt], timed: bool) -> None:
    """Print means, standard deviations, and p-values against the best on held-out data.

    Only the first of a dataset's tables is ``timed``: what was tried for it is remembered for the others.
    """
    train, test = (
        {
            name: [measure(fold[side], w, metric) for (w, _), fold in zip(of, folds, strict=True)]
            for name, of in found.items()
        }
        for side in (0, 1)
    )
    best = (max if srl.METRICS[metric].greater else min)(test, key=lambda name: fmean(test[name]))
    print(f"| {metric} | learned from | held out | p | CPU s |\n|---|---|---|---|---|")
    for name, of in found.items():
        same = test[name] == test[best] or len(folds) < 2
        p = "" if same else f"{ttest_rel(test[name], test[best]).pvalue:.3f}"
        spent = f"{fmean(s for _, s in of):.2f}" if timed else ""
        row = f"| `{name}` | {shown(train[name])} | {shown(test[name])} | {p} | {spent} |"
        print(row, flush=True)
    sign = 1.0 if srl.METRICS[metric].greater else -1.0
    ahead = max(sign * fmean(train[name]) for name in SEARCHES) - max(
        sign * fmean(train[name]) for name in RIVALS if name in train
    )
    print(f"\nlearned from, the best search is {ahead:+.4f} from the best of {', '.join(RIVALS)}\n")


def both(name: str, metric: str, learnt: Learnt, folds: list[Fold]) -> None:
    """Print a row: a metric of the data learned from, and of those held out."""
    sides = (
        [measure(fold[n], w, metric) for (w, _), fold in zip(learnt, folds, strict=True)]
        for n in (0, 1)
    )
    print("|", name, *(f"| {shown(of)}" for of in sides), "|", flush=True)


def shown(values: list[float]) -> str:
    """Return mean and standard deviation."""
    return f"{fmean(values):.4f} ({stdev(values) if len(values) > 1 else 0.0:.4f})"


if __name__ == "__main__":
    main()
