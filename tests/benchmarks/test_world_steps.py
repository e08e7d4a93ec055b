"""The CPU of a step of a world beside that of a cold answer: who trusts whom in Epinions, Bitcoin-OTC."""

import csv
import os
import re
import time
from collections import Counter, deque
from pathlib import Path

import numpy as np
import pytest

import onlinesrl as srl
from tests.benchmarks.measure import show
from tests.support.paths import REPO, SHARED
from tests.support.world_changes import MLN

pytestmark = pytest.mark.benchmark
DATA = SHARED / "data"
RATINGS = """
0.5: Rates(A, B) -> Good(B) ^2
0.5: Warns(A, B) -> !Good(B) ^2
1: Rates(A, B) & Good(A) -> Good(B) ^2
2: Warns(A, B) & Good(A) -> !Good(B) ^2
0.2: !Good(A) ^2
0.1: User(A) -> Good(A) ^2
"""
CHAIN = """
1: Next(A, B) & Wet(A) -> Wet(B) ^2
1: Next(A, B) & Wet(B) -> Wet(A) ^2
0.3: !Wet(A) ^2
2: Rain(A) -> Wet(A) ^2
"""
GOOD = {
    "mln": MLN,
    "psl": """
1: Rates(A, B) & Good(A) -> Good(B) ^2
2: Warns(A, B) & Good(A) -> !Good(B) ^2
0.5: Rates(A, B) -> Good(B) ^2
0.2: !Good(A) ^2
""",
}
YEAR = 365 * 86_400
STEPS = 300


