"""Compare what a drift detector may watch on real data with and without planted changes.

usage: python streams/papers/defaults/drift_detectors.py CITESEER.jsonl ATIS.tsv [RUNS]

CITESEER.jsonl is what streams/papers/convert.py writes; ATIS.tsv has a word and a tag a line, and blank lines
between sentences. Without a change, examples are in random order. With one, labels are permuted from the
middle on, or two of them are exchanged, or topics follow each other. Each example is predicted, learned from,
and given to the detectors, in RUNS random orders (default: 3). Prints false signals in 10,000 examples, how
many changes were noticed before 200 examples had passed, and after how many on average.
"""

import json
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from onlinesrl.core.evaluation.drift import DriftDetector, DriftSection
from onlinesrl.core.example import decode
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.run import make_learner

CONFIGS = Path(__file__).parents[3] / "configs"
TAGS = """\
Token(word, position)
Next(position, position)
Label(position, tag!)
Token(+w, i) ^ Label(i, +t)
Label(i, +t) ^ Next(i, j) ^ Label(j, +u)
"""
SENTENCES, SOON = 2000, 200
DELTAS = 0.5, 0.1, 0.02, 0.002
Line = dict[str, Any]


def followed(config: Path, lines: Sequence[Line], settings: Sequence[str]) -> list[float]:
    """Predict and learn from each line in turn; return the share of each prediction that is wrong."""
    learner = make_learner(load(config, list(settings)))
    outcomes = (learner.step([decode(json.dumps(line).encode())])[0][0] for line in lines)
    return [outcome.wrong for outcome in outcomes if outcome.wrong is not None]


def signals(shares: Sequence[float], section: DriftSection) -> list[int]:
    """Return the examples at which drift is signalled."""
    detector = DriftDetector(section)
    return [number for number, share in enumerate(shares) if detector.add(share)]


class Stream(NamedTuple):
    """Examples in an order, and where a change begins."""

    name: str
    lines: list[Line]
    changes: list[int]


def relabelled(lines: Sequence[Line], query: str, of: dict[str, str]) -> list[Line]:
    """Return lines whose labels are exchanged from the middle on."""

    def changed(line: Line) -> Line:
        truth = [[a, of.get(label, label)] for a, label in line["truth"][query]]
        return {**line, "truth": {query: truth}}

    half = len(lines) // 2
    return [*lines[:half], *map(changed, lines[half:])]


def streams(lines: list[Line], name: str, query: str, runs: int) -> Iterator[Stream]:
    """Yield streams without a change, and with permuted and with exchanged labels."""
    labels = sorted({label for line in lines for _, label in line["truth"][query]})
    common = sorted(
        labels, key=lambda x: -sum(x == y for line in lines for _, y in line["truth"][query])
    )
    turned = dict(zip(labels, labels[1:] + labels[:1], strict=True))
    exchanged = dict(zip(common[1:3], common[2:0:-1], strict=True))
    for seed in range(runs):
        mixed = random.Random(seed).sample(lines, len(lines))
        half = len(mixed) // 2
        yield Stream(f"{name}, no change", mixed, [])
        yield Stream(f"{name}, permuted", relabelled(mixed, query, turned), [half])
        yield Stream(f"{name}, two exchanged", relabelled(mixed, query, exchanged), [half])


def sentences(path: Path) -> list[Line]:
    """Return sentences as examples."""
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8").strip().split("\n\n")):
        rows = [row.split("\t") for row in text.splitlines()]
        evidence = {
            "Token": [[row[0], n] for n, row in enumerate(rows)],
            "Next": [[n, n + 1] for n in range(len(rows) - 1)],
        }
        truth = {"Label": [[n, row[1]] for n, row in enumerate(rows)]}
        lines.append({"id": number, "evidence": evidence, "truth": truth})
    return lines


def main(citeseer: Path, atis: Path, runs: int) -> None:
    """Print the tables."""
    found: dict[str, list[tuple[Stream, list[float]]]] = {}
    lines = [json.loads(line) for line in citeseer.read_text(encoding="utf-8").splitlines()]
    topics: dict[str, list[Line]] = {}
    for line in lines:
        topics.setdefault(line["group"], []).append(line)
    orders = []
    for order in permutations(topics.values()):
        ends = [len(order[0]), len(order[0]) + len(order[1])]
        orders.append(Stream("CiteSeer, topics", [line for topic in order for line in topic], ends))
    tagged = sentences(atis)[:SENTENCES]
    tags = sorted({tag for line in tagged for _, tag in line["truth"]["Label"]})
    settings = [f"source.path={citeseer}", "learner={update: adagrad}"]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "tags.mln"
        model.write_text(f"tag = {{{', '.join(tags)}}}\n{TAGS}")
        tagging = [*settings, f"model={model}", "query=Label", "metrics.by=tag"]
        jobs = [(s, settings) for s in (*streams(lines, "CiteSeer", "InField", runs), *orders)]
        jobs += [(s, tagging) for s in streams(tagged, "ATIS", "Label", runs)]
        for stream, keys in jobs:
            shares = followed(CONFIGS / "citeseer.yaml", stream.lines, keys)
            found.setdefault(stream.name, []).append((stream, shares))
            print(stream.name, file=sys.stderr, flush=True)
    print("| watched | delta |", " | ".join(found), "|")
    print("|---|---|" + "---|" * len(found))
    for metric, delta in product(("hamming", "exact"), DELTAS):
        section = DriftSection(metric=metric, delta=delta)
        cells = (cell(of, section) for of in found.values())
        print(f"| {metric} | {delta:g} |", " | ".join(cells), "|", flush=True)


def cell(of: Sequence[tuple[Stream, list[float]]], section: DriftSection) -> str:
    """Return false signals in 10,000 examples; and the share of noticed changes with their mean delay."""
    false, examples, delays, changes = 0, 0, list[int](), 0
    for stream, shares in of:
        examples += len(shares)
        changes += len(stream.changes)
        at = signals(shares, section)
        true = set[int]()
        for change in stream.changes:
            soon = [n for n in at if 0 <= n - change < SOON]
            true.update(soon)
            delays += [n - change for n in soon[:1]]
        false += len({*at} - true)
    text = f"{10_000 * false / examples:.1f}"
    mean = f" after {fmean(delays):.0f}" if delays else ""
    return f"{text}; {len(delays)}/{changes}{mean}" if changes else text


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 3)
