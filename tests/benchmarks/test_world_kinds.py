"""Steps of worlds of several kinds beside cold answers: Jester, Cora, CAVIAR, a global constraint; memory."""

import csv
import re
from collections import deque
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pytest

import onlinesrl as srl
from tests.benchmarks.measure import show
from tests.benchmarks.test_world_steps import DATA, RATINGS, begun, timed

pytestmark = pytest.mark.benchmark
HEAD = ("changes a step", "cold, s", "first", "median", "p99")
JOKES = """
1: Similar(I, J) & Likes(U, I) -> Likes(U, J) ^2
1: Similar(I, J) & Likes(U, J) -> Likes(U, I) ^2
0.3: Mean(I) & User(U) -> Likes(U, I) ^2
0.3: Likes(U, I) -> Mean(I) ^2
"""
PAPERS = """
Author(paper, auth)
Title(paper, title)
Venue(paper, venue)
Sameauthor(auth, auth)
Sametitle(title, title)
Samevenue(venue, venue)
Samebib(paper, paper)
1.5 Title(p, t) ^ Title(q, u) ^ Sametitle(t, u) => Samebib(p, q)
0.8 Author(p, a) ^ Author(q, b) ^ Sameauthor(a, b) => Samebib(p, q)
0.8 Venue(p, v) ^ Venue(q, w) ^ Samevenue(v, w) => Samebib(p, q)
2 Samebib(p, q) => Samebib(q, p)
-1.2 Samebib(p, q)
"""
FACULTY = """
Courseprof(course, person)
Courseta(course, person)
Project(proj, person)
Student(person)
Faculty(person)
-0.5 Faculty(p)
2 Courseprof(c, p) => Faculty(p)
-1 Courseta(c, p) ^ Faculty(p)
-3 Student(p) ^ Faculty(p)
0.3 Project(j, p) ^ Project(j, q) ^ Faculty(p) ^ p != q => Faculty(q)
0.5 Courseprof(c, p) ^ Courseta(c, q) ^ Faculty(p) => !Faculty(q)
"""
DATABASES = [
    ("cora_er", PAPERS, "Samebib", ("Sameauthor", "Sametitle", "Samevenue")),
    ("webkb", FACULTY, "Faculty", ("Courseprof", "Courseta", "Project", "Student")),
]
BUDGET = """
1: Asks(A) -> Gets(A) ^2
0.1: !Gets(A) ^2
Gets(+A) <= 500 .
"""


def row(count, cold, first, times):
    return count, cold, first / cold, float(np.median(times)), float(np.quantile(times, 0.99))


def rated(name, users):
    lines = (line.split("\t") for line in (DATA / "psl/jester" / name).read_text().splitlines())
    return {(user, joke): float(value) for user, joke, value in lines if user in users}


@pytest.mark.skipif(not (DATA / "psl/jester").exists(), reason="needs the ratings of Jester")
def test_jokes():
    """Ratings of 300 users are corrected; jokes of similar texts are liked alike."""
    users = {str(n) for n in range(1001, 1301)}
    seen, hidden = rated("jester-1-te-obs-0.txt", users), rated("jester-1-te-uno-0.txt", users)
    lines = (DATA / "psl/jester/jokeTextSim.txt").read_text().splitlines()
    jokes = sorted({joke for _, joke in seen})
    mean = {(i,): np.mean([value for (_, j), value in seen.items() if i == j]) for i in jokes}
    facts = {
        "Likes": seen,
        "Similar": [tuple(line.split("\t")[:2]) for line in lines],
        "Mean": mean,
        "User": sorted(users),
    }
    targets = {"Likes": sorted((u, i) for u in users for i in jokes if (u, i) not in seen)}
    assert hidden.keys() <= {*targets["Likes"]}
    model, rng, rows, asked = srl.Model(JOKES, "psl"), np.random.default_rng(0), [], [*seen]
    cold, first, world = begun(model, "Likes", facts, targets, 3)
    for count in (1, 10, 100):
        times = []
        for _ in range(100):
            chosen = [asked[n] for n in rng.choice(len(asked), count, replace=False)]
            change = {"Likes": {pair: float(rng.random()) for pair in chosen}}
            seconds, delta = timed(lambda change=change: world.apply(set=change))
            assert delta.certificate.certified
            times.append(seconds / cold)
        rows.append(row(count, cold, first, times))
    show("Jester, 300 users", HEAD, rows)


