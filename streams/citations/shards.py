"""Learn CiteSeer in rounds of shards: F1 of each topic held out, beside a run without shards.

usage: shards.py CITESEER.jsonl

CITESEER.jsonl is the output of from_citeseer.py. One pass over the other topics, cut into shards in file
order; averaged weights. Prints a Markdown table, with the dual after the last merge as a part of that of
the run without shards.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import onlinesrl as srl

CONFIG = Path(__file__).parents[2] / "configs" / "citeseer.yaml"
LEARNERS = {
    "CDA1-PL": {"learner.update": "cda1", "learner.loss": "pl", "learner.sigma": 10.0},
    "CDA2-ML": {"learner.update": "cda2", "learner.loss": "ml", "learner.sigma": 0.003},
}
ROUND = 2
SHARDS = (1, 2, 4, 8)
TOPICS = ("constraint", "face", "reinforcement")


def found(data: Path, topic: str, settings: dict[str, Any]) -> tuple[float, float]:
    """Return the F1 on a topic in per cent after a pass over the others, and the dual."""
    with tempfile.TemporaryDirectory() as folder:
        source = {"source.path": data, "source.without": topic, "output": Path(folder) / "run"}
        summary = srl.run(CONFIG, settings={**source, **settings})
        learner = srl.OnlineLearner.load(Path(folder) / "run")
        test = [example for example in srl.read(data) if example.group == topic]
        return 100.0 * float(learner.evaluate(test)["f1"] or 0.0), float(summary["dual"])


def main(data: Path) -> None:
    """Print the table."""
    print(f"| learner | shards | {' | '.join(TOPICS)} | mean | dual, of that without |")
    print("|---|---|" + "---|" * (len(TOPICS) + 2))
    for name, settings in LEARNERS.items():
        whole: list[float] = []
        for shards in (None, *SHARDS):
            cut = {} if shards is None else {"distribute.shards": shards, "distribute.round": ROUND}
            local = {} if shards is None else {"distribute.workers": 1}
            f1, dual = zip(
                *(found(data, t, {**settings, **cut, **local}) for t in TOPICS), strict=True
            )
            whole = whole or [*dual]
            share = sum(d / w for d, w in zip(dual, whole, strict=True)) / len(TOPICS)
            cells = [name, "-" if shards is None else str(shards), *(f"{x:.2f}" for x in f1)]
            print(
                f"| {' | '.join(cells)} | {sum(f1) / len(f1):.2f} | {100 * share:.0f} % |",
                flush=True,
            )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
