"""CAVIAR's labelled pairs of people as examples, for streams/papers/convert.py.

The folder contains a database per pair, MOVIE-NAME.idN_idM.db: each person's event in each frame, distances,
and meetings. The examples are the pairs that meet at some time, in the order of their names, in windows of
200 frames, with the number of the movie as group. Frames keep their numbers; Next is directed forward (in the
databases the later frame is first). Of the four distances of Close, the smallest and the largest are
kept. Arrived holds for a person who stands idle after walking or running, also before the window.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onlinesrl as srl

FRAMES = 200
CLOSE = (24, 34)
FUNCTIONS = ("walking", "running", "active", "inactive", "enter", "exit")
MOVES = ("walking", "running", "enter")
TIMED = ("Happens", "Close", "OrientationMove", "Arrived", "StartTime")

Rows = list[list[str | int]]


def row(arguments: Sequence[str | int]) -> list[str | int]:
    """Return an atom's arguments, numbers as numbers."""
    return [int(text) if text.isdecimal() else text for text in map(str, arguments)]


def arrived(rows: dict[str, Rows]) -> Rows:
    """Return the persons and frames in which they stand idle after moving."""
    who = {value: (name, person) for name in FUNCTIONS for person, value in rows.get(name, [])}
    last: dict[str | int, str] = {}
    found: Rows = []
    for event, t in sorted(rows.get("Happens", []), key=lambda r: int(r[1])):
        name, person = who[event]
        if name != "inactive":
            last[person] = name
        elif last.get(person) in MOVES:
            found.append([person, t])
    return found


def table(evidence: Mapping[str, Sequence[Any]]) -> dict[str, Rows]:
    """Return the rows of each predicate and function, without meetings of a person with itself."""
    rows: dict[str, Rows] = {
        name: [row(each) for each in of if isinstance(each, list)] for name, of in evidence.items()
    }
    rows["meet"] = [r for r in rows.get("meet", []) if r[0] != r[1]]
    meetings = {value for _, _, value in rows["meet"]}
    rows["HoldsAt"] = [r for r in rows.get("HoldsAt", []) if r[0] in meetings]
    rows["Close"] = [r for r in rows.get("Close", []) if r[2] in CLOSE]
    rows["Arrived"] = arrived(rows)
    return rows


def window(rows: dict[str, Rows], first: int, last: int) -> tuple[dict[str, Rows], Rows]:
    """Return the evidence and the meetings of the frames first to last."""

    def within(name: str) -> Rows:
        return [r for r in rows.get(name, []) if first <= int(r[-1]) <= last]

    evidence = {name: rows.get(name, []) for name in (*FUNCTIONS, "meet")}
    evidence |= {name: within(name) for name in TIMED}
    evidence["Next"] = [[t, t + 1] for t in range(first, last)]
    return {name: found for name, found in evidence.items() if found}, within("HoldsAt")


def windows(
    name: str, evidence: Mapping[str, Sequence[Any]], frames: int = FRAMES
) -> Iterator[dict[str, Any]]:
    """Yield the examples of a pair, none if it never meets. The last window may be shorter."""
    rows = table(evidence)
    if not rows["HoldsAt"]:
        return
    end = max(int(t) for pair in rows["Next"] for t in pair)
    for first in range(0, end + 1, frames):
        last = min(first + frames - 1, end)
        evidence, meetings = window(rows, first, last)
        yield {
            "id": f"{name}.{first}",
            "group": name.split("-", maxsplit=1)[0],
            "evidence": evidence,
            "truth": {"HoldsAt": meetings},
        }


def examples(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the windows of every pair that meets; exit with a message at an invalid database."""
    paths = sorted(folder.glob("*.db"))
    if not paths:
        sys.exit(f"{folder}: no .db file in this folder; give the folder of CAVIAR's pairs")
    for path in paths:
        try:
            for pair in srl.read(path):
                yield from windows(path.stem, pair.evidence)
        except srl.OnlinesrlError as error:
            sys.exit(str(error))
