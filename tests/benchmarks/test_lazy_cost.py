"""Rules of three variables beside a plain lazy integer program, and the memory that answers take."""

import gc
import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

import numpy as np
import pytest

import onlinesrl as srl
from tests.benchmarks import lazy_highs
from tests.benchmarks.measure import ONLINESRL, python, show, sizes, timed
from tests.support.families import Facts, clusters, denials, matching, names, noisy, orders
from tests.support.paths import SHARED

CORA = SHARED / "data" / "cora_er"
ROCKIT = SHARED / "cases" / "rockit-codi-slow"
CLUSTERING = [(n, share) for n in (10, 20) for share in (0.0, 0.05, 0.1, 0.2)]
CLUSTERING += [(40, 0.0), (40, 0.02), (40, 0.05), (40, 0.1), (60, 0.0), (60, 0.02), (60, 0.05)]
CLUSTERING += [(80, 0.0), (80, 0.02), (80, 0.05), (100, 0.0), (100, 0.02)]
MEMORY = """
import sys
from random import Random
import onlinesrl as srl
from tests.support.families import clusters, names, noisy
n = int(sys.argv[1])
found = srl.infer(clusters(Random(0), True, n).rules, {"W": noisy(Random(0), names("C", n), 0.05)}, "Same")
assert found.certified
[peak] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(peak.split()[1]) / 1024)
"""
"""Prints the peak in MB; what the system counts for a child starts at its parent's."""


class Question(NamedTuple):
    """A model with facts, and what answers it by a program of its own."""

    rules: str
    facts: Facts
    query: dict[str, str]
    """The predicate whose facts are the gains of a query predicate's atoms."""
    program: Callable[[], tuple[float, int]]

    def simple(self) -> "Question":
        """The question without its last rule, of three variables: what it costs to read and to answer."""
        return self._replace(rules=self.rules.rpartition("\n")[0])

    def gain(self) -> float:
        """Infer the best state, and return the sum of its gains."""
        found = srl.infer(self.rules, self.facts, [*self.query])
        assert found.certified
        return sum(
            self.facts[gains][row]
            for name, gains in self.query.items()
            for row, true in found[name].items()
            if true
        )


