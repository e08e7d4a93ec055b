"""Learn CiteSeer in rounds of shards: F1 of each topic held out, beside a run without shards.

usage: shards.py CITESEER.jsonl MERGES.csv

CITESEER.jsonl is what streams/papers/convert.py writes. One pass over the other topics; averaged weights.
Prints a Markdown table, with the dual after the last merge as a part of that of the run without shards;
second-order has none.
MERGES.csv gets the dual and the bound on the regret after every merge.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import onlinesrl as srl

CONFIG = Path(__file__).parents[2] / "configs" / "citeseer.yaml"
LEARNERS = {
    "CDA1-PL": {"learner.update": "cda1", "learner.loss": "pl", "learner.sigma": 10.0},
    "CDA2-ML": {"learner.update": "cda2", "learner.loss": "ml", "learner.sigma": 0.003},
    "second-order": {"learner.update": "second-order"},
}
WAYS = [None, *((shards, size) for size in (1, 2) for shards in (1, 2, 4, 8))]
"""Without shards, and numbers of shards with so many citations of each between two merges."""
TOPICS = ("constraint", "face", "reinforcement")
KEPT = ("rounds", "examples", "share", "dual", "regret_bound")


class Found(NamedTuple):
    """F1 on a topic in per cent, the dual after the last merge or NaN, and the lines after every merge."""

    f1: float
    dual: float
    merges: list[dict[str, Any]]


def found(data: Path, topic: str, settings: dict[str, Any]) -> Found:
    """Learn the other topics in a pass, and test on a topic."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "run"
        source = {"source.path": data, "source.without": topic, "output": output}
        summary = srl.run(CONFIG, settings={**source, **settings})
        learner = srl.OnlineLearner.load(output)
        test = [example for example in srl.read(data) if example.group == topic]
        lines = (output / "metrics.jsonl").read_text().splitlines()
        f1 = 100.0 * float(learner.evaluate(test)["f1"] or 0.0)
        return Found(f1, float(summary["dual"] or "nan"), [json.loads(line) for line in lines])


def row(learner: str, way: tuple[int, int] | None, of: Sequence[Found], share: float) -> str:
    """Return a row of the table."""
    f1 = [each.f1 for each in of]
    cells = [learner, *map(str, way or ("-", "-"))]
    cells += [*(f"{x:.2f}" for x in f1), f"{sum(f1) / len(f1):.2f}", f"{100 * share:.0f} %"]
    return f"| {' | '.join(cells)} |"


def main(data: Path, merges: Path) -> None:
    """Print the table, and write what every merge did."""
    print(f"| learner | shards | round | {' | '.join(TOPICS)} | mean | dual, of that without |")
    print("|---|---|---|" + "---|" * (len(TOPICS) + 2))
    with merges.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["learner", "shards", "round", "topic", *KEPT])
        for name, settings in LEARNERS.items():
            whole: list[float] = []
            for way in WAYS:
                cut = way and {"distribute.shards": way[0], "distribute.round": way[1]}
                local = cut and {"distribute.workers": 1}
                of = [found(data, t, {**settings, **(cut or {}), **(local or {})}) for t in TOPICS]
                whole = whole or [each.dual for each in of]
                share = sum(e.dual / w for e, w in zip(of, whole, strict=True)) / len(TOPICS)
                print(row(name, way, of, share), flush=True)
                for topic, each in zip(TOPICS, of, strict=True):
                    key = [name, *(way or ("", "")), topic]
                    writer.writerows([*key, *map(line.get, KEPT)] for line in each.merges)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
