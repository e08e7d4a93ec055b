"""Leave one topic out on CiteSeer: F1 of every online learner, one pass, averaged weights.

usage: leave_one_topic_out.py CITESEER.jsonl

CITESEER.jsonl is the output of from_citeseer.py. For each topic held out, a learner's sigma is the one with
the best F1 on the last tenth of the training citations after a pass over the others. Then the learner
makes one pass over all training citations, in file order; F1 is over InField atoms of the held-out topic.
The rules are those of segmentation.mln. Prints a Markdown table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import onlinesrl as srl

MODEL = Path(__file__).with_name("segmentation.mln")


class Learner(NamedTuple):
    """An update, the sigmas to choose from, and its F1 in Huynh & Mooney (2010), table 1."""

    name: str
    update: str
    loss: str
    sigmas: tuple[float, ...]
    paper: float | None


NO_SIGMA = (1.0,)
CDA1_SIGMAS = (1.0, 3.0, 10.0, 30.0)
CDA2_SIGMAS = (0.001, 0.003, 0.01, 0.03, 0.1)
ADAGRAD_SIGMAS = (0.1, 0.3, 1.0, 3.0, 10.0)
LEARNERS = (
    Learner("1-best MIRA", "mira", "pl", NO_SIGMA, 93.056),
    Learner("Subgradient", "subgradient", "ml", (0.003, 0.01, 0.03, 0.1, 0.3), 91.910),
    Learner("CDA1-PL", "cda1", "pl", CDA1_SIGMAS, 92.945),
    Learner("CDA1-ML", "cda1", "ml", CDA1_SIGMAS, 94.131),
    Learner("CDA2-PL", "cda2", "pl", CDA2_SIGMAS, 92.836),
    Learner("CDA2-ML", "cda2", "ml", CDA2_SIGMAS, 94.375),
    Learner("AdaGrad-CDA-PL", "adagrad", "pl", ADAGRAD_SIGMAS, None),
    Learner("AdaGrad-CDA-ML", "adagrad", "ml", ADAGRAD_SIGMAS, None),
    Learner("PA-I", "pa1", "pl", CDA1_SIGMAS, None),
    Learner("Perceptron", "perceptron", "pl", NO_SIGMA, None),
    Learner("CD, 10 samples", "cd", "pl", NO_SIGMA, None),
)


class Row(NamedTuple):
    """A learner's F1 in per cent on each held-out topic, their mean, and the sigma of each split."""

    learner: Learner
    f1: dict[str, float]
    mean: float
    sigmas: list[float]


def trained(learner: Learner, sigma: float, examples: Sequence[srl.Example]) -> srl.OnlineLearner:
    """Return a learner after one pass over the examples."""
    online = srl.OnlineLearner(
        srl.Model.read(MODEL),
        query="InField",
        update=learner.update,
        loss=learner.loss,
        sigma=sigma,
    )
    online.learn_many(examples)
    return online


def f1(learner: srl.OnlineLearner, examples: Sequence[srl.Example]) -> float:
    """Return F1, in per cent, of the averaged weights on examples."""
    return 100.0 * float(learner.evaluate(examples)["f1"] or 0.0)


def tuned(learner: Learner, training: Sequence[srl.Example]) -> float:
    """Return the best sigma on the last tenth of the training citations."""
    if len(learner.sigmas) == 1:
        return learner.sigmas[0]
    cut = len(training) - len(training) // 10

    def held_out(sigma: float) -> float:
        return f1(trained(learner, sigma, training[:cut]), training[cut:])

    return max(learner.sigmas, key=held_out)


def rows(data: Path) -> Iterator[Row]:
    """Yield the row of every learner."""
    examples = [*srl.read(data)]
    topics = sorted({str(e.group) for e in examples})
    for learner in LEARNERS:
        scores, sigmas = {}, []
        for topic in topics:
            training = [e for e in examples if e.group != topic]
            test = [e for e in examples if e.group == topic]
            sigmas.append(tuned(learner, training))
            scores[topic] = f1(trained(learner, sigmas[-1], training), test)
        yield Row(learner, scores, sum(scores.values()) / len(scores), sigmas)


def main(data: Path) -> None:
    """Run all learners on all splits and print the table."""
    for number, (learner, scores, mean, sigmas) in enumerate(rows(data)):
        if number == 0:
            print(f"| learner | {' | '.join(scores)} | mean | sigma | Huynh & Mooney (2010) |")
            print("|---|" + "---|" * (len(scores) + 3))
        chosen = "-" if len(learner.sigmas) == 1 else ", ".join(f"{s:g}" for s in sigmas)
        paper = "-" if learner.paper is None else f"{learner.paper:.2f}"
        cells = [learner.name, *(f"{s:.2f}" for s in (*scores.values(), mean)), chosen, paper]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
