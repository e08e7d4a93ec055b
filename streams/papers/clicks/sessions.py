"""Simulate search sessions in which an ambiguous query is asked, and which results were clicked.

usage: sessions.py OUT.jsonl [--seed N] [--noise P]

``--noise`` is the probability that a session is exploratory: its clicks have nothing to do with what the user
had searched for. README.md defines atoms and probabilities. The examples are in the order of time; their
groups are train, validation and test, in this order.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

TOPICS, WORDS, QUERIES, SENSES, RESULTS = 20, 12, 12, 3, 8
BEFORE = 300
PARTS = (("train", 300), ("validation", 150), ("test", 300))
RECENT = 5
"""So many earlier sessions, of those that are like this one, are told of."""


class Result(NamedTuple):
    """A result of a query: what it is about, and how good it is for who wants that."""

    name: str
    sense: int
    quality: float
    words: frozenset[str]


class Query(NamedTuple):
    """An ambiguous query: the topics it may mean, how often it means each, and its results."""

    topics: Sequence[int]
    prior: Sequence[float]
    results: Sequence[Result]


class Session(NamedTuple):
    """What a user had searched for, then asked, saw (in this order), and clicked."""

    name: str
    query: int
    words: frozenset[str]
    shown: Sequence[Result]
    clicked: frozenset[str]


def words_of(rng: random.Random, topic: int, n: int, own: float) -> frozenset[str]:
    """Draw words, each with the probability ``own`` of the topic, else of any."""
    topics = [topic if rng.random() < own else rng.randrange(TOPICS) for _ in range(n)]
    return frozenset(f"t{t}w{rng.randrange(WORDS)}" for t in topics)


def query(rng: random.Random, number: int) -> Query:
    """Draw a query."""
    topics = rng.sample(range(TOPICS), SENSES)
    prior = [rng.uniform(0.1, 1.0) for _ in topics]
    results = [
        Result(
            f"q{number}r{n}",
            n % SENSES,
            rng.uniform(0.3, 1.0),
            words_of(rng, topics[n % SENSES], 4, 0.8),
        )
        for n in range(RESULTS)
    ]
    return Query(topics, prior, results)


def session(rng: random.Random, queries: Sequence[Query], noise: float, n: int) -> Session:
    """Draw a session: the query, what is meant, the searches before it, the page, the clicks."""
    number = min(int(rng.paretovariate(0.8)) - 1, QUERIES - 1)
    asked = queries[number]
    sense = rng.choices(range(SENSES), asked.prior)[0]
    words = words_of(rng, asked.topics[sense], rng.randint(1, 5), 0.75)
    score = {r.name: r.quality * asked.prior[r.sense] + rng.gauss(0.0, 0.1) for r in asked.results}
    shown = sorted(asked.results, key=lambda r: -score[r.name])
    exploring = rng.random() < noise
    clicked = explored(rng, shown) if exploring else sought(rng, shown, sense)
    return Session(f"s{n}", number, words, shown, clicked)


def explored(rng: random.Random, shown: Sequence[Result]) -> frozenset[str]:
    """Draw the clicks of a user who looks around: one, or with probability 1/2 one more, and so on."""
    n = 1
    while n < RESULTS and rng.random() < 0.5:
        n += 1
    return frozenset(r.name for r in rng.sample(shown, n))


def sought(rng: random.Random, shown: Sequence[Result], sense: int) -> frozenset[str]:
    """Draw the clicks of a user who means a sense: good results of it, one at least, upper ones oftener."""
    found = {
        r.name
        for place, r in enumerate(shown)
        if rng.random() < (r.quality * 0.9**place if r.sense == sense else 0.03)
    }
    best = max((r for r in shown if r.sense == sense), key=lambda r: r.quality)
    return frozenset(found or {best.name})


def level(clicks: int, sessions: int) -> str:
    """Return how popular a result is, by the share of earlier sessions of its query that clicked it."""
    share = (clicks + 1) / (sessions + 4)
    return "High" if share > 0.4 else "Middle" if share > 0.15 else "Low"


def example(now: Session, earlier: Sequence[Session], group: str) -> dict[str, Any]:
    """Return a session as an example; ``earlier`` are all before it."""
    same = [s for s in earlier if s.query == now.query]
    clicks = Counter(name for s in same for name in s.clicked)
    like = [s for s in same if s.words & now.words][-RECENT:]
    names = [r.name for r in now.shown]
    return {
        "id": now.name,
        "group": group,
        "evidence": {
            "Rank": [[name, f"P{place}"] for place, name in enumerate(names, 1)],
            "Popular": [[name, level(clicks[name], len(same))] for name in names],
            "Searched": [[word] for word in sorted(now.words)],
            "About": [[r.name, word] for r in now.shown for word in sorted(r.words)],
            "Like": [[s.name] for s in like],
            "Chose": [[s.name, name] for s in like for name in sorted(s.clicked)],
        },
        "truth": {"Clicked": [[name] for name in names if name in now.clicked]},
    }


def examples(seed: int, noise: float) -> Iterator[dict[str, Any]]:
    """Yield the examples of a simulation, by time; those before the first are history only."""
    rng = random.Random(seed)
    queries = [query(rng, n) for n in range(QUERIES)]
    earlier = [session(rng, queries, noise, n) for n in range(BEFORE)]
    for group, size in PARTS:
        for _ in range(size):
            now = session(rng, queries, noise, len(earlier))
            yield example(now, earlier, group)
            earlier.append(now)


def main() -> None:
    """Write a simulation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--noise", type=float, default=0.0)
    given = parser.parse_args()
    lines = (json.dumps(each) + "\n" for each in examples(given.seed, given.noise))
    given.out.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
