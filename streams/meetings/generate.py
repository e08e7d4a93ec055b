"""Simulate people who walk, stop and meet, and write noisy observations of them as examples.

usage: python streams/meetings/generate.py

Writes meetings.jsonl in this folder, deterministically. README.md describes it.
"""

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

OUT = Path(__file__).with_name("meetings.jsonl")
SEED = 3
SCENES = 14
PEOPLE = 3
FRAMES = 160
WINDOW = 20

WIDTH, DEPTH = 12.0, 9.0
WALK, RUN = 0.6, 1.2
NEAR = (1, 2, 3)
APART = 0.5
SAME_WAY = math.cos(math.pi / 4)

DISTANCE_ERROR = 0.3
WRONG_EVENT = 0.04
LABEL_SHIFT = 2

MOVES = ("walking", "running")
STANDS = ("active", "inactive")
EVENTS = (*MOVES, *STANDS)

Place = tuple[float, float]


def below(rng: Random, n: int) -> int:
    """Return a whole number from 0 to n - 1.

    Uses only rng.random(), which is the same in all releases of Python.
    """
    return int(rng.random() * n)


def anywhere(rng: Random) -> Place:
    """Return a random place in the arena."""
    return (rng.random() * WIDTH, rng.random() * DEPTH)


@dataclass
class Person:
    """A person with place, goal and pace, who rests at the goal until a frame."""

    at: Place
    goal: Place
    pace: float = WALK
    rest: int = 0
    until: int | None = None
    partner: int | None = None
    event: str = "walking"
    heading: Place = (0.0, 0.0)

    def go(self, rng: Random, goal: Place, rest: int, partner: int | None = None) -> None:
        """Start towards a goal, to rest there for ``rest`` frames; one walk in eight is a run."""
        self.goal, self.rest, self.until, self.partner = goal, rest, None, partner
        self.pace = RUN if rng.random() < 0.125 else WALK

    def step(self, rng: Random, frame: int) -> None:
        """Move towards the goal or stand there, changing between active and inactive at times."""
        dx, dy = self.goal[0] - self.at[0], self.goal[1] - self.at[1]
        left = math.hypot(dx, dy)
        if left > 1e-9:
            share = min(1.0, self.pace / left)
            self.at = (self.at[0] + share * dx, self.at[1] + share * dy)
            self.heading = (dx / left, dy / left)
            self.event = "running" if self.pace == RUN else "walking"
            return
        if self.until is None:
            self.until = frame + self.rest
        if self.event in MOVES or rng.random() < 0.1:
            self.event = STANDS[below(rng, 2)]


