"""The CPU of a step of a Markov logic world beside that of a cold answer: topics of CiteSeer, growth."""

import time
from itertools import pairwise

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.query.incremental_world import MlnWorld
from tests.benchmarks.measure import show
from tests.support.paths import SHARED

pytestmark = pytest.mark.benchmark
DATA = SHARED / "data" / "psl" / "citeseer"
STEPS = 300


def timed(work):
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def rows(name):
    return [tuple(line.split()) for line in (DATA / name).read_text().splitlines()]


def topics_of(seen):
    """The papers of CiteSeer: the topics, the model's text by the weight of its rule, links, topics seen."""
    topic_of, links = dict(rows("citeseer.labels")), rows("citeseer.links")
    rng = np.random.default_rng(0)
    topics = sorted({*topic_of.values()})
    priors = [f"0.{name} Has(x, {name})" for name in topics]
    header = [f"topic = {{{', '.join(topics)}}}", "Link(paper, paper)", "Has(paper, topic!)"]

    def text(weight=1.0):
        rule = f"{weight} Link(x, y) ^ Has(x, t) => Has(y, t)"
        return "\n".join([*header, rule, *priors])

    observed = [("Has", (p, t)) for p, t in sorted(topic_of.items()) if rng.random() < seen]
    return topics, text, links, observed, rng


def cold_of(model, facts):
    """The CPU of a cold answer, the median of five."""
    evidence = {}
    for name, row in facts:
        evidence.setdefault(name, []).append([*row])
    answer = lambda: srl.infer(model, evidence, "Has")  # noqa: E731
    answer()  # loads the kernels
    return float(np.median([timed(answer)[0] for _ in range(5)]))


@pytest.mark.skipif(not DATA.exists(), reason="needs the papers of CiteSeer")
@pytest.mark.parametrize("seen", [0.2, 0.5, 0.8])
def test_topics(seen):
    """A step corrects the topic of a paper that is seen, or takes a link away or puts it back."""
    topics, text_of, links, observed, rng = topics_of(seen)
    text = text_of()
    facts = {("Link", link): 1.0 for link in links} | dict.fromkeys(observed, 1.0)
    seconds = cold_of(srl.Model(text), facts)
    world = MlnWorld(parse(text), ["Has"])
    first, _ = timed(lambda: world.apply(facts))
    times = {"topic": [], "link": []}
    for number in range(STEPS):
        if number % 2:
            place = int(rng.integers(len(observed)))
            old, topic = observed[place], topics[rng.integers(len(topics))]
            observed[place] = ("Has", (old[1][0], topic))
            change = {old: None} | {observed[place]: 1.0}
        else:
            link = ("Link", links[rng.integers(len(links))])
            change = {link: None if world.fact(link) else 1.0}
        took, _ = timed(lambda change=change: world.apply(change))
        times["topic" if number % 2 else "link"].append(took / seconds)
        facts = {a: value for a, value in (facts | change).items() if value is not None}
    for size in (10, 100):
        times[f"{size} topics"] = []
        for _ in range(30):
            change = {}
            for place in rng.choice(len(observed), size, replace=False):
                old = observed[place]
                observed[place] = ("Has", (old[1][0], topics[rng.integers(len(topics))]))
                change |= {old: None, observed[place]: 1.0}
            took, _ = timed(lambda change=change: world.apply(change))
            times[f"{size} topics"].append(took / seconds)
            facts = {a: value for a, value in (facts | change).items() if value is not None}
    assert world.certificate.certified
    columns = ("change", "seen", "cold, s", "first", "median", "p99")
    table = [
        (kind, seen, seconds, first / seconds, float(np.median(x)), float(np.quantile(x, 0.99)))
        for kind, x in times.items()
    ]
    show("A world of CiteSeer", columns, table)
    again = MlnWorld(parse(text), ["Has"])
    again.apply(facts)
    assert [*again.values()] == [*world.values()]
    assert again.certificate == world.certificate


