"""Leave one topic out on CiteSeer: F1 of every online learner, one pass, averaged weights.

usage: leave_one_topic_out.py CITESEER.jsonl

CITESEER.jsonl is what from_citeseer.py writes. For each topic held out, each learner's sigma is the one
with the best F1 on the last tenth of the training citations after a pass over the others; then one pass
over all training citations, in file order, and F1 over InField atoms on the held-out topic. The rules are
those of segmentation.mln. Prints a Markdown table.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from onlinesrl.config import load
from onlinesrl.lang.example import Example, decode
from onlinesrl.learn.online import OnlineLearner
from onlinesrl.metrics import Metrics
from onlinesrl.session import make_learner

CONFIG = Path(__file__).parents[2] / "configs" / "citeseer.yaml"
NO_SIGMA = (1.0,)
BATCH = 64

# update, loss, sigmas to choose from, F1 in Huynh & Mooney (2010), table 1
LEARNERS = {
    "1-best MIRA": ("mira", "pl", NO_SIGMA, 93.056),
    "Subgradient": ("subgradient", "ml", (0.003, 0.01, 0.03, 0.1, 0.3), 91.910),
    "CDA1-PL": ("cda1", "pl", (1.0, 3.0, 10.0, 30.0), 92.945),
    "CDA1-ML": ("cda1", "ml", (1.0, 3.0, 10.0, 30.0), 94.131),
    "CDA2-PL": ("cda2", "pl", (0.001, 0.003, 0.01, 0.03, 0.1), 92.836),
    "CDA2-ML": ("cda2", "ml", (0.001, 0.003, 0.01, 0.03, 0.1), 94.375),
    "Perceptron": ("perceptron", "pl", NO_SIGMA, None),
}


def trained(
    data: Path, update: str, loss: str, sigma: float, examples: Sequence[Example]
) -> OnlineLearner:
    """Return a learner after one pass over the examples."""
    keys = [f"source.path={data}", f"learner.update={update}", f"learner.loss={loss}"]
    learner = make_learner(load(CONFIG, [*keys, f"learner.sigma={sigma}"]))
    for at in range(0, len(examples), BATCH):
        learner.step(examples[at : at + BATCH])
    return learner


def f1(learner: OnlineLearner, examples: Sequence[Example]) -> float:
    """Return F1, in per cent, of the averaged weights on examples, without learning."""
    metrics = Metrics()
    for at in range(0, len(examples), BATCH):
        batch = examples[at : at + BATCH]
        metrics.add(learner.step(batch, learning=False)[1], len(batch))
    return 100.0 * float(metrics.snapshot()["f1"] or 0.0)


def main(data: Path) -> None:
    """Run all learners on all splits and print the table."""
    examples = [decode(line) for line in data.read_bytes().splitlines()]
    topics = sorted({str(e.group) for e in examples})
    print("| learner | " + " | ".join(topics) + " | mean | sigma | Huynh & Mooney (2010) |")
    print("|---|" + "---|" * (len(topics) + 3))
    for name, (update, loss, sigmas, paper) in LEARNERS.items():
        scores, chosen = [], []
        for topic in topics:
            training = [e for e in examples if e.group != topic]
            test = [e for e in examples if e.group == topic]
            cut = len(training) - len(training) // 10
            sigma = sigmas[0]
            if len(sigmas) > 1:
                sigma = max(
                    sigmas,
                    key=lambda s: f1(
                        trained(data, update, loss, s, training[:cut]), training[cut:]
                    ),
                )
            chosen.append(f"{sigma:g}" if len(sigmas) > 1 else "-")
            scores.append(f1(trained(data, update, loss, sigma, training), test))
        row = [name, *(f"{s:.2f}" for s in scores), f"{sum(scores) / len(scores):.2f}"]
        row += [", ".join(chosen), "-" if paper is None else f"{paper:.2f}"]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