def resident():
    """The memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def timed(work):
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def begun(model, query, facts, targets, times=10):
    """Seconds of a cold answer and of the first step, means with the kernels loaded; the world."""
    srl.infer(model, facts, targets)
    srl.World(model, query).apply(add=facts, query=targets)
    cold = np.mean([timed(lambda: srl.infer(model, facts, targets))[0] for _ in range(times)])
    firsts = []
    for _ in range(times):
        world = srl.World(model, query)
        firsts.append(timed(lambda: world.apply(add=facts, query=targets))[0])  # noqa: B023
    return cold, np.mean(firsts), world


@pytest.mark.skipif(not (DATA / "psl/epinions").exists(), reason="needs the opinions of Epinions")
def test_opinions():
    lines = (DATA / "psl/epinions/trusts.txt").read_text().split("\n")
    fields = [line.split("\t") for line in lines if line]
    opinions = {(one, other): float(value) for one, other, value in fields}
    rng = np.random.default_rng(0)
    pairs = [*opinions]
    hidden = {pairs[n] for n in rng.choice(len(pairs), len(pairs) // 8, replace=False)}
    seen = {pair: value for pair, value in opinions.items() if pair not in hidden}
    model = srl.Model((REPO / "streams/trust/trust.psl").read_text(), "psl")
    facts, targets = {"Knows": [*pairs], "Trusts": seen}, {"Trusts": sorted(hidden)}
    cold, first, world = begun(model, "Trusts", facts, targets)
    asked = [*seen]
    for count in (1, 10, 100):
        times = []
        for _ in range(STEPS // count):
            chosen = [asked[n] for n in rng.choice(len(asked), count, replace=False)]
            seen |= {pair: 1.0 - seen[pair] for pair in chosen}
            change = {"Trusts": {pair: seen[pair] for pair in chosen}}
            seconds, delta = timed(lambda change=change: world.apply(set=change))
            assert delta.certificate.certified
            times.append(seconds / cold)
        row = (count, cold, first / cold, float(np.median(times)), float(np.quantile(times, 0.99)))
        show("A world of Epinions", ("flips a step", "cold, s", "first", "median", "p99"), [row])
    rows = []
    for most in (1e-4, 1e-2, 0.5):
        times = []
        for _ in range(4):
            factors = iter(rng.uniform(1 - most, 1 + most, len(model.rules)).tolist())
            text = re.sub("(?m)^1:", lambda _, w=factors: f"{next(w):.6f}:", model.text)
            other = srl.Model(text, "psl")
            times.append(timed(lambda other=other: world.set_weights(other))[0] / cold)
        assert world.certificate.certified
        rows.append((most, float(np.median(times))))
    show("Other weights in a world of Epinions", ("relative change", "median"), rows)
    world.set_weights(model)
    energy = srl.infer(model, facts | {"Trusts": seen}, targets).stats["objective"]
    assert world.certificate.energy == pytest.approx(energy, rel=2e-6)


@pytest.mark.skipif(not (DATA / "bitcoin_otc").exists(), reason="needs the ratings of Bitcoin-OTC")
def test_ratings_come_and_go():
    """Every rating is a step; it is withdrawn after a year, or by the next of the same pair."""
    with (DATA / "bitcoin_otc/ratings.csv").open() as file:
        ratings = [tuple(map(float, row.values())) for row in csv.DictReader(file)]
    world = srl.World(srl.Model(RATINGS, "psl"), "Good")
    rows, live, mentions, times = [], deque(), Counter(), []
    for number, (one, other, value, now) in enumerate(ratings, 1):
        pair, name = (int(one), int(other)), "Rates" if value > 0 else "Warns"
        old = []
        while live and live[0][2] < now - YEAR:
            old.append(live.popleft())
        before = {user for user, count in mentions.items() if count}
        mentions.subtract(user for passed in old for user in passed[1])
        mentions.update(pair)
        live.append((name, pair, now))
        after = {user for user, count in mentions.items() if count}
        gone, new = sorted(before - after), sorted(after - before)
        remove = {"User": gone, "Good": gone, "Rates": [], "Warns": []}
        for passed in old:
            remove[passed[0]].append(passed[1])
        add = {"User": new, name: {pair: abs(value) / 10}}
        seconds, delta = timed(lambda: world.apply(add=add, remove=remove, query={"Good": new}))  # noqa: B023
        assert delta.certificate.certified
        times.append(seconds)
        if number % 5_000 == 0:
            part = np.array(times[-5_000:]) * 1e3
            row = (
                number,
                len(live),
                len(after),
                float(np.median(part)),
                float(np.quantile(part, 0.99)),
            )
            rows.append(row)
    show("Bitcoin-OTC, a year of ratings", ("ratings", "kept", "users", "median, ms", "p99"), rows)


def test_a_long_chain():
    """The cost of a step does not grow with the world."""
    model = srl.Model(CHAIN, "psl")
    rows = []
    for size in (1_000, 10_000, 100_000):
        world, rng, raining, times = srl.World(model, "Wet"), np.random.default_rng(0), set(), []
        links = [(n, n + 1) for n in range(size - 1)]
        world.apply(add={"Next": links}, query={"Wet": range(size)})
        for _ in range(200):
            place = int(rng.integers(size))
            change = {"remove" if place in raining else "add": {"Rain": [place]}}
            raining ^= {place}
            seconds, delta = timed(lambda: world.apply(**change))  # noqa: B023
            assert delta.certificate.certified
            times.append(1e3 * seconds)
        rows.append((size, float(np.median(times)), float(np.quantile(times, 0.99))))
    show("A chain in which it rains here and there", ("atoms", "median, ms", "p99"), rows)
    assert rows[-1][1] < 3 * rows[0][1]


@pytest.mark.parametrize("kind", GOOD)
def test_facts_by_the_million(kind, tmp_path):
    """Users rate and warn each other in circles of four: by the number of facts, ms a change of each kind."""
    rows, kinds = [], ("assert", "retract", "truth", "new entity")
    for size in (10_000, 100_000, 1_000_000):
        world, rng = srl.World(srl.Model(GOOD[kind], kind), "Good"), np.random.default_rng(0)
        rating = {}
        while len(rating) < size:
            circle, one, other, warns = (
                len(rating) // 4,
                *rng.integers(4, size=2),
                rng.random() < 0.3,
            )
            rating.setdefault(
                (f"{circle} {one}", f"{circle} {other}"), "Warns" if warns else "Rates"
            )
        users = sorted({user for pair in rating for user in pair})
        facts = {name: [p for p, of in rating.items() if of == name] for name in ("Rates", "Warns")}
        before, listed = resident(), kind == "psl"
        begun, _ = timed(lambda: world.apply(add=facts, query={"Good": users} if listed else {}))  # noqa: B023
        row = [kind, size, begun, (resident() - before) / size]
        pairs = [[*rating][n] for n in rng.choice(size, 200, replace=False)]
        changes = {
            "retract": [{"remove": {rating[pair]: [pair]}} for pair in pairs],
            "assert": [{"add": {rating[pair]: [pair]}} for pair in pairs],
            "truth": [{"set": {"Good": {pair[0]: float(n % 2)}}} for n, pair in enumerate(pairs)],
            "new entity": [
                {
                    "add": {"Rates": [(f"new {n}", pair[0])]},
                    "query": {"Good": [f"new {n}"] * listed},
                }
                for n, pair in enumerate(pairs)
            ],
        }
        times = {
            name: [timed(lambda: world.apply(**change))[0] for change in changes[name]]  # noqa: B023
            for name in changes
        }
        row += [1e3 * float(np.median(times[name])) for name in kinds]
        path = tmp_path / "world"
        row += [timed(lambda: world.save(path))[0], timed(lambda: srl.World.load(path))[0]]  # noqa: B023
        rows.append(row)
        head = ("language", "facts", "first, s", "bytes a fact", *kinds, "save, s", "load, s")
        show("A world by its facts, ms a change", head, [row])
    for first, last in zip(rows[0][4:8], rows[-1][4:8], strict=True):
        assert last < 5 * first