@pytest.mark.skipif(not DATA.exists(), reason="needs the papers of CiteSeer")
def test_rules():
    """Weights and rules change, probabilities are asked for, a topic is refused; half of them are seen."""
    topics, text, links, observed, _ = topics_of(0.5)
    facts = {("Link", link): 1.0 for link in links} | dict.fromkeys(observed, 1.0)
    seconds, world = cold_of(srl.Model(text()), facts), MlnWorld(parse(text()), ["Has"])
    first, _ = timed(lambda: world.apply(facts))
    more = text() + f"\n0.3 Link(x, y) ^ Has(x, {topics[0]}) => Has(y, {topics[1]})"
    likely = next(atom for atom, value in world.values() if value)
    other = next(atom for atom in world.values() if atom[0][1][0] == likely[1][0] and not atom[1])[
        0
    ]
    world.marginals()
    steps = {
        "weights": lambda: world.set_weights(parse(text(1.1))),
        "weights again": lambda: world.set_weights(parse(text())),
        "rule comes": lambda: world.set_model(parse(more)),
        "rule goes": lambda: world.set_model(parse(text())),
        "marginals": world.marginals,
        "topic": lambda: world.apply({likely: 1.0}),
        "marginals after it": world.marginals,
        "explanation": lambda: world.explain(next(iter(world.values()))[0]),
    }
    table = [("first", first / seconds)]
    table += [(name, timed(step)[0] / seconds) for name, step in steps.items()]

    def refused():
        with pytest.raises(Infeasible, match="exactly one Has"):
            world.apply({other: 1.0})

    table.append(("refused", timed(refused)[0] / seconds))
    show("Rules of CiteSeer", ("step", f"of {seconds:.2f} s"), table)


@pytest.mark.parametrize("atoms", [1_000, 10_000, 100_000])
def test_chain(atoms):
    """One component: a fact about one of its atoms comes or goes; its marginal is asked for, then all."""
    text = """
Next(p, p)
Wet(p)
Rain(p)
1.0 Next(x, y) ^ Wet(x) => Wet(y)
0.7 Next(x, y) ^ Wet(y) => Wet(x)
-0.4 Wet(x)
1.3 Rain(x) => Wet(x)
"""
    rng, names = np.random.default_rng(0), [str(n) for n in range(atoms)]
    facts = {("Next", pair): 1.0 for pair in pairwise(names)}
    facts |= {("Rain", (names[n],)): 1.0 for n in rng.choice(atoms, atoms // 5, replace=False)}
    world, times = MlnWorld(parse(text), ["Wet"]), []
    first = [timed(lambda: world.apply(facts))[0], timed(world.marginals)[0]]
    for _ in range(10):
        place = (names[rng.integers(atoms)],)
        change = {("Rain", place): None if world.fact(("Rain", place)) else 1.0}
        work = (
            lambda change=change: world.apply(change),
            lambda place=place: world.marginals([("Wet", place)]),
            world.marginals,
        )
        times.append([timed(one)[0] for one in work])
    assert world.certificate.certified
    head = ("atoms", "first, s", "first marginals", "step", "marginal of one", "of all")
    show("A chain", head, [(atoms, *first, *np.median(times, axis=0).tolist())])


def test_growth():
    """Ten friends a circle: a step costs the same among ten times as many circles."""
    text = "Knows(p, p)\nSmokes(p)\nCough(p)\n1.2 Cough(x) => Smokes(x)\n-0.5 Smokes(x)\n"
    program = parse(text + "0.8 Knows(x, y) ^ Smokes(x) => Smokes(y)\n")
    table = []
    for circles in (100, 1000):
        world = MlnWorld(program, ["Smokes"])
        knows = [(f"{c}_{n}", f"{c}_{(n + 1) % 10}") for c in range(circles) for n in range(10)]
        world.apply({("Knows", pair): 1.0 for pair in knows})
        rng, times = np.random.default_rng(0), []
        for _ in range(STEPS):
            atom = ("Cough", (knows[rng.integers(len(knows))][0],))
            change = {atom: None if world.fact(atom) else 1.0}
            times.append(timed(lambda change=change, world=world: world.apply(change))[0])
        table.append((10 * circles, 1e3 * float(np.median(times))))
    show("Steps of worlds of two sizes", ("people", "median, ms"), table)
    assert table[1][1] < 3 * table[0][1]
