"""A Markov logic world that stays: the best state, and after any history the bits of a cold one."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import DataError, Infeasible
from onlinesrl.logic.ast import Program
from onlinesrl.mln.inference.brute_force import MAX_ATOMS, state_scores
from onlinesrl.mln.inference.registry import map_engine
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.lang.weight_file import alchemy_text
from onlinesrl.mln.query.incremental_world import MlnWorld
from tests.support.fact_changes import CASES, begin_of, breaks, changes, pool_of, world_of
from tests.support.naive_grounder import holds, model, tautology
from tests.support.random_programs import Case


def best(world):
    """The soft clauses with their weights, the highest score and the probabilities by enumeration.

    None where there is no state. There are no probabilities where there are many atoms.
    """
    if breaks(world):
        return None
    soft = {
        x: n * dict(x.clause.table or ()).get(x.key, x.clause.weight)
        for x, n in world.soft().items()
    }
    ground, weight, atoms = model(world, soft)
    try:
        solution = map_engine("mpe").solve(ground, weight)
    except Infeasible:
        return None
    if ground.n_atoms > MAX_ATOMS - 7:
        return soft, solution.score, None
    scores = state_scores(ground, weight, None)
    share = np.exp(scores - scores.max())
    true_in = np.arange(len(scores))[:, None] >> (ground.n_atoms - 1 - np.arange(len(atoms))) & 1
    probability = share @ true_in / share.sum()
    return soft, solution.score, dict(zip(atoms, probability.tolist(), strict=True))


def all_of(world):
    return [*world.values()], world.certificate, world.marginals()


def counted(exchanges):
    """The ground rules that came, less those that went."""
    counts = Counter()
    for came, went in exchanges:
        counts.update(came())
        counts.subtract(went())
    return counts


@given(CASES, st.data())
def test_after_every_step_the_best_state_and_the_bits_of_a_cold_world(case, data):
    choose = data.draw
    listed = choose(st.booleans())
    begin = world_of(case, {}, listed)
    if best(begin) is None:
        with pytest.raises(Infeasible):
            MlnWorld(case.program, case.query, listed)
        return
    world, facts = MlnWorld(case.program, case.query, listed), {}
    pool, reported = pool_of(case, listed), dict(world.values())
    present, last = case, []
    for number in range(4):
        change, new, later, exchanges = {}, facts, present, []
        kind = choose(st.sampled_from(["facts", "facts", "model", "weights"]))
        match kind if number else "facts":
            case "facts":
                change = changes(choose, pool, facts) if number else begin_of(case, listed)
                new = {a: value for a, value in (facts | change).items() if value is not None}
                step = partial(world.apply, change, exchanges)
            case "model":
                later = Changed(other_rules(choose, case.program), case)
                step = partial(world.set_model, later.program)
            case "weights":
                later = Changed(other_weights(choose, present.program), case)
                placed = world.weights_of(parse(alchemy_text(later.program)))
                step = partial(world.set_weights, placed)
        defined = world_of(later, new, listed)
        expected = best(defined)
        if expected is None:
            before = all_of(world)
            with pytest.raises(Infeasible):
                step()
            assert all_of(world) == before
            continue
        before = all_of(world)
        try:
            changed = step()
        except DataError as error:  # weight files cannot tell the constants of such a template
            assert "no rule of the world fits" in str(error)
            assert all_of(world) == before
            continue
        for atom, (old, value) in changed.items():
            assert reported.pop(atom, None) == old != value
            reported |= {} if value is None else {atom: value}
        assert reported == dict(world.values())
        facts, present = new, later
        optimal(world, defined, *expected)
        cold = MlnWorld(present.program, case.query, listed)
        cold.apply(facts, cold_exchanges := [])
        assert all_of(cold) == all_of(world)
        if change:
            assert counted([*last, *exchanges]) == counted(cold_exchanges)
        last = cold_exchanges


@dataclass
class Changed:
    """A case under another program."""

    program: Program
    case: Case

    @property
    def query(self):
        return self.case.query


def other_weights(choose, program):
    """The program with some weights changed."""
    factor = st.sampled_from([1.0, 1.0, -0.5, 3.0, 0.0])
    return replace(program, rules=tuple(scaled(rule, choose(factor)) for rule in program.rules))


def scaled(rule, factor):
    if rule.weight is None:
        return rule
    table = rule.table and tuple((key, factor * weight) for key, weight in rule.table)
    return replace(rule, weight=factor * rule.weight, table=table)


def other_rules(choose, program):
    """The program with some weights changed, without some rules, and perhaps with one more constant."""
    program = other_weights(choose, program)
    rules = tuple(rule for rule in program.rules if choose(st.integers(0, 3)))
    types = {
        kind: (*names, "Extra") if choose(st.integers(0, 3)) == 0 else names
        for kind, names in program.types.items()
    }
    return replace(program, rules=rules, types=types)


def optimal(world, defined, soft, score, probability):
    assert world.certificate.certified
    values = dict(world.values())
    assert values.keys() == {atom for atom, value in defined.atoms.items() if value is None}
    state = {atom for atom, value in defined.atoms.items() if value}
    state |= {atom for atom, value in values.items() if value}
    assert all(holds(clause, state) for clause in defined.hard())
    gains = [w for x, w in soft.items() if not tautology(x.literals) and holds(x.literals, state)]
    assert math.fsum(gains) == pytest.approx(score, abs=1e-6)
    if probability is not None:
        marginals, statistics = world.marginals()
        assert statistics["route"] == "exact"
        assert marginals == pytest.approx({atom: probability[atom] for atom in values}, abs=1e-6)


ONE = "exactly one Job along argument 2, as in Job"


def cooks(one, other):
    return f"Knows({one}, {other}) ^ Job({one}, Cook) => Job({other}, Cook)."


def test_a_change_refused_says_why_and_leaves_the_world():
    text = """
