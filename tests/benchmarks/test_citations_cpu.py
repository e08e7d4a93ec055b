"""CPU per citation of CDA2-ML, JSON lines to predictions and checkpoints, beside CRFsuite's and VW's.

Slopes between 5 and 50 repetitions of CiteSeer under fresh ids, of the least CPU (user and system)
of five interleaved rounds. A peer trains each citation twice and tags it once, over its folds.
"""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.benchmarks.measure import ONLINESRL, REPO, SHARED, python, show
from tests.support.stream_scripts import converted

CITESEER = SHARED / "data" / "citeseer"
PEER = SHARED / "peers" / "crfsuite" / "crfsuite_citeseer.py"
CONFIG = REPO / "configs" / "citeseer.yaml"
VOWPAL = Path(__file__).with_name("vw_citations.py")
FEW, MANY, ROUNDS = 5, 50, 5
pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(not CITESEER.exists(), reason=f"CiteSeer is not here: no {CITESEER}"),
    pytest.mark.skipif(not PEER.exists(), reason=f"the peer is not here: no {PEER}"),
    *(
        pytest.mark.skipif(find_spec(module) is None, reason=f"{package} is not installed")
        for module, package in (("pycrfsuite", "python-crfsuite"), ("vowpalwabbit", "vowpalwabbit"))
    ),
]


class Cost(NamedTuple):
    """Examples trained on, CPU seconds of the whole process, and what it says of its parts."""

    examples: int
    cpu: float
    own: float


def repeated(folder: Path, times: int) -> Path:
    """Write CiteSeer so many times under fresh ids, in the peer's form and as examples."""
    folder.mkdir()
    out = folder.parent / f"{folder.name}.jsonl"
    examples = converted("citeseer", CITESEER, out)
    with out.open("w", encoding="utf-8") as file:
        for source in sorted(CITESEER.glob("*.jsonl")):
            rows = [json.loads(line) for line in source.read_bytes().splitlines()]
            (folder / source.name).write_text(copies(rows, times), encoding="utf-8")
            file.write(copies([e for e in examples if e["group"] == source.stem], times))
    return folder


def copies(rows: list[dict[str, Any]], times: int) -> str:
    """Return rows so many times under fresh ids, as lines."""
    fresh = ({**row, "id": f"{row['id']}-{n}"} for n in range(times) for row in rows)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in fresh)


def ours(folder: Path) -> Cost:
    source, output = folder.parent / f"{folder.name}.jsonl", folder.parent / "out"
    sets = ("--set", f"source.path={source}", "--set", f"output={output}")
    cpu = python(*ONLINESRL, "run", CONFIG, "--fresh", *sets).cpu
    summary = json.loads((output / "summary.json").read_bytes())
    assert summary["updates"] == source.read_bytes().count(b"\n")
    return Cost(summary["updates"], cpu, summary["seconds"])


def crfsuite(folder: Path) -> Cost:
    return peer(PEER, folder, "pa", "1")


def vowpal_wabbit(folder: Path) -> Cost:
    return peer(VOWPAL, folder)


def peer(*program: str | Path) -> Cost:
    cpu, _, output = python(*program)
    examples, *parts = re.findall(r"([\d.]+) examples;|(?:read|extract|train) ([\d.]+)", output)
    return Cost(int(examples[0]), cpu, sum(float(seconds) for _, seconds in parts))


def slope(few: list[Cost], many: list[Cost]) -> float:
    """Microseconds of CPU for one more example, start-up apart."""
    more = min(c.cpu for c in many) - min(c.cpu for c in few)
    return 1e6 * more / (many[0].examples - few[0].examples)


@pytest.mark.parametrize("of", [crfsuite, vowpal_wabbit])
def test_no_more_cpu_per_citation_than_a_peer(tmp_path, of):
    few, many = repeated(tmp_path / "few", FEW), repeated(tmp_path / "many", MANY)
    rounds = [(ours(few), of(few), ours(many), of(many)) for _ in range(ROUNDS)]
    ours_few, peers_few, ours_many, peers_many = map(list, zip(*rounds, strict=True))

    mine = slope(ours_few, ours_many)
    whole = slope(peers_few, peers_many)
    parts = 1e6 * min(c.own for c in peers_many) / peers_many[0].examples
    name = of.__name__.replace("_", " ")
    show(
        "CPU per trained citation",
        ("", "us", "per second", "ours / it"),
        [
            ("onlinesrl, CDA2-ML, slope", mine, f"{1e6 / mine:,.0f}", ""),
            (f"{name}, (a) whole process, slope", whole, f"{1e6 / whole:,.0f}", mine / whole),
            (f"{name}, (b) its own clock", parts, f"{1e6 / parts:,.0f}", mine / parts),
        ],
    )
    assert mine <= whole
