"""Simulate reviews of shops, some of them fake, and what a classifier of their texts says of each.

usage: python streams/scores/generate.py

Writes scores.jsonl in this folder, deterministically. README.md describes it.
"""

import json
import math
import sys
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

OUT = Path(__file__).with_name("scores.jsonl")
SEED = 2
SHOPS = 300

DAYS = 30.0
HONEST = 4, 9
CAMPAIGN = 0.6
FAKE = 3, 6
CAMPAIGN_DAYS = 0.3
STRAY = 0.3
SOON_DAYS = 2.0
NEW_IF_FAKE, NEW_IF_HONEST = 0.7, 0.25
SHARED_IF_FAKE, SHARED_IF_HONEST = 0.4, 0.1
APART = 1.5
SHARE = 0.29


@dataclass
class Review:
    """A review: when it was written, in days, and by whom."""

    at: float
    account: str
    fake: bool


def between(rng: Random, least: int, most: int) -> int:
    """Return a whole number; uses only rng.random(), which is the same in all releases of Python."""
    return least + int(rng.random() * (most - least + 1))


def normal(rng: Random) -> float:
    """Return a normal number, by Box and Muller's method."""
    return math.sqrt(-2 * math.log(1 - rng.random())) * math.cos(2 * math.pi * rng.random())


def score(rng: Random, fake: bool) -> float:
    """Return the classifier's log odds that a review is fake, calibrated: what a normal feature tells.

    The feature is 0 on average, in fake reviews APART, with variance 1; SHARE of the reviews are fake.
    """
    feature = normal(rng) + APART * fake
    return APART * (feature - APART / 2) + math.log(SHARE / (1 - SHARE))


def written(rng: Random, shop: int) -> list[Review]:
    """Return a shop's reviews in order of time: honest ones and, of most shops, a campaign."""
    times = [(rng.random() * DAYS, False) for _ in range(between(rng, *HONEST))]
    if rng.random() < CAMPAIGN:
        start = rng.random() * DAYS
        for _ in range(between(rng, *FAKE)):
            stray = rng.random() < STRAY
            at = rng.random() * DAYS if stray else start + rng.random() * CAMPAIGN_DAYS
            times.append((at, True))
    reviews: list[Review] = []
    for at, fake in sorted(times):
        known = [each.account for each in reviews if each.fake == fake]
        shared = known and rng.random() < (SHARED_IF_FAKE if fake else SHARED_IF_HONEST)
        account = known[int(rng.random() * len(known))] if shared else f"a{shop}_{len(reviews)}"
        reviews.append(Review(at, account, fake))
    return reviews


def example(rng: Random, shop: int) -> dict[str, Any]:
    """Return a shop's reviews as an example."""
    reviews = written(rng, shop)
    names = [f"r{n}" for n in range(len(reviews))]
    of_account = {each.account: each.fake for each in reviews}
    fresh = {
        account: rng.random() < (NEW_IF_FAKE if fake else NEW_IF_HONEST)
        for account, fake in of_account.items()
    }
    scores = [round(score(rng, each.fake), 2) for each in reviews]
    soon = []
    for (r, first), (s, second) in combinations(zip(names, reviews, strict=True), 2):
        near = round(1 - (second.at - first.at) / SOON_DAYS, 2)
        soon += [{"args": [r, s], "value": near}] if near > 0 else []
    return {
        "id": f"s{shop}",
        "evidence": {
            "Score": [{"args": [r], "value": x} for r, x in zip(names, scores, strict=True)],
            "By": [[r, each.account] for r, each in zip(names, reviews, strict=True)],
            "New": [[account] for account, new in fresh.items() if new],
            "Soon": soon,
        },
        "truth": {"Fake": [[r] for r, each in zip(names, reviews, strict=True) if each.fake]},
    }


def made() -> str:
    """Return the stream."""
    rng = Random(SEED)
    return "".join(f"{json.dumps(example(rng, shop))}\n" for shop in range(SHOPS))


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    OUT.write_text(made(), encoding="utf-8")
