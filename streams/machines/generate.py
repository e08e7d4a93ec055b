"""Generate readings of machines, some of which fail, and labels that say later which ones failed.

usage: python streams/machines/generate.py

Writes readings.csv and failures.csv in this folder, deterministically. README.md describes them.
"""

import sys
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

FOLDER = Path(__file__).parent
SEED = 1
MACHINES, DAYS = 24, 60
BETWEEN = 0.5
"""Days between two readings of a machine."""
WEAR = 4
"""A machine wears out in so many days, and then fails."""
AHEAD = 2
"""A reading is followed by a failure if that is at most so many days later."""
BEGIN = datetime(2026, 3, 1)


class Reading(NamedTuple):
    """A reading of a machine at a day, and the day of the failure that ends its wear."""

    day: float
    machine: str
    temperature: float
    vibration: float
    errors: int
    failure: float


def noise(rng: Random) -> float:
    """Return a number of mean 0 and variance 1; uses only rng.random(), the same in all releases."""
    return sum(rng.random() for _ in range(12)) - 6


def readings(rng: Random, number: int) -> list[Reading]:
    """Return the readings of a machine: it is healthy, wears out, fails, rests for a day, and so on."""
    heat, shake = 50 + 30 * rng.random(), 1 + 2 * rng.random()
    day, loaded, rows = rng.random() * BETWEEN, -1.0, []
    failure = 8 + 30 * rng.random()
    while day < DAYS:
        if day >= failure:
            day, failure = failure + 1, failure + 10 + 30 * rng.random()
        if rng.random() < 0.03:
            loaded = day + 2
        wear = max(0.0, 1 - (failure - day) / WEAR)
        temperature = heat + 5 * wear + 6 * (day < loaded) + 1.5 * noise(rng)
        vibration = shake + (0.1 + 0.5 * wear) * noise(rng)
        errors = sum(rng.random() < 0.03 + 0.25 * wear for _ in range(3))
        name = f"machine{number}"
        rows.append(Reading(day, name, temperature, vibration, errors, failure))
        day += BETWEEN * (0.9 + 0.2 * rng.random())
    return rows


def made() -> dict[str, str]:
    """Return the text of both tables, each by time."""
    rng = Random(SEED)
    rows = sorted(row for number in range(MACHINES) for row in readings(rng, number))
    tables: dict[str, list[tuple[str, ...]]] = {"readings.csv": [], "failures.csv": []}
    for number, row in enumerate(rows):
        name, fails = f"r{number}", row.failure - row.day <= AHEAD
        known = row.failure if fails else row.day + AHEAD
        values = f"{row.temperature:.1f}", f"{row.vibration:.2f}", str(row.errors)
        tables["readings.csv"].append((at(row.day), name, row.machine, *values))
        tables["failures.csv"].append((at(known), name, str(int(fails))))
    heads = {
        "readings.csv": "at,reading,machine,temperature,vibration,errors",
        "failures.csv": "known,reading,fails",
    }
    return {
        name: "\n".join([heads[name], *map(",".join, sorted(lines))]) + "\n"
        for name, lines in tables.items()
    }


def at(day: float) -> str:
    """Return the time of a day."""
    return str(BEGIN + timedelta(seconds=int(day * 86400)))


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    for name, text in made().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