class Scene:
    """People in the arena, and the pairs that meet in the frame."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.people = [Person(anywhere(rng), anywhere(rng)) for _ in range(PEOPLE)]
        self.meeting: set[tuple[int, int]] = set()

    def plan(self, p: int, frame: int) -> None:
        """Give a person who has rested a new goal: a meeting with a free person, or a walk."""
        person, rng = self.people[p], self.rng
        if person.until is None or frame < person.until:
            return
        free = [q for q, other in enumerate(self.people) if q != p and other.partner is None]
        if person.partner is None and free and rng.random() < 0.5:
            self.invite(p, free[below(rng, len(free))])
        else:
            person.go(rng, anywhere(rng), 4 + below(rng, 16))

    def invite(self, p: int, q: int) -> None:
        """Send two people to a meeting place; neither waits for the other."""
        rng = self.rng
        spot, rest = anywhere(rng), 20 + below(rng, 30)
        beside = (spot[0] + APART + 0.5 * rng.random(), spot[1])
        self.people[p].go(rng, spot, rest, q)
        self.people[q].go(rng, beside, rest, p)

    def part(self, frame: int) -> None:
        """End meetings that are over; one pair in three walks off together."""
        rng = self.rng
        for p, q in combinations(range(PEOPLE), 2):
            a, b = self.people[p], self.people[q]
            if a.partner != q or a.until is None or b.until is None:
                continue
            if frame < max(a.until, b.until):
                a.until = b.until = max(a.until, b.until)
                continue
            goal, together = anywhere(rng), rng.random() < 1 / 3
            other = (goal[0] + APART, goal[1]) if together else anywhere(rng)
            a.go(rng, goal, 4 + below(rng, 16))
            b.go(rng, other, 4 + below(rng, 16))
            b.pace = a.pace

    def step(self, frame: int) -> None:
        """Simulate one frame."""
        self.part(frame)
        for p, person in enumerate(self.people):
            if person.partner is None:
                self.plan(p, frame)
        for person in self.people:
            person.step(self.rng, frame)
        self.meeting = {
            (p, q)
            for p, q in combinations(range(PEOPLE), 2)
            if self.people[p].partner == q
            and {self.people[p].event, self.people[q].event} <= set(STANDS)
        }


@dataclass(frozen=True)
class Frame:
    """The observations of a frame: events of persons, distances and common directions of pairs."""

    events: tuple[str, ...]
    distance: dict[tuple[int, int], float]
    same_way: set[tuple[int, int]]
    meeting: set[tuple[int, int]]


def seen(rng: Random, scene: Scene) -> Frame:
    """Observe a frame with errors in events and distances."""
    people = scene.people
    events = tuple(
        EVENTS[below(rng, 4)] if rng.random() < WRONG_EVENT else person.event for person in people
    )
    distance, same_way = {}, set()
    for p, q in combinations(range(PEOPLE), 2):
        a, b = people[p], people[q]
        distance[p, q] = math.dist(a.at, b.at) + (2 * rng.random() - 1) * DISTANCE_ERROR
        along = a.heading[0] * b.heading[0] + a.heading[1] * b.heading[1]
        if along > SAME_WAY and {events[p], events[q]} <= set(MOVES):
            same_way.add((p, q))
    return Frame(events, distance, same_way, set(scene.meeting))


def labels(rng: Random, meets: list[bool]) -> list[bool]:
    """Shift each start and end of a meeting by up to LABEL_SHIFT frames, like a labeller."""
    changes = [t for t in range(1, len(meets)) if meets[t] != meets[t - 1]]
    moved = [t + below(rng, 2 * LABEL_SHIFT + 1) - LABEL_SHIFT for t in changes]
    flips = [sum(m <= t for m in moved) for t in range(len(meets))]
    return [meets[0] ^ (n % 2 == 1) for n in flips]


def example(
    scene: int, pair: tuple[int, int], first: int, frames: list[Frame], meets: list[bool]
) -> dict[str, Any]:
    """Return a window of frames, from ``first`` on, of one pair as an example."""
    p, q = (f"P{person + 1}" for person in pair)
    meet = f"Meet_{p}_{q}"
    times = range(first, first + WINDOW)
    evidence: dict[str, list[list[str | int]]] = {
        event: [[person, f"{event.capitalize()}_{person}"] for person in (p, q)] for event in EVENTS
    }
    evidence["meet"] = [[p, q, meet]]
    evidence["Happens"] = [
        [f"{frames[t].events[n].capitalize()}_P{n + 1}", t] for t in times for n in pair
    ]
    evidence["Close"] = [
        [p, q, near, t] for t in times for near in NEAR if frames[t].distance[pair] <= near
    ]
    evidence["OrientationMove"] = [[p, q, t] for t in times if pair in frames[t].same_way]
    evidence["Next"] = [[t, t + 1] for t in times[:-1]]
    evidence["StartTime"] = [[0]] if first == 0 else []
    return {
        "id": f"s{scene + 1:02}-{p}-{q}-{first}",
        "group": f"s{scene + 1:02}",
        "evidence": {name: rows for name, rows in evidence.items() if rows},
        "truth": {"HoldsAt": [[meet, t] for t in times if meets[t]]},
    }


def examples() -> Iterator[dict[str, Any]]:
    """Yield the windows of all scenes, in order of windows, then pairs."""
    rng = Random(SEED)
    for number in range(SCENES):
        scene, frames = Scene(rng), []
        for t in range(FRAMES):
            scene.step(t)
            frames.append(seen(rng, scene))
        pairs = list(combinations(range(PEOPLE), 2))
        meets = {pair: labels(rng, [pair in f.meeting for f in frames]) for pair in pairs}
        for first in range(0, FRAMES, WINDOW):
            for pair in pairs:
                yield example(number, pair, first, frames, meets[pair])


def made() -> str:
    """Return the text of meetings.jsonl."""
    return "".join(json.dumps(e, separators=(",", ":")) + "\n" for e in examples())


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    OUT.write_text(made(), encoding="utf-8")
