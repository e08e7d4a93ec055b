"""Learn from the stream by the classifier's rule alone, by the other rules alone, and by both.

usage: python streams/scores/compare.py

Prints the scores of one pass each, in which every shop is predicted before it is learned from.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onlinesrl as srl

FOLDER = Path(__file__).parent
MODEL = (FOLDER / "scores.mln").read_text(encoding="utf-8")
CLASSIFIER = "Score(r) ^ Fake(r)"
RULES = ("By(r, a)", "Soon(r, s)")


def without(*rules: str) -> str:
    """Return the model without the rules that begin so."""
    return "\n".join(line for line in MODEL.splitlines() if not line.startswith(rules))


MODELS = {
    "the classifier alone": without(*RULES),
    "the rules alone": without(CLASSIFIER),
    "both": MODEL,
}


def compared() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each model's name and the metrics of its pass, with the configuration's update."""
    for name, model in MODELS.items():
        learner = srl.OnlineLearner(model, query="Fake", update="cda2", loss="ml", sigma=0.01)
        learner.learn_many(srl.read(FOLDER / "scores.jsonl"))
        yield name, learner.metrics


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    for name, found in compared():
        print(f"{name:22} F1 {found['f1']:.1%}, accuracy {found['accuracy']:.1%}")
