"""Linked payments: the generator of `streams/fraud`, the section that links them, and a plain script.

The script knows all rows from the start, sorts them, and keeps lists; the package is not in it.
"""

import csv
import json
import math
import runpy
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conftest import Job

from tests.support.paths import REPO

MODEL = """
Is(payment, feature)
Number(payment, name): real
Linked(payment, payment, link): real
Fraud(payment)
-5 Fraud(p)
Is(p, +f) ^ Fraud(p)
Number(p, +n) ^ Fraud(p)
Linked(p, q, +l) ^ Fraud(q) ^ Fraud(p)
"""
LINKS = ["device", "merchant", "card"]
COUNT = {"by": LINKS, "within": "10d", "transform": "log1p"}
SECTION: dict[str, Any] = {
    "within": "90d",
    "rows": {"id": "tx_id", "time": "ts"},
    "labels": {"id": "tx_id", "time": "label_ts", "truth": {"Fraud": "is_fraud"}},
    "evidence": {"Is": ["mcc", "foreign", "new_device"]},
    "links": {"Linked": {"by": LINKS, "value": "1/sqrt(n)"}},
    "numbers": {
        "Number": {
            "amount": {"of": "amount", "transform": "log1p", "minus": 3.0},
            "fraud": {"rows": "Fraud", **COUNT},
            "fine": {"rows": "not Fraud", **COUNT},
            "open": {"rows": "unlabelled", "by": LINKS, "transform": "log1p"},
        }
    },
}


def generate(folder: Path, seed: int, honest: int, days: int) -> list[Path]:
    """Write transactions.csv and labels.csv; return both."""
    folder.mkdir(exist_ok=True)
    script = runpy.run_path(str(REPO / "streams" / "fraud" / "generate.py"))
    script["write"](folder, seed, honest, days)
    return [folder / "transactions.csv", folder / "labels.csv"]


def linked_job(folder: Path, name: str, path: Sequence[Path] = (), **keys: Any) -> Job:
    """Return a run over the rows of files, or a server of rows."""
    (folder / "fraud.mln").write_text(MODEL)
    source: dict[str, Any] = {"linked": json.loads(json.dumps({**SECTION, "within": "11d"}))}
    source |= {"path": [str(one) for one in path]} if path else {}
    values = {"model": str(folder / "fraud.mln"), "query": "Fraud", "labels": {"pending": 1000}}
    values |= {"source": source, "metrics": {"every": 100}, "limits": {"bad_share": 1.0}, **keys}
    return Job(folder / name, [], **values)


def _table(path: Path, column: str) -> Iterator[tuple[float, dict[str, str]]]:
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield datetime.fromisoformat(row[column]).replace(tzinfo=UTC).timestamp(), row


def cut(folder: Path, near: int = 2, days: int = 10) -> list[dict[str, Any]]:
    """Return the examples and truths of the tables in a folder, by time; labels come first."""
    payments = {
        row["tx_id"]: pair for pair in _table(folder / "transactions.csv", "ts") for row in pair[1:]
    }
    labels = {
        row["tx_id"]: (time, row["is_fraud"] == "1")
        for time, row in _table(folder / "labels.csv", "label_ts")
    }
    known = defaultdict[Any, list[float]](list)
    unlabelled = defaultdict[Any, list[str]](list)
    neighbours: dict[str, list[str]] = {}

    def numbers(row: dict[str, str], now: float) -> Iterator[tuple[str, float]]:
        yield "amount", math.log1p(float(row["amount"])) - 3
        for link in LINKS:
            for fraud in (True, False):
                times = known[link, row[link], fraud]
                recent = len(times) - bisect_left(times, now - days * 86400)
                yield f"{link} {'fraud' if fraud else 'fine'}", math.log1p(recent)
            yield f"{link} open", math.log1p(len(unlabelled[link, row[link]]))

    def example(name: str, row: dict[str, str], now: float) -> dict[str, Any]:
        linked: list[Any] = []
        for link in LINKS:
            others = unlabelled[link, row[link]][-near:]
            linked += [
                {"args": [name, o, link], "value": round(len(others) ** -0.5, 3)} for o in others
            ]
        atoms = [name, *dict.fromkeys(atom["args"][1] for atom in linked)]
        rows = [(atom, payments[atom][1]) for atom in atoms]
        features = [
            [a, f"{c}={row[c]}"] for a, row in rows for c in ("mcc", "foreign", "new_device")
        ]
        values = [
            {"args": [a, n], "value": round(x, 3)}
            for a, row in rows
            for n, x in numbers(row, now)
            if round(x, 3)
        ]
        neighbours[name] = atoms[1:]
        return {
            "id": name,
            "time": int(now),
            "evidence": {"Is": features, "Number": values, "Linked": linked},
            "query": {"Fraud": [[atom] for atom in atoms]},
            "asked": {"Fraud": [[name]]},
        }

    order = {name: n for n, name in enumerate(payments)}
    events = [(time, 1, order[name], name) for name, (time, _) in payments.items()]
    events += [(time, 0, order[name], name) for name, (time, _) in labels.items()]
    lines: list[dict[str, Any]] = []
    for now, is_payment, _, name in sorted(events):
        time, row = payments[name]
        if is_payment:
            lines.append(example(name, row, now))
        else:
            fraud = [[name]] if labels[name][1] else []
            others = [[atom] for atom in neighbours.pop(name)]
            lines.append({"id": name, "truth": {"Fraud": fraud}, "unlabelled": {"Fraud": others}})
        for link in LINKS:
            if is_payment:
                unlabelled[link, row[link]].append(name)
            else:
                unlabelled[link, row[link]].remove(name)
                insort(known[link, row[link], labels[name][1]], time)
    return lines


def plain(line: dict[str, Any]) -> dict[str, Any]:
    """Return an example with its evidence as sets, in order, and without predicates that have none."""
    if "evidence" not in line:
        return line
    evidence = {
        name: sorted(map(json.dumps, atoms)) for name, atoms in line["evidence"].items() if atoms
    }
    return line | {"evidence": evidence}
