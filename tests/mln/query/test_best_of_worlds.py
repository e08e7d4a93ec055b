"""The n best states of a world after any history, against enumeration and against a cold world."""

from dataclasses import replace
from heapq import nlargest
from random import Random

import numpy as np
import pytest
from conftest import tiers
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.inference import best_states as best_states_module
from onlinesrl.mln.inference.branch_and_bound import Search
from onlinesrl.mln.inference.brute_force import MAX_ATOMS, state_scores
from onlinesrl.mln.inference.protocols import Wide
from onlinesrl.mln.inference.registry import map_engine
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.query.incremental_world import MlnWorld
from tests.support.fact_changes import CASES, begin_of, breaks, changes, pool_of, world_of
from tests.support.families import ENUMERATED, FAMILIES, case
from tests.support.naive_grounder import model


def by_enumeration(world):
    """The best score of each state of the open atoms, which are given too."""
    soft = {
        x: n * dict(x.clause.table or ()).get(x.key, x.clause.weight)
        for x, n in world.soft().items()
    }
    ground, weight, atoms = model(world, soft)
    if ground.n_atoms > MAX_ATOMS - 7:
        return None
    places = {atom: a for a, atom in enumerate(atoms) if world.atoms[atom] is None}
    best, scores = {}, state_scores(ground, weight, None)
    for number in np.flatnonzero(scores > -np.inf).tolist():
        key = tuple(number >> (ground.n_atoms - 1 - a) & 1 for a in places.values())
        best[key] = max(best.get(key, -np.inf), scores[number])
    return [*places], best


def check(world, n, atoms, expected):
    """The states that a world lists are the ``n`` best of those that are ``expected``, by their atoms."""
    values, others = dict(world.values()), world.best_states(n)
    assert (dict(world.values()), len(others)) == (values, min(n, len(expected)) - 1)
    states = [values, *({**values, **other.values} for other in others)]
    keys = [tuple(int(state[atom]) for atom in atoms) for state in states]
    assert len({*keys}) == len(keys)
    scores = nlargest(n, expected.values())
    assert [expected[key] for key in keys] == pytest.approx(scores, abs=1e-6)
    for other, key in zip(others, keys[1:], strict=True):
        assert other.certified
        assert other.difference == pytest.approx(scores[0] - expected[key], abs=1e-6)
        assert other.rank == 1 + sum(score > expected[key] + 1e-9 for score in scores)
        assert all(x != values[atom] for atom, x in other.values.items())
    return others


@given(CASES, st.data())
def test_after_every_step_those_of_enumeration_and_of_a_cold_world(case, data):
    listed, n = data.draw(st.booleans()), data.draw(st.integers(2, 7))
    try:
        world, facts = MlnWorld(case.program, case.query, listed), {}
    except Infeasible:
        return
    pool = pool_of(case, listed)
    for number in range(4):
        change = changes(data.draw, pool, facts) if number else begin_of(case, listed)
        try:
            world.apply(change)
        except Infeasible:
            pass
        else:
            facts = {a: value for a, value in (facts | change).items() if value is not None}
        defined = world_of(case, facts, listed)
        enumerated = None if breaks(defined) else by_enumeration(defined)
        if enumerated is not None and enumerated[1]:
            certificate = world.certificate
            others = check(world, n, *enumerated)
            cold = MlnWorld(case.program, case.query, listed)
            cold.apply(facts)
            assert cold.best_states(n) == others
            assert (world.certificate, world.best_states(n)) == (certificate, others)


def wide(*_):
    raise Wide("all are")


@pytest.mark.parametrize("way", ["eager", "lazy", "wide"])
@pytest.mark.parametrize("name", FAMILIES)
@tiers("number", 2, 200)
def test_families(monkeypatch, name, way, number):
    """``lazy``: what holds by default is left out. ``wide``: a component is solved again for each state."""
    if way == "wide":
        monkeypatch.setattr(best_states_module, "build_structure", wide)
    for seed in range(number):
        history(name, seed, way)