Knows(p, p)
Job(p, job!)
Rich(p)
job = {Cook, Judge}
Knows(x, y) ^ Job(x, Cook) => Job(y, Cook).
Knows(x, y) => !Rich(x).
"""
    world = MlnWorld(parse(text), ["Job"])
    ann, bob = ("Job", ("Ann", "Cook")), ("Job", ("Bob", "Judge"))
    others = {("Knows", (f"C{n}", f"C{n + 1}")): 1.0 for n in range(50)}
    world.apply({("Knows", ("Ann", "Bob")): 1.0, bob: 1.0, **others})
    assert dict(world.values())[ann] == 0.0
    before = all_of(world)
    for change, rules, facts in (
        (
            {ann: 1.0, ("Job", ("C7", "Cook")): 1.0},
            [cooks("Ann", "Bob"), f"{ONE}(Bob, Cook)"],
            ["Job(Ann, Cook)", "Job(Bob, Judge)", "Knows(Ann, Bob)"],
        ),
        (
            {("Job", ("C0", "Cook")): 1.0, ("Job", ("C2", "Judge")): 1.0},
            [cooks("C0", "C1"), f"{ONE}(C2, Cook)", cooks("C1", "C2")],
            ["Job(C0, Cook)", "Job(C2, Judge)", "Knows(C0, C1)", "Knows(C1, C2)"],
        ),
        (
            {("Job", ("Bob", "Cook")): 1.0},
            [f"{ONE}(Bob, Cook)"],
            ["Job(Bob, Cook)", "Job(Bob, Judge)"],
        ),
        (
            {("Job", ("C9", "Cook")): 0.0, ("Job", ("C9", "Judge")): 0.0},
            [f"{ONE}(C9, Cook)"],
            ["!Job(C9, Cook)", "!Job(C9, Judge)"],
        ),
        (
            {("Rich", ("C9",)): 1.0},
            ["Knows(C9, C10) => !Rich(C9)."],
            ["Knows(C9, C10)", "Rich(C9)"],
        ),
    ):
        with pytest.raises(Infeasible) as caught:
            world.apply(change)
        start, _, end = str(caught.value).partition(", and the facts ")
        start = start.removeprefix(
            "these cannot all hold; without any one of them the others can: the hard "
        )
        assert start.removeprefix("rules ").removeprefix("rule ").split("; ") == rules
        assert sorted(end.split("; ")) == facts
        assert all_of(world) == before
    assert world.apply({bob: None, ann: 1.0})["Job", ("Bob", "Cook")] == (0.0, 1.0)


def test_a_step_reaches_only_the_ground_clauses_that_mention_its_atoms():
    world = MlnWorld(
        parse(
            "Knows(person, person)\nSmokes(person)\n"
            "1.5 Knows(x, y) ^ Smokes(x) => Smokes(y)\n-0.3 Smokes(x)\n"
        ),
        ["Smokes"],
    )
    people = [str(n) for n in range(50)]
    touched = []
    for change, value in (
        ([*pairwise(people)], 1.0),
        ([("7", "9")], 1.0),
        ([("7", "Eve")], 1.0),
        ([("7", "Eve")], None),
    ):
        world.apply({("Knows", pair): value for pair in change})
        touched.append(world.touched)
    assert touched == [49 + 50, 1, 2, 2]
    assert ("Smokes", ("Eve",)) not in dict(world.values())


@pytest.mark.parametrize("part", ["!S(y, y)", "!(EXIST y S(y, y))"])
def test_each_atom_of_a_rule_may_repeat_a_variable(part):
    rules = f"E(item, item)\nS(item, item)\n2 S(x, z) ^ x != z\n1 S(x, x)\n!E(x, x) v !S(x, z) v {part}."
    world = MlnWorld(parse(rules), ["S"], listed=True)
    world.apply({("S", ("A", "B")): math.nan, ("S", ("B", "B")): math.nan, ("E", ("A", "A")): 1.0})
    assert dict(world.values()) == {("S", ("A", "B")): 1.0, ("S", ("B", "B")): 0.0}
