"""MAP of online learners on simulated search sessions, in the shape of table 2 of Huynh & Mooney (2010).

usage: table_2.py [--seeds N] [--noise P ...] [--workers N]

For each noise and seed, sessions.py simulates sessions. A learner makes one pass over the training sessions
with each sigma (CD: step size); that with the best MAP on the validation sessions is tested. Results are
ranked by their probabilities under the averaged weights, exact where elimination computes them, which is so
for all sessions here (eight results). Prints, for each noise, Markdown: mean MAP over the seeds of learners
and models; then the mean differences of the losses (ML less PL), with p-values of a paired t-test over the
seeds. The same seeds give the same figures for every number of workers.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_rel
from sessions import examples

import onlinesrl as srl

Floats: TypeAlias = NDArray[np.float64]

HERE = Path(__file__).parent
MODELS = ("mln1", "mln2", "mln3")
SIGMAS = [{"sigma": sigma} for sigma in (0.001, 0.01, 0.1, 1.0, 10.0)]
RATES = [{"eta": eta} for eta in (0.001, 0.01, 0.1, 1.0)]
LEARNERS: dict[str, tuple[dict[str, Any], Sequence[dict[str, float]]]] = {
    "CD": ({"update": "cd"}, RATES),
    "1-best-MIRA": ({"update": "mira"}, [{}]),
    "Subgradient": ({"update": "subgradient"}, SIGMAS),
    "CDA1-PL": ({"update": "cda1", "loss": "pl"}, SIGMAS),
    "CDA1-ML": ({"update": "cda1", "loss": "ml"}, SIGMAS),
    "CDA2-PL": ({"update": "cda2", "loss": "pl"}, SIGMAS),
    "CDA2-ML": ({"update": "cda2", "loss": "ml"}, SIGMAS),
}
"""The keys of each learner, and what to choose from (sigma means nothing to 1-best-MIRA)."""
ROWS = (*LEARNERS,)


class Simulation(NamedTuple):
    """What the sessions are drawn with."""

    noise: float
    seed: int


class Sessions(NamedTuple):
    """Sessions in the order of time: what is seen, and the clicks."""

    seen: list[dict[str, Any]]
    clicks: list[dict[str, Any]]


def sessions(of: Simulation) -> dict[str, Sessions]:
    """Return the sessions by group."""
    found: dict[str, Sessions] = {}
    for each in examples(of.seed, of.noise):
        part = found.setdefault(each["group"], Sessions([], []))
        part.seen.append(each["evidence"])
        part.clicks.append(each["truth"])
    return found


def mean_average_precision(learner: srl.OnlineLearner, part: Sessions) -> float:
    """Return MAP over sessions of results ranked by their probabilities."""
    clicked = [{name for (name,) in each["Clicked"]} for each in part.clicks]
    rows = [
        (name in clicked[n], value, n)
        for n, found in enumerate(learner.predict_many(part.seen, marginals=True))
        for (name,), value in (found.values or {})["Clicked"].items()
    ]
    truth, values, groups = np.array(rows, dtype=np.float64).T
    found = srl.METRICS["map"].measure(truth, values, groups.astype(np.int64))
    return float("nan") if found is None else found


def measured(rows: Sequence[str], of: Simulation) -> Floats:
    """Return the MAP of the learners with every model, float64[rows, models]."""
    parts = sessions(of)

    def tested(row: str, model: str) -> float:
        update, choices = LEARNERS[row]
        program = srl.Model.read(HERE / f"{model}.mln")
        learners = [srl.OnlineLearner(program, "Clicked", update=update | each) for each in choices]
        for each in learners:
            each.learn_many(*parts["train"])
        chosen = max(learners, key=lambda each: mean_average_precision(each, parts["validation"]))
        return mean_average_precision(chosen, parts["test"])

    return np.array([[tested(row, model) for model in MODELS] for row in rows])


def all_measured(noises: Sequence[float], seeds: int, workers: int) -> dict[float, Floats]:
    """Return the MAP by noise, float64[seeds, rows, models]."""
    parts = [Simulation(*of) for of in product(noises, range(seeds))]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        found = [*pool.map(partial(measured, ROWS), parts)]
    return {p: np.array(found[n * seeds : (n + 1) * seeds]) for n, p in enumerate(noises)}


def table(scores: Floats) -> Iterator[str]:
    """Yield the table of the mean MAP, with the standard deviation over the seeds."""
    yield f"| | {' | '.join(map(str.upper, MODELS))} |"
    yield "|---|" + "---|" * len(MODELS)
    for n, name in enumerate(ROWS):
        of = scores[:, n]
        sd = of.std(axis=0, ddof=1) if len(of) > 1 else 0 * of[0]
        cells = [f"{mean:.3f} ± {each:.3f}" for mean, each in zip(of.mean(axis=0), sd, strict=True)]
        yield f"| {name} | {' | '.join(cells)} |"


def losses(scores: Floats) -> Iterator[str]:
    """Yield the table of ML less PL."""
    yield f"| ML less PL | {' | '.join(map(str.upper, MODELS))} |"
    yield "|---|" + "---|" * len(MODELS)
    for update in ("CDA1", "CDA2"):
        ml, pl = (scores[:, ROWS.index(f"{update}-{loss}")] for loss in ("ML", "PL"))
        cells = []
        for m in range(len(MODELS)):
            p = ttest_rel(ml[:, m], pl[:, m]).pvalue
            cells.append(f"{np.mean(ml[:, m] - pl[:, m]):+.4f} (p {p:.2g})")
        yield f"| {update} | {' | '.join(cells)} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.25, 0.5])
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()
    for noise, scores in all_measured(given.noise, given.seeds, given.workers).items():
        print(f"\nExploratory sessions: {100 * noise:g} %; {given.seeds} seeds\n")
        for line in table(scores):
            print(line)
        print()
        for line in losses(scores):
            print(line)


if __name__ == "__main__":
    main()
