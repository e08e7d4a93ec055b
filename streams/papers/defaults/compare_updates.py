"""Compare updates, losses and sigmas on real data, for one default.

usage: python streams/papers/defaults/compare_updates.py DATA PACKAGES [--only TEXT] [--json FILE]

DATA is a folder of benchmarks, PACKAGES one in which packages with labelled data were unpacked (see
README.md); what is absent is left out. Each learner makes one pass in the order of the data, and its averaged
weights are tested on what was held out. Prints Markdown: a table for each sigma, with the mean rank of each
update and loss over the data sets.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from real_data import Fold, Task, tasks

import onlinesrl as srl

SIGMAS = (0.01, 0.1)
PAIRS = (
    *(("adagrad", "pl"), ("adagrad", "ml"), ("cda1", "pl"), ("cda1", "ml"), ("cda2", "pl")),
    *(("cda2", "ml"), ("pa1", "pl"), ("subgradient", "ml"), ("mira", "pl"), ("perceptron", "pl")),
)
NO_SIGMA = ("mira", "perceptron")


class Way(NamedTuple):
    """How is learned."""

    update: str
    loss: str
    sigma: float | None


WAYS = [
    Way(update, loss, sigma)
    for update, loss in PAIRS
    for sigma in ((None,) if update in NO_SIGMA else SIGMAS)
]


def score(task: Task, fold: Fold, way: Way) -> float:
    """Return the score on what is held out, after a pass over the rest."""
    if not task.query:
        tagger = srl.SequenceTagger(*way).fit(*zip(*fold.training, strict=True))
        return tagger.score(*zip(*fold.test, strict=True))
    update, loss, sigma = way
    learner = srl.OnlineLearner(task.model, task.query, update=update, loss=loss, sigma=sigma)
    learner.learn_many(fold.training)
    return float(learner.evaluate(fold.test)[task.score] or 0.0)


def table(found: dict[str, dict[Way, float]], sigma: float) -> str:
    """Return the scores in percent with one sigma, and mean ranks, as Markdown; equal scores share a rank."""
    ways = [Way(update, loss, None if update in NO_SIGMA else sigma) for update, loss in PAIRS]
    lines = [
        f"| sigma {sigma} | {' | '.join(found)} | mean rank |",
        f"|{'---|' * (len(found) + 2)}",
    ]
    for way in ways:
        ranks = [rank(of[way], [of[other] for other in ways]) for of in found.values()]
        cells = [f"{100 * of[way]:.2f}" for of in found.values()]
        lines.append(f"| {way.update}, {way.loss} | {' | '.join(cells)} | {fmean(ranks):.1f} |")
    return "\n".join(lines)


def rank(score: float, scores: Sequence[float]) -> float:
    """Return the rank of a score among all, the highest first."""
    equal = sum(other == score for other in scores)
    return sum(other > score for other in scores) + (equal + 1) / 2


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("packages", type=Path, metavar="PACKAGES")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="data sets with this in the name"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all scores")
    given = parser.parse_args()
    found: dict[str, dict[Way, float]] = {}
    for task in tasks(given.data, given.packages):
        if given.only not in task.name:
            continue
        started = time.process_time()
        found[task.name] = {way: fmean(score(task, f, way) for f in task.folds) for way in WAYS}
        print(f"{task.name}: {time.process_time() - started:.0f} s", file=sys.stderr, flush=True)
        if given.json is not None:
            rows = [[name, *way, x] for name, of in found.items() for way, x in of.items()]
            given.json.write_text(json.dumps(rows))
    if not found:
        sys.exit("no data set is here")
    print("\n\n".join(table(found, sigma) for sigma in SIGMAS))


if __name__ == "__main__":
    main()
