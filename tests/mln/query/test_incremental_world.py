"""A Markov logic world that stays: the best state, and after any history the bits of a cold one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.inference.registry import map_engine
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.query.incremental_world import MlnWorld
from tests.support.fact_changes import CASES, begin_of, breaks, changes, pool_of, world_of
from tests.support.naive_grounder import holds, model, tautology
from tests.support.soak import soaked


def best(world):
    """The soft clauses with their weights, and the highest score; None where there is no state."""
    if breaks(world):
        return None
    soft = {
        x: n * dict(x.clause.table or ()).get(x.key, x.clause.weight)
        for x, n in world.soft().items()
    }
    ground, weight, _ = model(world, soft)
    try:
        solution = map_engine("mpe").solve(ground, weight)
    except Infeasible:
        return None
    return soft, solution.score


def all_of(world):
    return [*world.values()], world.certificate


def follows(case, choose, steps=4) -> str:
    """Compare with the definition, and with a cold world, after every step."""
    listed = choose(st.booleans())
    begin = world_of(case, {}, listed)
    if best(begin) is None:
        with pytest.raises(Infeasible):
            MlnWorld(case.program, case.query, listed)
        return "no world at all"
    world, facts, outcome = MlnWorld(case.program, case.query, listed), {}, "followed"
    pool, reported = pool_of(case, listed), dict(world.values())
    for number in range(steps):
        change = changes(choose, pool, facts) if number else begin_of(case, listed)
        new = {atom: value for atom, value in (facts | change).items() if value is not None}
        defined = world_of(case, new, listed)
        expected = best(defined)
        if expected is None:
            before = all_of(world)
            with pytest.raises(Infeasible):
                world.apply(change)
            assert all_of(world) == before
            outcome = "some refused"
            continue
        for atom, (old, value) in world.apply(change).items():
            assert reported.pop(atom, None) == old != value
            reported |= {} if value is None else {atom: value}
        assert reported == dict(world.values())
        facts = new
        optimal(world, defined, *expected)
        cold = MlnWorld(case.program, case.query, listed)
        cold.apply(facts)
        assert all_of(cold) == all_of(world)
    return outcome


def optimal(world, defined, soft, score):
    assert world.certificate.certified
    values = dict(world.values())
    assert values.keys() == {atom for atom, value in defined.atoms.items() if value is None}
    state = {atom for atom, value in defined.atoms.items() if value}
    state |= {atom for atom, value in values.items() if value}
    assert all(holds(clause, state) for clause in defined.hard())
    gains = [w for x, w in soft.items() if not tautology(x.literals) and holds(x.literals, state)]
    assert math.fsum(gains) == pytest.approx(score, abs=1e-6)


@given(CASES, st.data())
def test_after_every_step_the_best_state_and_the_bits_of_a_cold_world(case, data):
    follows(case, data.draw)


@pytest.mark.soak
def test_thousands_of_worlds_have_the_bits_of_cold_ones(capsys):
    drawn = st.tuples(CASES, st.data())
    tried = soaked(lambda x: follows(x[0], x[1].draw), drawn, 1000, lambda x: x[0].traits())
    with capsys.disabled():
        print(f"\n{dict(tried)}")


def test_a_change_refused_says_why_and_leaves_the_world():
    text = "Knows(p, p)\nJob(p, job!)\njob = {Cook, Judge}\nKnows(x, y) ^ Job(x, Cook) => Job(y, Cook).\n"
    world = MlnWorld(parse(text), ["Job"])
    ann, bob = ("Job", ("Ann", "Cook")), ("Job", ("Bob", "Judge"))
    world.apply({("Knows", ("Ann", "Bob")): 1.0, bob: 1.0})
    assert dict(world.values())[ann] == 0.0
    before = all_of(world)
    with pytest.raises(Infeasible, match=r"breaks the hard rule Knows\(x, y\)"):
        world.apply({ann: 1.0})
    with pytest.raises(Infeasible, match="several atoms of the group of Job"):
        world.apply({("Job", ("Bob", "Cook")): 1.0})
    assert all_of(world) == before
    assert world.apply({bob: None, ann: 1.0})["Job", ("Bob", "Cook")] == (0.0, 1.0)
