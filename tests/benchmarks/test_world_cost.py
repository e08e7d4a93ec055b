"""The CPU of a step of a world beside that of a cold answer, ``srl.infer`` on the same facts."""

import csv
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.query.incremental_world import MlnWorld
from tests.benchmarks.measure import show, sizes, timed
from tests.support.paths import REPO, SHARED
from tests.support.world_changes import MLN

DATA = SHARED / "data"
Row = tuple[str, ...]
Facts = dict[str, dict[Row, float]]
Change = Callable[[np.random.Generator, int], dict[str, Any]]
"""Makes a change of so many facts, for ``World.apply``."""
PSL_GOOD = """
1: Rates(A, B) & Good(A) -> Good(B) ^2
2: Warns(A, B) & Good(A) -> !Good(B) ^2
0.5: Rates(A, B) -> Good(B) ^2
0.2: !Good(A) ^2
"""
PSL_CHAIN = """
1: Next(A, B) & Wet(A) -> Wet(B) ^2
1: Next(A, B) & Wet(B) -> Wet(A) ^2
0.3: !Wet(A) ^2
2: Rain(A) -> Wet(A) ^2
"""
MLN_CHAIN = """
Next(p, p)
Wet(p)
Rain(p)
1.0 Next(x, y) ^ Wet(x) => Wet(y)
0.7 Next(x, y) ^ Wet(y) => Wet(x)
-0.4 Wet(x)
1.3 Rain(x) => Wet(x)
"""
BUDGET = """
1: Asks(A) -> Gets(A) ^2
0.1: !Gets(A) ^2
Gets(+A) <= 500 .
"""
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


class Case(NamedTuple):
    """A model, its facts, which changes keep up to date, PSL's targets, and changes by what they are."""

    model: srl.Model
    query: str
    facts: Facts
    targets: list[Row] | None
    changes: dict[str, Change]

    def infer(self) -> srl.Answer:
        asked = self.query if self.targets is None else {self.query: self.targets}
        return srl.infer(self.model, self.facts, asked)

    def world(self) -> tuple[float, srl.World]:
        """Return the CPU seconds of the first step of a new world, and the world."""
        world = srl.World(self.model, self.query)
        query = {} if self.targets is None else {self.query: self.targets}
        return timed(lambda: world.apply(add=self.facts, query=query))[0], world


def file(path: str) -> Path:
    if not (DATA / path).exists():
        pytest.skip(f"needs {path}")
    return DATA / path


def columns(path: str) -> list[Row]:
    return [tuple(line.split()) for line in file(path).read_text().splitlines()]


def numbers(*rows: Row) -> dict[Row, float]:
    """Return rows whose last column is their value."""
    return {row[:-1]: float(row[-1]) for row in rows}


# changes -----------------------------------------------------------------------------------------


def toggles(facts: Facts, *names: str) -> Change:
    """Facts of some predicates go, and those that went come back."""
    rows = [(name, row) for name in names for row in facts[name]]

    def change(rng: np.random.Generator, count: int) -> dict[str, Any]:
        step: dict[str, dict[str, list[Row]]] = {"add": {}, "remove": {}}
        for n in rng.choice(len(rows), min(count, len(rows)), replace=False):
            name, row = rows[n]
            part = "add" if facts[name].pop(row, None) is None else "remove"
            if part == "add":
                facts[name][row] = 1.0
            step[part].setdefault(name, []).append(row)
        return step

    return change


def corrections(facts: Facts, name: str, flip: bool = False) -> Change:
    """Facts get other values: 1 less the old one, or random ones."""
    rows = [*facts[name]]

    def change(rng: np.random.Generator, count: int) -> dict[str, Any]:
        chosen = [rows[n] for n in rng.choice(len(rows), min(count, len(rows)), replace=False)]
        values = {row: 1.0 - facts[name][row] if flip else rng.random() for row in chosen}
        facts[name] |= values
        return {"set": {name: values}}

    return change


def replacements(facts: Facts, name: str, others: list[str]) -> Change:
    """Facts get another last argument."""

    def change(rng: np.random.Generator, count: int) -> dict[str, Any]:
        rows = [*facts[name]]
        old = [rows[n] for n in rng.choice(len(rows), min(count, len(rows)), replace=False)]
        new = [
            (*row[:-1], rng.choice([other for other in others if other != row[-1]])) for row in old
        ]
        for row in old:
            del facts[name][row]
        facts[name] |= dict.fromkeys(new, 1.0)
        return {"remove": {name: old}, "add": {name: new}}

    return change


