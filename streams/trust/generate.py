"""Simulate people who trust or distrust each other, and write each neighbourhood as an example.

usage: python streams/trust/generate.py

Writes trust.jsonl and the folder village, one batch of the first people, deterministically. README.md
describes them.
"""

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

OUT = Path(__file__).with_name("trust.jsonl")
SEED = 5
VILLAGE = Path(__file__).with_name("village")
PEOPLE = 1800
VILLAGERS = 60
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
    """Return a number from an approximately standard normal distribution.

    Uses only rng.random(), which is the same in all releases of Python.
    """
    return sum(rng.random() for _ in range(12)) - 6.0


def faction(rng: Random) -> int:
    """Draw a faction, by size."""
    point = rng.random()
    return (point >= FACTIONS[0]) + (point >= FACTIONS[0] + FACTIONS[1])


@dataclass(frozen=True)
class Person:
    """The latent variables of a person."""

    faction: int
    trustworthy: float
    trusting: float


@dataclass(frozen=True)
class Network:
    """Who knows whom, the signs of trust, and which are hidden."""

    contacts: list[list[int]]
    trusts: dict[Pair, bool]
    hidden: set[Pair]


def acquaintances(rng: Random, person: int) -> list[int]:
    """Draw whom a person knows, among those who live nearby."""
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
    """Return a person's neighbourhood: the person, their acquaintances, and who of these knows whom.

    None if no sign is hidden.
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
    """Yield the neighbourhood of every person."""
    world = network()
    for person in range(PEOPLE):
        found = example(world, person)
        if found:
            yield found


def made() -> str:
    """Return the text of trust.jsonl."""
    return "".join(json.dumps(e, separators=(",", ":")) + "\n" for e in examples())


def village() -> dict[str, str]:
    """Return the texts of the files of the village by name: tab-separated atoms, and values."""
    world = network()
    edges = [(a, b) for a in range(VILLAGERS) for b in world.contacts[a] if b < VILLAGERS]
    hidden = [edge for edge in edges if edge in world.hidden]
    seen = [edge for edge in edges if edge not in world.hidden]
    rows = {
        "people": [(person,) for person in range(VILLAGERS)],
        "knows": edges,
        "observed": [(*edge, int(world.trusts[edge])) for edge in seen],
        "targets": hidden,
        "truth": [(*edge, int(world.trusts[edge])) for edge in hidden],
    }
    return {
        f"{name}.txt": "".join("\t".join(map(str, row)) + "\n" for row in part)
        for name, part in rows.items()
    }


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    OUT.write_text(made(), encoding="utf-8")
    VILLAGE.mkdir(exist_ok=True)
    for name, text in village().items():
        (VILLAGE / name).write_text(text, encoding="utf-8")
