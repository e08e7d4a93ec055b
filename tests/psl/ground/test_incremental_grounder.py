"""Incremental grounding: after every step the ground rules of a cold grounding, and all or nothing."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground.form_assembly import RuleError, comes_before, constant_orders
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HARD, HINGE
from onlinesrl.psl.ground.incremental_grounder import IncrementalGrounder
from onlinesrl.psl.lang.data import Database, Relation
from onlinesrl.psl.lang.reader import parse
from tests.support.random_psl_programs import (
    ARITIES,
    CONSTANTS,
    FUNCTIONS,
    databases,
    expected,
    programs,
    table,
)

OPENED = "TU"
ATOMS = [
    (name, (one, other)[:arity])
    for name, arity in ARITIES.items()
    for one in CONSTANTS
    for other in CONSTANTS[: 1 if arity == 1 else 5]
]


def as_database(facts):
    relations = {}
    for name, arity in ARITIES.items():
        rows = {atom[1]: value for atom, value in facts.items() if atom[0] == name}
        numbered = {tuple(map(CONSTANTS.index, row)): value for row, value in rows.items()}
        observed = {row: value for row, value in numbered.items() if not math.isnan(value)}
        targets = [row for row, value in numbered.items() if math.isnan(value)]
        tables = table([*observed], [*observed.values()], arity), table(targets, None, arity)
        relations[name] = Relation(*tables, table([], [], arity))
    return Database(CONSTANTS, relations)


def facts_of(database):
    facts = {}
    for name, relation in database.relations.items():
        for atoms in relation.observed, relation.targets:
            for row, value in zip(atoms.columns.T.tolist(), atoms.values.tolist(), strict=True):
                facts[name, tuple(CONSTANTS[n] for n in row)] = value
    return facts


def counted(grounder, rows):
    count = Counter()
    for row in rows.values():
        form = grounder.plans[row.plan].form
        hard = form.weight is None
        kind = HINGE if not hard else EQUAL if form.equality else AT_MOST
        key = HARD if hard else form.rule, kind, 1 if hard else form.power
        entries = zip(row.atoms, row.coefficients.tolist(), strict=True)
        named = frozenset((atom, round(value, 6)) for atom, value in entries)
        count[(*key, named, round(row.constant, 6))] += 1
    return count


def changes(draw):
    """New values of some atoms; those of T and U are always listed."""
    atoms = draw(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=4, unique=True))
    values = st.sampled_from([0.0, 0.25, 1.0, math.nan])
    closed = st.sampled_from([None, 0.0, 0.25, 1.0])
    return {atom: draw(values if atom[0] in OPENED else closed) for atom in atoms}


def other_rules(draw, program):
    """Some of the rules, in another order, some with other weights."""
    rules = draw(st.permutations(program.rules))
    weights = st.sampled_from([1.0, 0.0, 2.0])
    return tuple(
        rule if rule.weight is None else replace(rule, weight=rule.weight * draw(weights))
        for rule in rules
        if draw(st.integers(0, 3))
    )


@given(programs(), databases(), st.data())
def test_after_every_step_the_rows_of_a_cold_grounding(program, database, data):
    facts, full = facts_of(database), program
    grounder = IncrementalGrounder(program, OPENED, FUNCTIONS)
    begin = expected(program, as_database(facts))
    if begin is None:
        with pytest.raises(Infeasible, match="cannot all hold"):
            grounder.change(facts)
        facts = {atom: math.nan for atom in facts if atom[0] in OPENED}
        if expected(program, as_database(facts)) is None:
            return
    rows = {key: row for key, row in grounder.change(facts).items() if row}
    for _ in range(4):
        step = changes(data.draw)
        new = {atom: value for atom, value in (facts | step).items() if value is not None}
        if (count := expected(program, as_database(new))) is None:
            with pytest.raises(Infeasible, match="cannot all hold"):
                grounder.change(step)
        else:
            facts = new
            rows |= grounder.change(step)
            rows = {key: row for key, row in rows.items() if row}
            assert counted(grounder, rows) == count
        if data.draw(st.booleans()):
            other = replace(program, rules=other_rules(data.draw, full))
            if (count := expected(other, as_database(facts))) is None:
                with pytest.raises(Infeasible, match="cannot all hold"):
                    grounder.under(other)
            else:
                program = other
                grounder, new, gone = grounder.under(program)
                assert not new.keys() & rows.keys()
                rows = {key: row for key, row in (rows | new).items() if key[0] not in gone}
                assert counted(grounder, rows) == count
    again = grounder.everything()
    assert again.keys() == rows.keys()
    assert counted(grounder, again) == counted(grounder, rows)


def test_a_missing_atom_is_an_error_or_left_out():
    program = parse("1: A(X) -> T(X)")
    step = {("T", ("a",)): math.nan, ("A", ("a",)): 1.0}
    grounder = IncrementalGrounder(program, "T")
    assert len(grounder.change(step)) == 1
    with pytest.raises(RuleError, match=r"the rule needs T\('b'\)"):
        grounder.change({("A", ("b",)): 1.0, ("A", ("a",)): None})
    assert grounder.listed.get(("A", ("b",))) is None
    assert grounder.listed.get(("A", ("a",))) == 1.0
    skipping = IncrementalGrounder(program, "T", skip=True)
    skipping.change(step)
    assert skipping.change({("A", ("b",)): 1.0}) == {(0, ("b",)): None}


def test_a_step_reaches_only_the_ground_rules_that_mention_its_atoms():
    program = parse("1: B(X, Y) & T(X) -> T(Y)\n1: T(+X) <= 1")
    grounder = IncrementalGrounder(program, "T")
    people = [str(n) for n in range(50)]
    grounder.change({("T", (name,)): math.nan for name in people})
    grounder.change({("B", pair): 1.0 for pair in pairwise(people)})
    assert grounder.change({("B", ("7", "9")): 1.0}).keys() == {(0, ("7", "9"))}
    touched = grounder.change({("T", ("7",)): 0.5})
    assert touched.keys() == {(0, ("7", "9")), (0, ("7", "8")), (0, ("6", "7")), (1, ())}
    np.testing.assert_equal(touched[0, ("6", "7")].constant, -0.5)


@given(st.lists(st.sampled_from(["9", "10", "009", "a", "B", "٣", ""]), min_size=2, max_size=2))
def test_constants_have_the_order_of_the_joins(names):
    number, text = constant_orders(names)
    rank = number if min(number) >= 0 else text
    if names[0] != names[1]:
        assert comes_before(*names) == (rank[0] < rank[1])