def history(name, seed, way):
    of, rng = case(name, seed, large=False), Random(f"best {name} {seed}")
    if of.n > ENUMERATED:
        return
    rules, query, n = parse(of.family.rules), of.family.query, [5, 2, 9, 3][seed % 4]
    options = {"eager": 0} if way == "lazy" else {}
    try:
        world, facts = MlnWorld(rules, query, **options), {}
    except Infeasible:
        return
    steps = [{(name, args): x for name, rows in of.facts.items() for args, x in rows.items()}]
    for _ in range(4):
        some = rng.sample(of.family.atoms, rng.randint(1, 2))
        steps.append({atom: rng.choice([None, 0.0, 1.0]) for atom in some})
    for step in steps:
        change = {atom: x for atom, x in step.items() if x is not None or atom in facts}
        try:
            world.apply(change)
        except Infeasible:
            if not facts:
                return
            continue
        facts = {atom: x for atom, x in {**facts, **change}.items() if x is not None}
        places = [a for a, atom in enumerate(of.family.atoms) if atom not in facts]
        given = of.with_units(
            a if facts[atom] else -a for a, atom in enumerate(of.family.atoms, 1) if atom in facts
        )
        total = given.scores()
        expected = {
            tuple(number >> a & 1 for a in places): total[number]
            for number in np.flatnonzero(total > -np.inf).tolist()
        }
        saved = world.save()
        others = check(world, n, [of.family.atoms[a] for a in places], expected)
        assert repr(world.save()) == repr(saved)
        twin = MlnWorld(rules, query, **options)
        twin.resume(*saved)
        assert twin.best_states(n) == others


CHAINS = """Knows(p, p)
Smokes(p)
1.5 Knows(x, y) ^ Smokes(x) => Smokes(y)
-0.3 Smokes(x)
"""


class Searches:
    """An engine that counts what it is asked; from the call ``unproven`` on, it proves nothing."""

    def __init__(self, unproven=10_000):
        self.calls, self.unproven = 0, unproven

    def solve(self, model, weight, *, bonus=None):
        self.calls += 1
        solution = map_engine("mpe").solve(model, weight, bonus=bonus)
        return replace(solution, certified=self.calls < self.unproven)


def chains(number):
    pairs = [(f"{n} {k}", f"{n} {k + 1}") for n in range(number) for k in range(3)]
    return {("Knows", pair): 1.0 for pair in pairs}


class Unproven(Search):
    """A search of all best states at once that proves nothing, so that the engine is asked for each."""

    def go_on(self, most_work):
        return replace(super().go_on(most_work), certified=False)


def test_only_what_a_step_touches_is_solved_again(monkeypatch):
    monkeypatch.setattr(best_states_module, "build_structure", wide)
    monkeypatch.setattr(best_states_module, "Search", Unproven)
    world = MlnWorld(parse(CHAINS), ["Smokes"], engine=(engine := Searches()))
    world.apply(chains(8))
    first = world.best_states(3)
    assert 8 <= engine.calls <= 8 + 2
    engine.calls = 0
    assert world.best_states(3) == first
    assert engine.calls == 0
    world.apply({("Knows", ("4 0", "4 2")): 1.0})
    world.best_states(3)
    assert 0 < engine.calls <= 2
    engine.calls = 0
    world.apply({("Knows", ("4 0", "4 2")): None})
    assert world.best_states(3) == first
    assert engine.calls <= 2
    with pytest.raises(Infeasible):
        world.set_model(parse(CHAINS + "Smokes(x).\n!Smokes(x)."))
    engine.calls = 0
    assert world.best_states(3) == first
    assert engine.calls <= 8


def test_a_search_that_ends_at_its_limit_is_told(monkeypatch):
    monkeypatch.setattr(best_states_module, "build_structure", wide)
    monkeypatch.setattr(best_states_module, "Search", Unproven)
    world = MlnWorld(parse(CHAINS), ["Smokes"], engine=(engine := Searches()))
    world.apply(chains(3))
    assert all(other.certified for other in world.best_states(4))
    engine.calls, engine.unproven = 0, 1
    world.apply({("Knows", ("1 0", "1 2")): 1.0})
    others = world.best_states(4)
    assert len(others) == 3
    assert not any(other.certified for other in others)
