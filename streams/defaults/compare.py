"""Compare updates, losses and sigmas on real data, for one default.

usage: python streams/defaults/compare.py DATA PACKAGES [--only TEXT] [--json FILE]

DATA is a folder of benchmarks, PACKAGES one in which packages with labelled data were unpacked (see
README.md); what is absent is left out. Each learner makes one pass in the order of the data, and its averaged
weights are tested on what was held out. Prints Markdown: for each data set the best score over the
sigmas, and that of the sigma that is best over all data sets.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

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


def table(found: dict[str, dict[Way, float]]) -> str:
    """Return the scores in percent, as Markdown."""
    names = [*found]
    lines = [
        f"| update, loss | sigma | {' | '.join(names)} | mean |",
        f"|---|---|{'---|' * (len(names) + 1)}",
    ]
    for update, loss in PAIRS:
        ways = [way for way in WAYS if way[:2] == (update, loss)]
        means = {way: fmean(found[name][way] for name in names) for way in ways}
        best = max(ways, key=means.__getitem__)
        lines.append(row(f"{update}, {loss}", best.sigma, [found[name][best] for name in names]))
        if len(ways) > 1:
            lines.append(row("", "best for each", [max(found[n][w] for w in ways) for n in names]))
    return "\n".join(lines)


def row(name: str, sigma: Any, scores: Sequence[float]) -> str:
    """Return a line of the table."""
    cells = [f"{100 * x:.2f}" for x in [*scores, fmean(scores)]]
    return f"| {name} | {'-' if sigma is None else sigma} | {' | '.join(cells)} |"


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
    print(table(found))


if __name__ == "__main__":
    main()
