"""Simulate small citation graphs: what papers say, what they cite, and what they are about.

usage: python streams/collective/generate.py

Writes collective.jsonl in this folder, deterministically. README.md describes it.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

OUT = Path(__file__).with_name("collective.jsonl")
SEED = 1
GRAPHS = 300

TOPICS = {
    "learning": ("training", "weights", "margin", "features", "sample", "kernel"),
    "logic": ("proof", "clause", "theorem", "axiom", "rule", "model"),
    "planning": ("goal", "action", "plan", "state", "policy", "resource"),
    "search": ("heuristic", "tree", "bound", "node", "graph", "cost"),
    "speech": ("phoneme", "speaker", "acoustic", "signal", "noise", "word"),
    "vision": ("image", "edge", "camera", "texture", "object", "scene"),
}
COMMON = ("method", "result", "system", "problem", "approach", "data", "task", "paper")
BORROWS = {"learning": "search", "planning": "logic", "speech": "learning", "vision": "learning"}
"""Whose papers a topic's cite beside their own."""

PAPERS = 12, 24
WORDS = 4
OWN_WORD, COMMON_WORD = 0.35, 0.4
"""How often a word is of the paper's topic, and how often common; the others are of any topic."""
CITED = 3
SAME, BORROWED = 0.65, 0.2
"""How often a paper cites one of its topic, and of the topic that this borrows from; the others are any."""
OF_A_GRAPH = 4
"""How many topics a graph has."""

Item = TypeVar("Item")


def one_of(rng: Random, items: Sequence[Item]) -> Item:
    """Return one of them; uses only rng.random(), which is the same in all releases of Python."""
    return items[int(rng.random() * len(items))]


def word(rng: Random, topic: str) -> str:
    """Return a word of a paper."""
    kind = rng.random()
    if kind < OWN_WORD:
        return one_of(rng, TOPICS[topic])
    if kind < OWN_WORD + COMMON_WORD:
        return one_of(rng, COMMON)
    return one_of(rng, TOPICS[one_of(rng, list(TOPICS))])


def cited(rng: Random, topics: Sequence[str], paper: int) -> int:
    """Return one of the papers before a paper that it cites."""
    kind = rng.random()
    wanted = topics[paper] if kind < SAME else BORROWS.get(topics[paper])
    fitting = [other for other in range(paper) if topics[other] == wanted]
    return one_of(rng, fitting if fitting and kind < SAME + BORROWED else range(paper))


def example(rng: Random, graph: int) -> dict[str, Any]:
    """Return a citation graph."""
    n = PAPERS[0] + int(rng.random() * (PAPERS[1] - PAPERS[0] + 1))
    known: list[str] = []
    while len(known) < OF_A_GRAPH:
        topic = one_of(rng, list(TOPICS))
        known += [topic] if topic not in known else []
    topics = [one_of(rng, known) for _ in range(n)]
    says = [sorted({word(rng, topic) for _ in range(WORDS)}) for topic in topics]
    cites = [
        sorted({cited(rng, topics, paper) for _ in range(CITED)}) if paper else []
        for paper in range(n)
    ]
    return {
        "id": f"g{graph}",
        "evidence": {
            "Says": [[f"p{paper}", each] for paper, words in enumerate(says) for each in words],
            "Cites": [[f"p{paper}", f"p{q}"] for paper, others in enumerate(cites) for q in others],
        },
        "truth": {"Topic": [[f"p{paper}", topic] for paper, topic in enumerate(topics)]},
    }


def made() -> str:
    """Return the stream."""
    rng = Random(SEED)
    return "".join(f"{json.dumps(example(rng, graph))}\n" for graph in range(GRAPHS))


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    OUT.write_text(made(), encoding="utf-8")
