"""Lifted against unlifted ADMM: the friendship graphs of the thesis' figure 3.4, and CiteSeer.

1,000 people, one half with a label as evidence; friendship is 1, or a number with one or four decimals.
"""

import time

import numpy as np
import pytest

from onlinesrl.psl.engines.admm import Admm
from onlinesrl.psl.engines.lifting import lift
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.lang.data import AtomTable, Database, Relation
from onlinesrl.psl.lang.psl import parse
from tests.benchmarks.measure import show
from tests.infer.hinge_models import PSL, psl_case

pytestmark = pytest.mark.benchmark
PEOPLE = 1000
EDGES = [10_000, 50_000, 100_000, 200_000, 500_000]
DECIMALS = {"binary": 0, "one decimal": 1, "four decimals": 4}
RULES = """
1: Friend(A, B) & Smokes(A) -> Smokes(B) ^2
1: Friend(A, B) & !Smokes(A) -> !Smokes(B) ^2
"""
HEAD = ("model", "size", "lifted", "share", "solve", "lift", "solve lifted", "speed-up")


def friendship(edges: int, decimals: int):
    random = np.random.default_rng(0)
    place = random.choice(PEOPLE * (PEOPLE - 1), edges, replace=False)
    a, b = place // (PEOPLE - 1), place % (PEOPLE - 1)
    pairs = np.stack((a, b + (b >= a))).astype(np.int32)
    values = np.round(random.random(edges), decimals) if decimals else np.ones(edges)
    people = random.permutation(PEOPLE).astype(np.int32)
    known, hidden = people[None, : PEOPLE // 2], people[None, PEOPLE // 2 :]
    labels = random.integers(2, size=known.shape[1]).astype(float)
    none = {arity: AtomTable(np.empty((arity, 0), np.int32), np.empty(0)) for arity in (1, 2)}
    relations = {
        "Friend": Relation(AtomTable(pairs, values), none[2], none[2]),
        "Smokes": Relation(
            AtomTable(known, labels), AtomTable(hidden, np.full(hidden.shape[1], np.nan)), none[1]
        ),
    }
    database = Database(tuple(map(str, range(PEOPLE))), relations)
    return Grounder(parse(RULES)).ground(database).graphs.model, np.ones(2)


def seconds(work):
    work()
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def compare(name, model, weights):
    whole, unlifted = seconds(lambda: Admm().solve(model, weights))
    lifting, lifted = seconds(lambda: lift(model, weights, None))
    small, solved = seconds(lambda: Admm().solve(lifting.model, lifting.weights))
    assert small.energy == pytest.approx(whole.energy, rel=1e-5)
    size = model.n_variables + model.n_rows
    after = lifting.model.n_variables + lifting.model.n_rows
    speed = unlifted / (lifted + solved)
    return name, f"{size:,}", f"{after:,}", after / size, unlifted, lifted, solved, speed


def test_lifting_friendship():
    rows = [
        compare(f"{edges:,} edges, {name}", *friendship(edges, decimals))
        for name, decimals in DECIMALS.items()
        for edges in EDGES
    ]
    show("Lifting, CPU seconds", HEAD, rows)


@pytest.mark.skipif(not PSL.exists(), reason="needs the cases of PSL")
def test_lifting_citeseer():
    cases = [
        "citeseer",
        "citeseer-learn",
        "smokers-100k-sq",
        "smokers-100k-sq-dec1",
        "smokers-100k-sq-dec4",
    ]
    show("Lifting, CPU seconds", HEAD, [compare(name, *psl_case(name)) for name in cases])
