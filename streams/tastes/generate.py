"""Simulate which articles of a news page are read, while tastes change twice.

usage: python streams/tastes/generate.py

Writes tastes.jsonl in this folder, deterministically. README.md describes it.
"""

import json
import math
import sys
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

OUT = Path(__file__).with_name("tastes.jsonl")
SEED = 1
PAGES = 900
CHANGES = 300, 600
"""After so many pages the tastes change."""

TOPICS = 12
CHANGING = 8
"""So many topics that were liked are disliked after a change, and the other way round."""
LIKED = 1.5
ARTICLES = 4, 8
ABOUT = 1, 2
FOLLOWS = 0.3
ALIKE = 0.7


def between(rng: Random, least: int, most: int) -> int:
    """Return a whole number; uses only rng.random(), which is the same in all releases of Python."""
    return least + int(rng.random() * (most - least + 1))


def drawn(rng: Random, count: int) -> list[int]:
    """Return so many different topics, in order."""
    return sorted(sorted(range(TOPICS), key=lambda _: rng.random())[:count])


def page(rng: Random, number: int, tastes: list[float]) -> dict[str, Any]:
    """Return a page as an example."""
    names = [f"a{n}" for n in range(between(rng, *ARTICLES))]
    about = {name: drawn(rng, between(rng, *ABOUT)) for name in names}
    follows = [pair for pair in pairwise(names) if rng.random() < FOLLOWS]
    earlier = {second: first for first, second in follows}
    read: dict[str, bool] = {}
    for name, topics in about.items():
        odds = math.exp(sum(tastes[topic] for topic in topics))
        likes = rng.random() < odds / (1.0 + odds)
        alike = name in earlier and rng.random() < ALIKE
        read[name] = read[earlier[name]] if alike else likes
    return {
        "id": number,
        "evidence": {
            "About": [[name, f"t{topic}"] for name, topics in about.items() for topic in topics],
            "Follows": [[*pair] for pair in follows],
        },
        "truth": {"Read": [[name] for name in names if read[name]]},
    }


def made(seed: int = SEED) -> str:
    """Return the stream."""
    rng = Random(seed)
    tastes = [LIKED if topic % 2 else -LIKED for topic in range(TOPICS)]
    lines = []
    for number in range(1, PAGES + 1):
        lines.append(json.dumps(page(rng, number, tastes)))
        if number in CHANGES:
            for topic in drawn(rng, CHANGING):
                tastes[topic] *= -1
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    OUT.write_text(made(), encoding="utf-8")
