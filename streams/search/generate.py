"""Simulate searches in a shop, and write each query with its ten products as an example.

usage: python streams/search/generate.py

Makes search.jsonl beside this file, the same every time. README.md says what is in it.
"""

import json
import math
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
    """Return a number whose distribution is close to the standard normal one.

    Made of rng.random(), whose numbers no release of Python may change.
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
    """What the shop knows of a product for a query, and whether it is of another type than asked."""

    mismatch: bool
    score: float
    title: Vector


def product(rng: Random, kind: int, centre: Vector, known: bool) -> Product:
    """Put a product of a type on the market; type 0 is the one that was asked for.

    A classifier sees a signal, clear where customers know the product and dim elsewhere, and knows
    how clear it is: its score is the probability of a mismatch.
    """
    clarity = KNOWN if known else UNKNOWN
    signal = normal(rng) + (clarity if kind else -clarity)
    log_odds = math.log(MISMATCHES / (1 - MISMATCHES)) + 2 * clarity * signal
    score = round(1 / (1 + math.exp(-log_odds)), 2)
    return Product(kind > 0, score, vector(rng, SPREAD, centre))


def search(rng: Random) -> list[Product]:
    """Ask for a type: get products of it, and some of others that go with it (a case for a phone).

    Some queries are so rare that customers know none of the products.
    """
    centres = [vector(rng, 1.0) for _ in range(TYPES)]
    kinds = [
        1 + int(rng.random() * (TYPES - 1)) if rng.random() < MISMATCHES else 0
        for _ in range(PRODUCTS)
    ]
    share = 0.0 if rng.random() < UNSEEN else rng.random()
    return [product(rng, kind, centres[kind], rng.random() < share) for kind in kinds]


def valued(args: Sequence[str], value: float) -> dict[str, Any]:
    """Write an atom with its value."""
    return {"args": list(args), "value": value}


def example(number: int, found: list[Product]) -> dict[str, Any]:
    """Write a query. A query that has both strong scores and others gets the Strong predicates."""
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
    """Yield so many queries."""
    rng = Random(seed)
    for number in range(queries):
        yield example(number, search(rng))


def made() -> str:
    """Return the text of search.jsonl."""
    return "".join(json.dumps(e, separators=(",", ":")) + "\n" for e in examples())


if __name__ == "__main__":
    OUT.write_text(made(), encoding="utf-8")
