"""Simulate people who trust or distrust one another, and write each one's neighbourhood as an example.

usage: python streams/trust/generate.py

Makes trust.jsonl beside this file, the same every time. README.md says what is in it.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

OUT = Path(__file__).with_name("trust.jsonl")
SEED = 5
PEOPLE = 1800
DISTRICT = 200
REACH = 5
CONTACTS = 5

FACTIONS = (0.5, 0.3, 0.2)
SAME_FACTION = 4.0
TRUSTWORTHY = 1.5
TRUSTING = 0.5
TIE = 1.0
MOOD = 1.2
HIDDEN = 0.4

Pair = tuple[int, int]


def normal(rng: Random) -> float:
    """Return a number whose distribution is close to the standard normal one.

    Made of rng.random(), whose numbers no release of Python may change.
    """
    return sum(rng.random() for _ in range(12)) - 6.0


def faction(rng: Random) -> int:
    """Return a faction, by their sizes."""
    point = rng.random()
    return (point >= FACTIONS[0]) + (point >= FACTIONS[0] + FACTIONS[1])


@dataclass(frozen=True)
class Person:
    """What decides, unseen, whom somebody trusts and who trusts them."""

    faction: int
    trustworthy: float
    trusting: float


@dataclass(frozen=True)
class Network:
    """Who knows whom, whether they trust them, and which of the signs are hidden."""

    contacts: list[list[int]]
    trusts: dict[Pair, bool]
    hidden: set[Pair]


def acquaintances(rng: Random, person: int) -> list[int]:
    """Choose whom somebody knows: a few of those who live within reach."""
    near = [(person + step) % PEOPLE for step in range(-REACH, REACH + 1) if step]
    order = sorted(near, key=lambda _: rng.random())
    return sorted(order[:CONTACTS])


def trusted(rng: Random, giver: Person, taker: Person, tie: float) -> bool:
    """Draw whether one person trusts another."""
    log_odds = MOOD + TRUSTWORTHY * taker.trustworthy + TRUSTING * giver.trusting + TIE * tie
    log_odds += SAME_FACTION if giver.faction == taker.faction else -SAME_FACTION
    return rng.random() < 1.0 / (1.0 + math.exp(-log_odds))


def network() -> Network:
    """Simulate the network."""
    rng = Random(SEED)
    people = [Person(faction(rng), normal(rng), normal(rng)) for _ in range(PEOPLE)]
    contacts = [acquaintances(rng, person) for person in range(PEOPLE)]
    edges = [(a, b) for a in range(PEOPLE) for b in contacts[a]]
    ties: dict[Pair, float] = {}
    trusts = {}
    for a, b in edges:
        tie = ties.setdefault((min(a, b), max(a, b)), normal(rng))
        trusts[a, b] = trusted(rng, people[a], people[b], tie)
    hidden = {edge for edge in edges if rng.random() < HIDDEN}
    return Network(contacts, trusts, hidden)


def example(world: Network, person: int) -> dict[str, Any] | None:
    """Write somebody's neighbourhood: the person, whom they know, and who of these knows whom.

    None where no sign is hidden.
    """
    members = [person, *world.contacts[person]]
    edges = [(a, b) for a in members for b in world.contacts[a] if b in members]
    hidden = [edge for edge in edges if edge in world.hidden]
    if not hidden:
        return None
    signs = [
        [a, b] if world.trusts[a, b] else {"args": [a, b], "value": 0}
        for a, b in edges
        if (a, b) not in world.hidden
    ]
    evidence = {"Knows": edges, "Trusts": signs}
    return {
        "id": person,
        "group": f"d{person // DISTRICT + 1:02}",
        "evidence": {name: atoms for name, atoms in evidence.items() if atoms},
        "query": {"Trusts": hidden},
        "truth": {"Trusts": [edge for edge in hidden if world.trusts[edge]]},
    }


def examples() -> Iterator[dict[str, Any]]:
    """Yield everybody's neighbourhood."""
    world = network()
    for person in range(PEOPLE):
        found = example(world, person)
        if found:
            yield found


def made() -> str:
    """Return the text of trust.jsonl."""
    return "".join(json.dumps(e, separators=(",", ":")) + "\n" for e in examples())


if __name__ == "__main__":
    OUT.write_text(made(), encoding="utf-8")
