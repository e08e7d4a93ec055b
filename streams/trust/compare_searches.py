"""Learners of PSL's weights by what they predict: trust in a sample of Epinions, on eight folds.

usage: python streams/trust/compare_searches.py TRUSTS [--folds N]

TRUSTS is tab-separated: who, whom, and whether the opinion is trust. For AUROC and for F1 prints mean and
standard deviation over the folds, on the data learned from and on held-out data, the p-value of a paired
t-test against the best learner on held-out data, and seconds of learning. See README.md.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import epinions
from scipy.stats import ttest_rel

import onlinesrl as srl
from onlinesrl.core.scores import METRICS, Scored

LIKELIHOODS: dict[str, dict[str, Any]] = {
    "equal weights": {},
    "mle": {"kind": "mle", "log": 0.1, "entropy": 0.0},
    "mple": {"kind": "mple"},
    "lme": {"kind": "lme", "c": 10.0},
}
SEARCHES = ("random-grid", "random", "hyperband", "bayesian")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("trusts", type=Path)
    parser.add_argument("--folds", type=int, default=8)
    given = parser.parse_args()
    opinions = epinions.read(given.trusts)
    pairs = sorted(opinions)
    random.Random(0).shuffle(pairs)
    parts = [pairs[n::8] for n in range(8)]
    for metric in ("auroc", "f1"):
        learners = LIKELIHOODS | {kind: {"kind": kind, "metric": metric} for kind in SEARCHES}
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in learners}
        for fold in range(given.folds):
            test, learn = parts[fold], parts[(fold + 1) % 8]
            rest = [pair for n, part in enumerate(parts) if n != fold for pair in part]
            seen = [pair for pair in rest if pair not in {*learn}]
            for name, learner in learners.items():
                began = time.perf_counter()
                model = learned(opinions, seen, learn, learner)
                seconds = time.perf_counter() - began
                scores = (
                    score(model, opinions, *of, metric) for of in ((seen, learn), (rest, test))
                )
                found[name].append((*scores, seconds))
        table(metric, found)


def learned(
    opinions: epinions.Opinions, seen: Any, asked: Any, learner: dict[str, Any]
) -> srl.Model:
    """Return the model with learned weights."""
    if not learner:
        return srl.Model(epinions.FLAT, "psl")
    return epinions.learned(epinions.FLAT, opinions, seen, asked, learner, False).model


def score(
    model: srl.Model, opinions: epinions.Opinions, seen: Any, asked: Any, metric: str
) -> float:
    """Return a metric of the opinions asked for."""
    known, targets = epinions.world(opinions, seen, asked, False)
    values = srl.infer(model, known, targets)["Trusts"]
    numbers = [[opinions[pair] for pair in asked], [values[pair] for pair in asked]]
    value = METRICS[metric].measure(*scored(*numbers))
    assert value is not None
    return value


def scored(truth: list[float], values: list[float]) -> Scored:
    """Return atoms of one group."""
    import numpy as np

    return Scored(np.array(truth), np.array(values), np.zeros(len(truth), np.int64))


def table(metric: str, found: dict[str, list[tuple[float, float, float]]]) -> None:
    """Print means, standard deviations, and p-values against the best."""
    best = max(found, key=lambda name: fmean(test for _, test, _ in found[name]))
    of_best = [test for _, test, _ in found[best]]
    print(f"{metric:16}{'learned from':>18}{'held out':>18}{'p':>8}{'seconds':>9}")
    for name, folds in found.items():
        train, test, seconds = (list(each) for each in zip(*folds, strict=True))
        p = "" if name == best or len(folds) < 2 else f"{ttest_rel(test, of_best).pvalue:.3f}"
        shown = (f"{fmean(each):.4f} ({epinions.spread(each):.4f})" for each in (train, test))
        print(f"{name:16}{next(shown):>18}{next(shown):>18}{p:>8}{fmean(seconds):9.2f}", flush=True)


if __name__ == "__main__":
    main()