@pytest.mark.parametrize(("folder", "text", "query", "changing"), DATABASES)
def test_databases(folder, text, query, changing):
    """Facts of a database go and come: which titles are the same in Cora, who teaches what in WebKB."""
    if not (DATA / folder).exists():
        pytest.skip(f"needs the databases of {folder}")
    facts, model = {}, srl.Model(text)
    for line in (DATA / folder / "fold1.db").read_text().splitlines():
        match = re.fullmatch(r"(\w+)\((.*)\)", line.strip())
        if match and match[1] in model.program.predicates and match[1] != query:
            facts.setdefault(match[1], {})[tuple(match[2].split(","))] = 1.0
    cold = np.mean([timed(lambda: srl.infer(model, facts, query))[0] for _ in range(4)][1:])
    world, rng, rows = srl.World(model, query), np.random.default_rng(0), []
    first, _ = timed(lambda: world.apply(add=facts))
    pairs = [(name, pair) for name in changing for pair in facts[name]]
    present = dict.fromkeys(pairs, True)
    for count in (1, 10, 100):
        times = []
        for _ in range(20):
            change = {"add": {}, "remove": {}}
            for n in rng.choice(len(pairs), count, replace=False):
                name, pair = pairs[n]
                part = change["remove" if present[pairs[n]] else "add"]
                part.setdefault(name, []).append(pair)
                present[pairs[n]] ^= True
            seconds, delta = timed(lambda change=change: world.apply(**change))
            assert delta.certificate.certified
            times.append(seconds / cold)
        rows.append(row(count, cold, first, times))
    show(f"{folder}, {len(world.answer()[query]):,} open atoms", HEAD, rows)


EVENTS = DATA / "caviar_goldens/MM_SI/fold_0"


@pytest.mark.skipif(not EVENTS.exists(), reason="needs the golden results of CAVIAR")
def test_events():
    """Events are withdrawn and arrive again, in a world that is one component of 2,492 atoms."""
    model = srl.Model((EVENTS / "meet_trained_func.mln").read_text())
    [example] = srl.read(EVENTS / "21-Meet_WalkSplit.id1_id3.db")
    facts, world, rng, rows = (
        example.evidence,
        srl.World(model, "HoldsAt"),
        np.random.default_rng(0),
        [],
    )
    cold = np.mean([timed(lambda: srl.infer(model, facts, "HoldsAt"))[0] for _ in range(4)][1:])
    first, _ = timed(lambda: world.apply(add=facts))
    for count in (1, 10, 100):
        times = []
        for _ in range(50):
            events = rng.choice(facts["Happens"], count, replace=False).tolist()
            for change in ({"remove": {"Happens": events}}, {"add": {"Happens": events}}):
                seconds, delta = timed(lambda change=change: world.apply(**change))
                assert delta.certificate.certified
                times.append(seconds / cold)
        rows.append(row(count, cold, first, times))
    show("CAVIAR, when two people meet", HEAD, rows)


def test_a_global_constraint():
    """Ten thousand share a budget, so that each change may move all of them."""
    names, rng = range(10_000), np.random.default_rng(0)
    facts = {"Asks": {n: float(rng.random()) for n in names}}
    model, targets = srl.Model(BUDGET, "psl"), {"Gets": names}
    cold, first, world = begun(model, "Gets", facts, targets, 3)
    times = []
    for _ in range(20):
        change = {"Asks": {int(rng.integers(10_000)): float(rng.random())}}
        seconds, delta = timed(lambda change=change: world.apply(set=change))
        assert delta.certificate.certified
        times.append(seconds / cold)
    show("A budget of ten thousand", HEAD, [row(1, cold, first, times)])


@pytest.mark.skipif(not (DATA / "bitcoin_otc").exists(), reason="needs the ratings of Bitcoin-OTC")
def test_memory_where_arrivals_and_retractions_balance():
    """Of the ratings there are always 10,000; ten times as many come, and as many go."""
    with (DATA / "bitcoin_otc/ratings.csv").open() as file:
        lines = [tuple(map(float, line.values())) for line in csv.DictReader(file)]
    ratings = {(int(one), int(other)): value for one, other, value, _ in lines}
    world, size = srl.World(srl.Model(RATINGS, "psl"), "Good"), 10_000
    endless = islice(cycle(ratings.items()), 11 * size)
    users = sorted({user for pair in ratings for user in pair})
    world.apply(add={"User": users}, query={"Good": users})
    live, rows, took = deque(), [], 0.0
    for step in range(11 * size // 10):
        change = {"add": {"Rates": {}, "Warns": {}}, "remove": {"Rates": [], "Warns": []}}
        for pair, value in islice(endless, 10):
            name = "Rates" if value > 0 else "Warns"
            live.append((name, pair))
            change["add"][name][pair] = abs(value) / 10
        while len(live) > size:
            name, pair = live.popleft()
            change["remove"][name].append(pair)
        seconds, delta = timed(lambda change=change: world.apply(**change))
        assert delta.certificate.certified
        took += seconds
        if (10 * step + 10) % (2 * size) == size:
            megabytes = int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
            rows.append((10 * step + 10, len(live), 20 * (step + 1) / took, megabytes))
    head = ("arrivals", "ratings", "changes a second of CPU", "MB")
    show("Ratings that come and go", head, rows)
    assert rows[-1][-1] < 1.1 * rows[1][-1]
