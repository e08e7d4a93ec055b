"""The CPU of a step of a Markov logic world beside that of a cold answer: topics of CiteSeer, growth."""

import time

import numpy as np
import pytest

import onlinesrl as srl
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


@pytest.mark.skipif(not DATA.exists(), reason="needs the papers of CiteSeer")
@pytest.mark.parametrize("seen", [0.5, 0.8])
def test_topics(seen):
    """A step corrects the topic of a paper that is seen, or takes a link away or puts it back."""
    topic_of, links = dict(rows("citeseer.labels")), rows("citeseer.links")
    rng = np.random.default_rng(0)
    topics = sorted({*topic_of.values()})
    priors = [f"0.{name} Has(x, {name})" for name in topics]
    rule = "1.0 Link(x, y) ^ Has(x, t) => Has(y, t)"
    header = [f"topic = {{{', '.join(topics)}}}", "Link(paper, paper)", "Has(paper, topic!)"]
    text = "\n".join([*header, rule, *priors])
    observed = [("Has", (p, t)) for p, t in sorted(topic_of.items()) if rng.random() < seen]
    facts = {("Link", link): 1.0 for link in links} | dict.fromkeys(observed, 1.0)
    model = srl.Model(text)

    def cold():
        evidence = {}
        for name, row in facts:
            evidence.setdefault(name, []).append([*row])
        return srl.infer(model, evidence, "Has")

    cold()  # loads the kernels
    seconds = float(np.median([timed(cold)[0] for _ in range(5)]))
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
