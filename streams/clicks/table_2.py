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
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sessions import examples

from onlinesrl.core.arrays import Floats
from onlinesrl.core.example import Example, decode
from onlinesrl.core.pool import Forks, cores
from onlinesrl.runs.comparison.figures import paired_t
from onlinesrl.runs.comparison.folds import Fold
from onlinesrl.runs.comparison.scoring import score
from onlinesrl.runs.config import load
from onlinesrl.runs.session import make_learner

HERE = Path(__file__).parent
CONFIG = HERE.parents[1] / "configs" / "clicks.yaml"
MODELS = ("mln1", "mln2", "mln3")
SIGMAS = tuple(f"learner.sigma={sigma}" for sigma in (0.001, 0.01, 0.1, 1.0, 10.0))
RATES = tuple(f"learner.eta={eta}" for eta in (0.001, 0.01, 0.1, 1.0))
LEARNERS = {
    "CD": ("{update: cd}", RATES),
    "1-best-MIRA": ("{update: mira}", SIGMAS[:1]),
    "Subgradient": ("{update: subgradient}", SIGMAS),
    "CDA1-PL": ("{update: cda1, loss: pl}", SIGMAS),
    "CDA1-ML": ("{update: cda1, loss: ml}", SIGMAS),
    "CDA2-PL": ("{update: cda2, loss: pl}", SIGMAS),
    "CDA2-ML": ("{update: cda2, loss: ml}", SIGMAS),
}
"""The keys of each learner, and what to choose from (sigma means nothing to 1-best-MIRA)."""
ROWS = (*LEARNERS,)


class Simulation(NamedTuple):
    """What the sessions are drawn with."""

    noise: float
    seed: int


def sessions(of: Simulation) -> dict[str, list[Example]]:
    """Return the sessions by group."""
    found: dict[str, list[Example]] = {}
    for each in examples(of.seed, of.noise):
        found.setdefault(each["group"], []).append(decode(json.dumps(each).encode()))
    return found


def measured(rows: Sequence[str], of: Simulation) -> Floats:
    """Return the MAP of the learners with every model, float64[rows, models]."""
    parts = sessions(of)
    validation = Fold("validation", parts["train"], parts["validation"])
    test = Fold("test", parts["train"], parts["test"])

    def tested(row: str, model: str) -> float:
        learner, choices = LEARNERS[row]
        keys = [f"model={HERE / model}.mln", "source.path=-", f"learner={learner}"]
        configs = [load(CONFIG, [*keys, choice]) for choice in choices]
        chosen = max(configs, key=lambda config: score(config, validation, "map").value)
        return score(chosen, test, "map").value

    return np.array([[tested(row, model) for model in MODELS] for row in rows])


def all_measured(noises: Sequence[float], seeds: int, workers: int) -> dict[float, Floats]:
    """Return the MAP by noise, float64[seeds, rows, models]."""
    for model in MODELS:
        make_learner(load(CONFIG, [f"model={HERE / model}.mln", "source.path=-"])).compile()
    parts = [Simulation(noise, seed) for noise in noises for seed in range(seeds)]
    found = [*Forks(workers).map(measured, ROWS, parts)]
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
            p = paired_t(ml[:, m], pl[:, m])
            said = "-" if p is None else f"{p:.2g}"
            cells.append(f"{np.mean(ml[:, m] - pl[:, m]):+.4f} (p {said})")
        yield f"| {update} | {' | '.join(cells)} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(usage=str(__doc__).partition("usage: ")[2].partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.25, 0.5])
    parser.add_argument("--workers", type=int, default=cores())
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
