"""Learn from the stream with every update, and by the words alone.

usage: python streams/collective/compare.py

Prints the scores of one pass each, in which every graph is predicted before it is learned from.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onlinesrl as srl

FOLDER = Path(__file__).parent
MODEL = (FOLDER / "collective.mln").read_text(encoding="utf-8")
WORDS_ALONE = "\n".join(line for line in MODEL.splitlines() if not line.startswith("Cites(p, q)"))

LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "CDA1, PL": (MODEL, {"update": "cda1", "loss": "pl", "sigma": 0.1}),
    "CDA1, ML": (MODEL, {"update": "cda1", "loss": "ml", "sigma": 0.1}),
    "CDA2, PL": (MODEL, {"update": "cda2", "loss": "pl", "sigma": 0.1}),
    "CDA2, ML": (MODEL, {"update": "cda2", "loss": "ml", "sigma": 0.1}),
    "simple": (MODEL, {"update": "simple", "loss": "ml", "sigma": 1.0}),
    "AdaGrad": (MODEL, {"update": "adagrad", "loss": "ml", "sigma": 0.1}),
    "1-best MIRA": (MODEL, {"update": "mira"}),
    "subgradient": (MODEL, {"update": "subgradient", "sigma": 10.0}),
    "perceptron": (MODEL, {"update": "perceptron"}),
    "CDA1, ML, words alone": (WORDS_ALONE, {"update": "cda1", "loss": "ml", "sigma": 0.1}),
    "AdaGrad, words alone": (WORDS_ALONE, {"update": "adagrad", "loss": "ml", "sigma": 0.1}),
}
"""By name the model and the learner's keys."""


def compared() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each learner's name and the metrics of its pass, with its CPU seconds."""
    examples = list(srl.read(FOLDER / "collective.jsonl"))
    for name, (model, keys) in LEARNERS.items():
        learner = srl.OnlineLearner(model, query="Topic", **keys)
        started = time.process_time()
        learner.learn_many(examples)
        yield name, {**learner.metrics, "cpu": time.process_time() - started}


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    for name, found in compared():
        print(f"| {name} | {found['accuracy'] * 100:.1f} % | {found['cpu']:.1f} |")
