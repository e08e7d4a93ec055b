"""Simulate searches in a shop, and write each query with its ten products as an example.

usage: python streams/search/generate.py

Writes search.jsonl in this folder, deterministically. README.md describes it.
"""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

OUT = Path(__file__).with_name("search.jsonl")
SEED = 7
QUERIES = 300
PRODUCTS = 10

TYPES = 4
MISMATCHES = 0.35
DIMENSIONS = 12
SPREAD = 0.6
UNSEEN = 0.35
KNOWN, UNKNOWN = 2.2, 0.3
STRONG_MATCH, STRONG_MISMATCH = 0.1, 0.9

Vector = list[float]


def normal(rng: Random) -> float:
    """Return a number from an approximately standard normal distribution.

    Uses only rng.random(), which is the same in all releases of Python.
    """
    return sum(rng.random() for _ in range(12)) - 6.0


def vector(rng: Random, scale: float, around: Sequence[float] = (0.0,) * DIMENSIONS) -> Vector:
    """Return a point near another one."""
    return [centre + scale * normal(rng) for centre in around]


def cosine(v: Vector, w: Vector) -> float:
    """Return the cosine of the angle between two vectors."""
    return sum(a * b for a, b in zip(v, w, strict=True)) / (math.hypot(*v) * math.hypot(*w))


@dataclass(frozen=True)
class Product:
    """The observations of a product for a query, and whether it is a mismatch."""

    mismatch: bool
    score: float
    title: Vector


def product(rng: Random, kind: int, centre: Vector, known: bool) -> Product:
    """Simulate a product of a type; type 0 is that of the query.

    The classifier sees a signal, clear for known products and noisy for others, and knows which; its
    score is the probability of a mismatch.
    """
    clarity = KNOWN if known else UNKNOWN
    signal = normal(rng) + (clarity if kind else -clarity)
    log_odds = math.log(MISMATCHES / (1 - MISMATCHES)) + 2 * clarity * signal
    score = round(1 / (1 + math.exp(-log_odds)), 2)
    return Product(kind > 0, score, vector(rng, SPREAD, centre))


def search(rng: Random) -> list[Product]:
    """Simulate a query: products of its type and of related ones (a case for a phone).

    In rare queries customers know none of the products.
    """
    centres = [vector(rng, 1.0) for _ in range(TYPES)]
    kinds = [
        1 + int(rng.random() * (TYPES - 1)) if rng.random() < MISMATCHES else 0
        for _ in range(PRODUCTS)
    ]
    share = 0.0 if rng.random() < UNSEEN else rng.random()
    return [product(rng, kind, centres[kind], rng.random() < share) for kind in kinds]


def valued(args: Sequence[str], value: float) -> dict[str, Any]:
    """Return an atom with its value."""
    return {"args": list(args), "value": value}


def example(number: int, found: list[Product]) -> dict[str, Any]:
    """Return a query as an example, with the Strong predicates if only some scores are sure."""
    query, names = f"q{number}", [f"p{n}" for n in range(len(found))]
    pairs = [[query, name] for name in names]
    scores = [valued(p, each.score) for p, each in zip(pairs, found, strict=True)]
    strong = [x for x in scores if not STRONG_MATCH <= x["value"] <= STRONG_MISMATCH]
    similar = {
        (a, b): round(cosine(found[a].title, found[b].title), 2)
        for a, b in permutations(range(len(found)), 2)
    }
    evidence = {
        "TMC": scores,
        "Similar": [valued((names[a], names[b]), s) for (a, b), s in similar.items() if s > 0],
    }
    mismatches = [pair for pair, each in zip(pairs, found, strict=True) if each.mismatch]
    open_predicates = ["Mismatch"]
    if 0 < len(strong) < len(found):
        evidence["StrongTMC"] = strong
        open_predicates.append("StrongMismatch")
    return {
        "id": query,
        "evidence": evidence,
        "query": dict.fromkeys(open_predicates, pairs),
        "truth": dict.fromkeys(open_predicates, mismatches),
    }


def examples(queries: int = QUERIES, seed: int = SEED) -> Iterator[dict[str, Any]]:
    """Yield simulated queries."""
    rng = Random(seed)
    for number in range(queries):
        yield example(number, search(rng))


def made() -> str:
    """Return the text of search.jsonl."""
    return "".join(json.dumps(e, separators=(",", ":")) + "\n" for e in examples())


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    OUT.write_text(made(), encoding="utf-8")