# worlds ------------------------------------------------------------------------------------------


def chain(people: int, soft: bool) -> Case:
    """One component: it rains here and there."""
    names, rng = [(f"{n}",) for n in range(people)], np.random.default_rng(0)
    links = [(one, other) for (one,), (other,) in pairwise(names)]
    facts: Facts = {"Next": dict.fromkeys(links, 1.0)}
    facts["Rain"] = {names[n]: 1.0 for n in rng.choice(people, people // 5, replace=False)}
    model = srl.Model(PSL_CHAIN, "psl") if soft else srl.Model(MLN_CHAIN)
    return Case(model, "Wet", facts, names if soft else None, {"rain": toggles(facts, "Rain")})


def circles(people: int) -> Case:
    """Friends in circles of ten, some of whom cough."""
    text = "Knows(p, p)\nSmokes(p)\nCough(p)\n1.2 Cough(x) => Smokes(x)\n-0.5 Smokes(x)\n"
    model = srl.Model(text + "0.8 Knows(x, y) ^ Smokes(x) => Smokes(y)\n")
    knows = [(f"{n}", f"{n // 10 * 10 + (n + 1) % 10}") for n in range(people)]
    facts: Facts = {"Knows": dict.fromkeys(knows, 1.0), "Cough": {(one,): 1.0 for one, _ in knows}}
    return Case(model, "Smokes", facts, None, {"cough": toggles(facts, "Cough")})


def budget(people: int) -> Case:
    """All share a budget, so that each change may move all of them."""
    names, rng = [(f"{n}",) for n in range(people)], np.random.default_rng(0)
    facts: Facts = {"Asks": dict(zip(names, rng.random(people).tolist(), strict=True))}
    model = srl.Model(BUDGET, "psl")
    return Case(model, "Gets", facts, names, {"wish": corrections(facts, "Asks")})


def epinions(most: int) -> Case:
    """Opinions flip: who trusts whom."""
    opinions = numbers(*columns("psl/epinions/trusts.txt")[:most])
    rng, pairs = np.random.default_rng(0), [*opinions]
    hidden = {pairs[n] for n in rng.choice(len(pairs), len(pairs) // 8, replace=False)}
    trusts = {pair: value for pair, value in opinions.items() if pair not in hidden}
    facts: Facts = {"Knows": dict.fromkeys(pairs, 1.0), "Trusts": trusts}
    model = srl.Model((REPO / "streams/trust/trust.psl").read_text(), "psl")
    changes = {"opinions": corrections(facts, "Trusts", flip=True)}
    return Case(model, "Trusts", facts, sorted(hidden), changes)


def jester(most: int) -> Case:
    """Ratings are corrected; jokes of similar texts are liked alike."""
    users = [str(n) for n in range(1001, 1001 + min(most, 300))]
    rows = columns("psl/jester/jester-1-te-obs-0.txt")
    seen = numbers(*(row for row in rows if row[0] in users))
    jokes = sorted({joke for _, joke in seen})
    similar = [row[:2] for row in columns("psl/jester/jokeTextSim.txt")]
    mean = {(i,): float(np.mean([v for (_, j), v in seen.items() if i == j])) for i in jokes}
    facts: Facts = {"Likes": seen, "Mean": mean, "Similar": dict.fromkeys(similar, 1.0)}
    facts["User"] = {(user,): 1.0 for user in users}
    targets = [(user, joke) for user in users for joke in jokes if (user, joke) not in seen]
    changes = {"ratings": corrections(facts, "Likes")}
    return Case(srl.Model(JOKES, "psl"), "Likes", facts, targets, changes)


def citeseer(most: int, seen: float = 0.5) -> Case:
    """The topic of a paper that is seen is corrected, or a link goes or comes."""
    topic_of, links = (
        columns("psl/citeseer/citeseer.labels"),
        columns("psl/citeseer/citeseer.links"),
    )
    rng, topics = np.random.default_rng(0), sorted({topic for _, topic in topic_of})
    header = [f"topic = {{{', '.join(topics)}}}", "Link(paper, paper)", "Has(paper, topic!)"]
    rules = ["1.0 Link(x, y) ^ Has(x, t) => Has(y, t)", *(f"0.{t} Has(x, {t})" for t in topics)]
    has = [row for row in sorted(topic_of)[:most] if rng.random() < seen]
    facts: Facts = {"Link": dict.fromkeys(links[:most], 1.0), "Has": dict.fromkeys(has, 1.0)}
    changes = {"topics": replacements(facts, "Has", topics), "links": toggles(facts, "Link")}
    return Case(srl.Model("\n".join([*header, *rules])), "Has", facts, None, changes)


def database(folder: str, text: str, query: str, names: str, most: int) -> Case:
    """Facts of a database go and come."""
    model, facts = srl.Model(text), Facts()
    for line in file(f"{folder}/fold1.db").read_text().splitlines():
        match = re.fullmatch(r"(\w+)\((.*)\)", line.strip())
        if match and match[1] in model.program.predicates and match[1] != query:
            rows = facts.setdefault(match[1], {})
            if len(rows) < most:
                rows[tuple(match[2].split(","))] = 1.0
    return Case(model, query, facts, None, {"facts": toggles(facts, *names.split())})


def cora(most: int) -> Case:
    """Which titles, authors and venues are the same, and so which papers."""
    return database("cora_er", PAPERS, "Samebib", "Sameauthor Sametitle Samevenue", most)


def webkb(most: int) -> Case:
    """Who teaches what, and so who is faculty."""
    return database("webkb", FACULTY, "Faculty", "Courseprof Courseta Project Student", most)


def caviar(most: int) -> Case:
    """When two people meet: events are withdrawn and arrive again, in one component."""
    folder = file("caviar_goldens/MM_SI/fold_0")
    [example] = srl.read(folder / "21-Meet_WalkSplit.id1_id3.db")
    facts: Facts = {
        name: {tuple(map(str, row)): 1.0 for row in rows[:most]}  # type: ignore[union-attr]
        for name, rows in example.evidence.items()
    }
    model = srl.Model((folder / "meet_trained_func.mln").read_text())
    return Case(model, "HoldsAt", facts, None, {"events": toggles(facts, "Happens")})


WORLDS: dict[str, Callable[[int], Case]] = {
    "budget": budget,
    "Epinions": epinions,
    "Jester": jester,
    "CiteSeer, 1/5 seen": lambda most: citeseer(most, 0.2),
    "CiteSeer, 1/2 seen": citeseer,
    "CiteSeer, 4/5 seen": lambda most: citeseer(most, 0.8),
    "Cora": cora,
    "WebKB": webkb,
    "CAVIAR": caviar,
}


@pytest.mark.parametrize("name", WORLDS)
@sizes("most, steps, counts", (10, 2, (1, 3)), (10_000, 100, (1, 10, 100)))
def test_steps_beside_a_cold_answer(
    name: str, most: int, steps: int, counts: tuple[int, ...]
) -> None:
    case, rows = WORLDS[name](most), []
    case.infer(), case.world()  # loads the kernels
    cold, firsts = [], []
    for _ in range(1 if steps < 10 else 5):
        cold.append(timed(case.infer)[0])
        first, world = case.world()
        firsts.append(first)
    answer, rng = float(np.median(cold)), np.random.default_rng(0)
    for kind, change in case.changes.items():
        for count in counts:
            times = []
            for _ in range(steps):
                step = change(rng, count)
                seconds, delta = timed(lambda: world.apply(**step))  # noqa: B023
                assert delta.certificate.certified
                times.append(seconds / answer)
            quantiles = np.quantile(times, [0.5, 0.99]).tolist()
            rows.append((f"{count} {kind}", answer, float(np.median(firsts)) / answer, *quantiles))
    show(f"A world: {name}", ("changes a step", "cold, s", "first", "median", "p99"), rows)
    _, again = case.world()
    assert again.certificate.score == pytest.approx(world.certificate.score, rel=2e-6, abs=1e-6)


@sizes("most", 10, 10_000)
def test_models_and_marginals_of_citeseer(most: int) -> None:
    """Weights and rules change, probabilities are asked for, a topic is refused; half of them are seen."""
    case = citeseer(most)
    case.infer()
    cold, (first, world), text = timed(case.infer)[0], case.world(), case.model.text
    rule = "\n0.3 Link(x, y) ^ Has(x, 1) => Has(y, 2)"
    values = world.answer()["Has"]
    likely = next(row for row, value in values.items() if value)
    other = next(row for row, value in values.items() if row[0] == likely[0] and not value)

    def refused() -> None:
        with pytest.raises(Infeasible, match="exactly one Has"):
            world.apply(add={"Has": [other]})

    world.marginals()
    works: dict[str, Callable[[], object]] = {
        "weights": lambda: world.set_weights(text.replace("1.0 Link", "1.1 Link")),
        "rule comes": lambda: world.set_model(text + rule),
        "rule goes": lambda: world.set_model(text),
        "marginals": world.marginals,
        "topic": lambda: world.apply(add={"Has": [likely]}),
        "marginals after it": world.marginals,
        "explanation": lambda: world.explain(("Has", [*values][-1])),
        "refused": refused,
    }
    seconds = {"first": first} | {name: timed(work)[0] for name, work in works.items()}
    table = [(name, each / cold) for name, each in seconds.items()]
    show("Models of CiteSeer", ("step", f"of {cold:.2f} s"), table)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("chain, PSL", lambda people: chain(people, soft=True)),
        ("chain", lambda people: chain(people, soft=False)),
        ("circles", circles),
    ],
)
@sizes("people, steps, most", ((20, 30), 2, 1e9), ((1_000, 10_000, 100_000), 200, 3.0))
def test_growth(
    name: str, make: Callable[[int], Case], people: tuple[int, ...], steps: int, most: float
) -> None:
    """A step costs the same in a world of any size, and so does the marginal of one atom after it."""
    rows = []
    for size in people:
        case, rng, times = make(size), np.random.default_rng(0), []
        first, world = case.world()
        [change] = case.changes.values()
        for _ in range(steps):
            step = change(rng, 1)
            works = [lambda: world.apply(**step)]  # noqa: B023
            if case.targets is None:
                atom = next((case.query, row) for rows in step.values() for [row] in rows.values())
                works += [lambda: world.marginals(atom), world.marginals]  # noqa: B023
            times.append([1e3 * timed(work)[0] for work in works])
        assert world.certificate.certified
        rows.append((f"{size:,}", first, *np.median(times, axis=0).tolist()))
    head = ("atoms", "first, s", "step, ms", "marginal of the atom", "of all")
    show(f"Worlds by their size: {name}", head[: len(rows[0])], rows)
    assert rows[-1][2] < most * rows[0][2]


@sizes("circles, steps, most", ((5, 20), 3, 1e9), ((250, 2_500, 25_000), 200, 3.0))
def test_growth_of_the_best_states(circles: tuple[int, ...], steps: int, most: float) -> None:
    """After a step the five best states cost the same in a world of any size."""
    rows = []
    for size in circles:
        rng, world, times = np.random.default_rng(0), MlnWorld(parse(MLN), ["Good"]), []
        facts = {
            ("Rates", tuple(f"{n} {x}" for x in rng.integers(4, size=2))): 1.0
            for n in np.repeat(np.arange(size), 3)
        }
        first = timed(lambda: world.apply(facts))[0]  # noqa: B023
        ranked = timed(lambda: world.best_states(5))[0]  # noqa: B023
        for n in rng.integers(size, size=steps):
            step = {("Warns", (f"{n} 0", f"{n} 1")): 1.0}
            works = [lambda: world.apply(step), lambda: world.best_states(5)]  # noqa: B023
            times.append([1e3 * timed(work)[0] for work in works])
        assert world.certificate.certified
        rows.append((f"{len(dict(world.values())):,}", first, ranked, *np.median(times, axis=0)))
    head = ("atoms", "first, s", "best states, s", "step, ms", "best states, ms")
    show("The five best states by the size of the world", head, rows)
    assert rows[-1][-1] < most * rows[0][-1]


def resident() -> float:
    """The memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("kind", ["mln", "psl"])
@sizes("facts, times", ((20, 40), 2), ((10_000, 100_000, 1_000_000), 200))
def test_facts_by_the_million(
    kind: str, facts: tuple[int, ...], times: int, tmp_path: Path
) -> None:
    """Users rate and warn each other in circles of four; median milliseconds of a change of each kind."""
    soft, rows = kind == "psl", []
    model = srl.Model(PSL_GOOD if soft else MLN, kind)
    for size in facts:
        rng, rating = np.random.default_rng(0), dict[Row, str]()
        while len(rating) < size:
            pair = (f"{len(rating) // 4} {n}" for n in rng.integers(4, size=2))
            rating.setdefault(tuple(pair), "Warns" if rng.random() < 0.3 else "Rates")
        given = {name: [p for p, of in rating.items() if of == name] for name in ("Rates", "Warns")}
        users = sorted({user for pair in rating for user in pair})
        world, before = srl.World(model, "Good"), resident()
        first, _ = timed(lambda: world.apply(add=given, query={"Good": users * soft}))  # noqa: B023
        memory = (resident() - before) / size
        pairs = [[*rating][n] for n in rng.choice(size, times, replace=False)]
        changes = {
            "retract": [{"remove": {rating[pair]: [pair]}} for pair in pairs],
            "assert": [{"add": {rating[pair]: [pair]}} for pair in pairs],
            "truth": [{"set": {"Good": {pair[0]: float(n % 2)}}} for n, pair in enumerate(pairs)],
            "new entity": [
                {"add": {"Rates": [(f"new {n}", pair[0])]}, "query": {"Good": [f"new {n}"] * soft}}
                for n, pair in enumerate(pairs)
            ],
        }
        cells = [
            1e3 * float(np.median([timed(lambda: world.apply(**change))[0] for change in of]))  # noqa: B023
            for of in changes.values()
        ]
        path = tmp_path / "world"
        kept = [timed(work)[0] for work in (lambda: world.save(path), lambda: srl.World.load(path))]  # noqa: B023
        rows.append((f"{size:,}", first, memory, *cells, *kept))
    head = ("facts", "first, s", "bytes a fact", *changes, "save, s", "load, s")
    show(f"A world by its facts, {kind}, ms a change", head, rows)


def ratings() -> Iterator[tuple[str, Row, float]]:
    """Yield who rates whom, and by how much, over and over, or a hundred made ones."""
    path = DATA / "bitcoin_otc/ratings.csv"
    if path.exists():
        with path.open() as rows:
            read = [(*row.values(),) for row in csv.DictReader(rows)]
    else:
        rng = np.random.default_rng(0)
        read = [(*map(str, rng.integers(10, size=2)), str(n % 3 - 1), "0") for n in range(100)]
    for one, other, value, _ in cycle(read):
        name = "Rates" if float(value) > 0 else "Warns"
        yield name, (one, other), abs(float(value)) / 10


@sizes("arrivals, batch, kept", (40, 10, 20), (35_592, 1, 10_000), (110_000, 10, 10_000))
def test_arrivals_and_retractions_balance(arrivals: int, batch: int, kept: int) -> None:
    """Ratings of Bitcoin-OTC come, and the oldest go, where more than so many are kept."""
    stream = [*islice(ratings(), arrivals)]
    users = sorted({user for _, pair, *_ in stream for user in pair})
    world = srl.World(srl.Model(PSL_GOOD, "psl"), "Good")
    world.apply(query={"Good": users})
    live, times, rows = deque[tuple[str, Row]](), list[float](), []
    for number in range(0, arrivals, batch):
        new: Facts = {"Rates": {}, "Warns": {}}
        old: dict[str, list[Row]] = {"Rates": [], "Warns": []}
        for name, pair, value in stream[number : number + batch]:
            if (name, pair) not in live:
                live.append((name, pair))
                new[name][pair] = value
        while len(live) > kept:
            name, pair = live.popleft()
            if new[name].pop(pair, None) is None:
                old[name].append(pair)
        seconds, delta = timed(lambda: world.apply(add=new, remove=old))  # noqa: B023
        assert delta.certificate.certified
        times.append(1e3 * seconds)
        if (number + batch) % (arrivals // 5) < batch:
            part = np.quantile(times[len(times) // 2 :], [0.5, 0.99]).tolist()
            rows.append((f"{number + batch:,}", len(live), *part, resident() / 1e6))
    head = ("arrivals", "ratings", "step, ms", "p99", "MB")
    show(f"Ratings that come and go by {batch}", head, rows)
    assert kept < 100 or rows[-1][-1] < 1.1 * rows[1][-1]