def array(facts: Facts, name: str, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
    return np.array([[facts[name][row, column] for column in columns] for row in rows])


def clustering_of(facts: Facts, items: Sequence[str]) -> Question:
    def program() -> tuple[float, int]:
        similarity = array(facts, "W", items, items)
        gain, rows = lazy_highs.clustering(similarity + similarity.T)
        return gain + float(np.trace(similarity)), rows

    return Question(clusters(Random(0), True, len(items)).rules, facts, {"Same": "W"}, program)


def clustering(n: int, share: float, seed: int) -> Question:
    """Records of which this share of pairs has a similarity of the wrong sign."""
    items = names("C", n)
    return clustering_of({"W": noisy(Random(seed), items, share)}, items)


def linear_order(n: int, share: float, seed: int) -> Question:
    """Items in order, and comparisons of which this share is wrong."""
    rng, items = Random(seed), names("O", n)
    gain = {}
    for x, y in itertools.combinations(items, 2):
        sign = -1 if rng.random() < share else 1
        gain[x, y] = sign * round(rng.uniform(0.1, 1.0), 3)
        gain[y, x] = -gain[x, y]
    gain |= {(x, x): 0.0 for x in items}
    facts: Facts = {"W": gain}
    return Question(
        orders(rng, True, n).rules,
        facts,
        {"First": "W"},
        lambda: lazy_highs.linear_order(array(facts, "W", items, items)),
    )


def one_to_one(n: int, share: float, seed: int) -> Question:
    """Pairs of which a true one gains most, unless it is of this share."""
    rng, left, right = Random(seed), names("A", n), names("B", n)
    gain = {pair: round(rng.gauss(-0.5, 1.0), 3) for pair in itertools.product(left, right)}
    for pair in zip(left, right, strict=True):
        gain[pair] += 2.0 * (rng.random() >= share)
    facts: Facts = {"W": gain}
    return Question(
        matching(rng, True, n).rules,
        facts,
        {"M": "W"},
        lambda: lazy_highs.matching(array(facts, "W", left, right)),
    )


def denial(n: int, share: float, seed: int) -> Question:
    """Rows of three codes with a city each; of this share of the cells another value is seen."""
    rng, rows = Random(seed), names("R", n)
    codes, cities = names("Z", 3), names("T", 3)
    facts: Facts = {"W": {}, "V": {}}
    for row in rows:
        true = rng.randrange(3)
        for name, values in (("W", codes), ("V", cities)):
            seen = true if rng.random() >= share else rng.randrange(3)
            for number, value in enumerate(values):
                facts[name][row, value] = round(rng.uniform(0.0, 0.3) + (number == seen), 3)
    return Question(
        denials(Random(1), True, n).rules,
        facts,
        {"Code": "W", "City": "V"},
        lambda: lazy_highs.denial(array(facts, "W", rows, codes), array(facts, "V", rows, cities)),
    )


def cora(n: int, share: float, seed: int) -> Question:
    """Citations of Cora, alike by the words of title, authors and venue."""
    if not CORA.exists():
        pytest.skip(f"needs {CORA}")
    text = (CORA / "fold1.db").read_text()
    words: dict[str, list[set[str]]] = {}
    for field in ("Title", "Author", "Venue"):
        for paper, value in re.findall(rf"^{field}\((\w+),{field}_(\w*)\)", text, re.MULTILINE):
            words.setdefault(paper, []).append({*value.split("_")} - {""})
    papers = Random(seed).sample(sorted(words), n)
    items = names("C", n)
    gain = {}
    for (x, one), (y, other) in itertools.product(zip(items, papers, strict=True), repeat=2):
        common = [
            len(a & b) / max(1, len(a | b)) for a, b in zip(words[one], words[other], strict=True)
        ]
        gain[x, y] = round(
            sum(w * c for w, c in zip((2.0, 1.0, 0.5), common, strict=True)) - 1.5, 3
        )
    return clustering_of({"W": gain}, items)


Draw = Callable[[int, float, int], Question]
OTHERS: list[tuple[Draw, int, float]] = [
    *((linear_order, 30, share) for share in (0.0, 0.05, 0.1, 0.2)),
    *((one_to_one, 40, share) for share in (0.0, 0.2)),
    *((denial, 60, share) for share in (0.02, 0.1)),
    (cora, 60, 0.0),
    (cora, 259, 0.0),
]
TINY: list[tuple[Draw, int, float]] = [
    (clustering, 10, 0.1),
    (linear_order, 6, 0.2),
    (one_to_one, 5, 0.2),
    (denial, 6, 0.2),
    (cora, 10, 0.0),
]
FULL = [*((clustering, n, share) for n, share in CLUSTERING), *OTHERS]


@sizes("questions, rounds, most", (TINY, 1, float("inf")), (FULL, 3, 2.0))
def test_answers_beside_a_plain_lazy_program(
    questions: list[tuple[Draw, int, float]], rounds: int, most: float
) -> None:
    """Another question each round; what it takes more than without its last rule, over what HiGHS takes."""
    rows = []
    clustering(5, 0.1, 0).gain()  # loads kernels
    for draw, n, share in questions:
        cells = []
        for seed in range(rounds):
            question = draw(n, share, seed)
            gc.collect()
            reading, _ = timed(question.simple().gain)
            ours, gain = timed(question.gain)
            theirs, (best, count) = timed(question.program)
            assert gain == pytest.approx(best, abs=1e-6)
            ratios = ours / theirs, max(0.0, ours - reading) / theirs
            cells.append((ours, reading, theirs, *ratios, float(count)))
        rows.append((draw.__name__, n, f"{share:.0%}", *map(median, zip(*cells, strict=True))))
    head = (
        "",
        "size",
        "wrong",
        "CPU s",
        "simple",
        "HiGHS",
        "ratio",
        "ratio of the rest",
        "its rows",
    )
    show("Rules of three variables: with, and without the last rule; HiGHS; medians", head, rows)
    assert max(row[-2] for row in rows) <= most


LISTED = """
Alike(record, record): real
Same(record, record)
1 Alike(x, y) ^ Same(x, y)
Same(x, y) ^ Same(y, z) => Same(x, z).
Same(x, y) ^ Same(x, z) ^ y < z => Same(y, z).
Same(x, z) ^ Same(y, z) ^ x < y => Same(x, y).
"""


@sizes("blocks, steps, most", (3, 5, float("inf")), (134, 100, 0.02))
def test_a_changed_similarity_in_a_world(blocks: int, steps: int, most: float) -> None:
    """Fifteen listed pairs in each block of six records, beside the answer of a cold world."""
    rng = Random(0)
    pairs = [
        (6 * block + x, 6 * block + y)
        for block in range(blocks)
        for x, y in itertools.combinations(range(6), 2)
    ]
    similarity = {pair: round(rng.gauss(0.2, 1.0), 3) for pair in pairs}

    def cold() -> srl.World:
        world = srl.World(srl.Model(LISTED), "Same", targets="listed")
        world.apply(set={"Alike": similarity}, query={"Same": pairs})
        return world

    world = cold()
    seconds = []
    for _ in range(steps):
        change = {rng.choice(pairs): round(rng.gauss(0.2, 1.0), 3)}
        similarity |= change
        spent, delta = timed(lambda: world.apply(set={"Alike": change}))  # noqa: B023
        assert delta.certificate.certified
        seconds.append(spent)
    whole, other = timed(cold)
    assert world.certificate.score == pytest.approx(other.certificate.score, abs=1e-6)
    step = median(seconds)
    row = (f"{len(pairs):,}", 1e3 * whole, 1e3 * step, f"{step / whole:.2%}")
    show("A world of listed pairs, CPU ms", ("pairs", "cold", "a step", "share"), [row])
    assert step <= most * whole


@sizes("n, most", (8, float("inf")), (60, 110.0))
def test_memory_of_a_clustering(n: int, most: float) -> None:
    """Above that of a process with three records."""
    own, whole = (float(python("-c", MEMORY, str(size)).output) for size in (3, n))
    show(
        "Peak memory, MB", ("records", "process", "above three records"), [(n, whole, whole - own)]
    )
    assert whole - own <= most


@pytest.mark.benchmark
@pytest.mark.skipif(not ROCKIT.exists(), reason="needs RockIt's example")
def test_an_ontology_matching(tmp_path: Path) -> None:
    """RockIt's own example: two ontologies."""
    query = ("--dialect", "rockit", "--query", "cmap,pmap")
    files = ("--model", ROCKIT / "prog.mln", "--evidence", ROCKIT / "evidence.db")
    used = python(*ONLINESRL, "infer", *query, *files)
    true = re.findall(r"^(\S.*\)) 1$", used.output, re.MULTILINE)
    recorded = (ROCKIT / "output.db").read_text().replace(", ", ",").split("\n")
    assert {*true} == {line for line in recorded if line}
    show(
        "An ontology matching",
        ("", "CPU s", "MB"),
        [("RockIt's example", used.cpu, used.megabytes)],
    )
    assert used.cpu <= 5.0
    assert used.megabytes <= 600.0
