"""Simulate three lists of the same people, with mistakes, corrections, withdrawals and judged pairs.

usage: python streams/entities/generate.py

Writes entities.jsonl in this folder, deterministically, and entities.mln: the rules, with weights that EM
estimates from the first 300 records without any judgement. README.md describes both.
"""

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).parent
SEED = 1
PEOPLE = 260
FIRST = 300
"""From so many records the weights are estimated."""
CONFIG = HERE.parents[1] / "configs" / "entities.yaml"
SOURCES = {"shop": 0.1, "clinic": 0.2, "club": 0.35}
"""The lists, and how often each has a value wrong or not at all."""
HOUSEHOLD = 0.4
"""The share of people who live with the one before, under one name and with one phone."""
GIVEN = "Anna Anja Bruno Carla Daniel Daniela Elena Felix Greta Hugo Ida Jonas Karin Luca Lucia Maria Mario"
FAMILY = "Berg Carl Diaz Egli Frei Graf Huber Iten Jost Keller Lang Meier Nef Ott Peter Roth Suter Ulmi Vogt"
STREETS = (
    "Lindenweg Hofgasse Seestrasse Bergweg Kirchweg Mattenhof Talstrasse Altweg Gartenstrasse Platz"
)
CITIES = "Bern Basel Zug Thun Chur Biel"


def below(rng: Random, most: int) -> int:
    """Return a whole number; uses only rng.random(), which is the same in all releases of Python."""
    return int(rng.random() * most)


def one_of(rng: Random, words: str) -> str:
    """Return a word of a text."""
    choices = words.split()
    return choices[below(rng, len(choices))]


def person(rng: Random) -> dict[str, str]:
    """Return the true values of a person."""
    return {
        "name": f"{one_of(rng, GIVEN)} {one_of(rng, FAMILY)}",
        "street": f"{one_of(rng, STREETS)} {1 + below(rng, 60)}",
        "city": one_of(rng, CITIES),
        "born": f"{1940 + below(rng, 60)}-{1 + below(rng, 12):02}-{1 + below(rng, 28):02}",
        "phone": f"079 {100 + below(rng, 900)} {10 + below(rng, 90)} {10 + below(rng, 90)}",
    }


def typo(rng: Random, text: str) -> str:
    """Return a text with a letter that is lost, doubled, or swapped with the next."""
    n, kind = below(rng, len(text) - 1), below(rng, 3)
    middle = ["", 2 * text[n], text[n + 1] + text[n]][kind]
    return text[:n] + middle + text[n + 1 + (kind == 2) :]


def written(rng: Random, true: dict[str, str], wrong: float) -> dict[str, str]:
    """Return the values of a person as a list has them."""
    row = {}
    for column, value in true.items():
        chance = rng.random()
        if chance > wrong / 3:
            row[column] = typo(rng, value) if chance < wrong else value
    return row


def hidden(seed: int = SEED) -> dict[str, int]:
    """Return the person that each record is of."""
    return {change["id"]: change["person"] for change in _changes(Random(seed)) if "name" in change}


def _changes(rng: Random) -> list[dict[str, Any]]:
    """Return the stream, with the person that each record is of."""
    people = [person(rng)]
    while len(people) < PEOPLE:
        new, beside = person(rng), people[-1]
        if rng.random() < HOUSEHOLD:
            family = beside["name"].split()[1]
            new |= {key: beside[key] for key in ("street", "city", "phone")}
            new["name"] = f"{new['name'].split()[0]} {family}"
        people.append(new)
    timed = list[tuple[float, dict[str, Any]]]()
    numbers, records = dict.fromkeys(SOURCES, 0), list[tuple[float, str, int]]()
    for number, true in enumerate(people):
        for source, wrong in SOURCES.items():
            if rng.random() < 0.65:
                numbers[source] += 1
                time, name = rng.random(), f"{source} {numbers[source]}"
                head = {"id": name, "person": number, "source": source}
                timed.append((time, head | {"name": true["name"]} | written(rng, true, wrong)))
                records.append((time, name, number))
                if rng.random() < 0.1:  # somebody corrects it
                    timed.append((time + 0.2 * rng.random(), head | true))
                elif rng.random() < 0.08:  # a customer leaves
                    timed.append((time + 0.5 * rng.random(), {"id": name}))
    for n in range(60):
        time, a, one = records[below(rng, len(records))]
        near = [x for x in records if x[1] != a and (x[2] == one) == (n % 2 == 0)]
        if near:
            later, b, other = near[below(rng, len(near))]
            judged = {"id": f"judgement {n}", "pair": [a, b], "same": one == other}
            timed.append((max(time, later) + 0.2 * rng.random(), judged))
    return [change for _, change in sorted(timed, key=lambda entry: entry[0])]


def made(seed: int = SEED) -> str:
    """Return the stream."""
    changes = _changes(Random(seed))
    shown = ({key: x for key, x in change.items() if key != "person"} for change in changes)
    return "".join(f"{json.dumps(change)}\n" for change in shown)


def rules(stream: str) -> str:
    """Return the model, with weights from the first records of a stream."""
    from onlinesrl.runs.config.loading import load_as
    from onlinesrl.runs.config.schema import EntityWeights

    resolver = load_as(lambda values: EntityWeights, CONFIG).entities.resolver()
    rows = [json.loads(line) for line in stream.splitlines()]
    columns = resolver.columns
    records = [(row["id"], {c: row.get(c) for c in columns}) for row in rows if "name" in row]
    return resolver.fit(dict(records[:FIRST])).rules


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    HERE.joinpath("entities.jsonl").write_text(made(), encoding="utf-8")
    HERE.joinpath("entities.mln").write_text(rules(made()), encoding="utf-8")
