"""Incremental grounding: after every step the ground rules of a cold grounding, and all or nothing."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground import incremental_grounder
from onlinesrl.psl.ground.form_assembly import RuleError
from onlinesrl.psl.ground.hinge_loss_mrf import HARD, validate
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


class Ground:
    """The ground rules of a grounder that follows changes, by key: form, named coefficients, constant."""

    def __init__(self, *arguments, **named):
        self.grounder, self.rows = IncrementalGrounder(*arguments, **named), {}
        self.texts = Counter()

    def change(self, facts):
        """The keys of the ground rules that may differ."""
        names = self.names()
        return self.follow(self.grounder.change(facts), names)

    def under(self, program):
        """Go on under other rules; only new ones are ground."""
        names, old = self.names(), self.grounder
        self.grounder, step = old.under(program)
        assert not {*step.rows.tolist()} & names.keys()
        self.follow(step, names, old)

    def names(self):
        return {n: self.grounder.key(n) for n in self.grounder.ground_rules().tolist()}

    def follow(self, step, names, old=None):
        came = self.grounder.counted(step.new, self.grounder.plans_of(step.new))
        went = (old or self.grounder).counted(step.gone, step.gone_plans)
        self.texts = self.texts + by_text(came) - by_text(went)
        key, atom, model = self.grounder.key, self.grounder.listed.atom, step.model
        for gone in step.gone.tolist():
            del self.rows[names[gone]]
        validate(model)
        for n, number in enumerate(step.rows.tolist()):
            entries = slice(model.start[n], model.start[n + 1])
            variables = [atom(v) for v in model.variable[entries].tolist()]
            named = zip(variables, model.coefficient[entries].tolist(), strict=True)
            kind = int(model.weight_index[n]), int(model.kind[n]), int(model.power[n])
            self.rows[key(number)] = kind, {*named}, float(model.constant[n])
        assert {*self.names().values()} == {*self.rows}
        return {*map(key, step.rows.tolist())} | {names[n] for n in step.gone.tolist()}

    def counted(self):
        rule = {number: plan.form.rule for number, plan in self.grounder.plans.items()}
        rounded = (
            (
                rule.get(kind[0], HARD),
                *kind[1:],
                frozenset((atom, round(q, 6)) for atom, q in named),
                round(constant, 6),
            )
            for kind, named, constant in self.rows.values()
        )
        return Counter(rounded)


def by_text(counted):
    counts = Counter()
    for (text, _), n in counted().items():
        counts[text] += n
    return counts


def other_rules(draw, program):
    """Some of the rules, in another order, some with other weights."""
    rules = draw(st.permutations(program.rules))
    weights = st.sampled_from([1.0, 0.0, 2.0])
    return tuple(
        rule if rule.weight is None else replace(rule, weight=rule.weight * draw(weights))
        for rule in rules
        if draw(st.integers(0, 3))
    )


def changes(draw):
    """New values of some atoms; those of T and U are always listed."""
    atoms = draw(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=4, unique=True))
    values = st.sampled_from([0.0, 0.25, 1.0, math.nan])
    closed = st.sampled_from([None, 0.0, 0.25, 1.0])
    return {atom: draw(values if atom[0] in OPENED else closed) for atom in atoms}


@given(programs(), databases(), st.data())
def test_after_every_step_the_rows_of_a_cold_grounding(program, database, data):
    facts = facts_of(database)
    with patch.object(incremental_grounder, "LARGE", data.draw(st.sampled_from([0.0, 0.5, 99.0]))):
        follow(program, facts, data)


def follow(program, facts, data):
    """Make random steps, undo some, and compare each ground model with a cold one."""
    ground, full = Ground(program, OPENED, FUNCTIONS), program
    begin = expected(program, as_database(facts))
    if begin is None:
        with pytest.raises(Infeasible, match="hold"):
            ground.change(facts)
        facts = {atom: math.nan for atom in facts if atom[0] in OPENED}
        if expected(program, as_database(facts)) is None:
            return
    ground.change(facts)
    for _ in range(4):
        step = changes(data.draw)
        new = {atom: value for atom, value in (facts | step).items() if value is not None}
        if (count := expected(program, as_database(new))) is None:
            with pytest.raises(Infeasible, match="hold"):
                ground.change(step)
        else:
            before = ground.rows.copy(), ground.texts, facts
            facts = new
            ground.change(step)
            assert ground.counted() == count
            assert dict(ground.grounder.listed.items()) == pytest.approx(facts, nan_ok=True)
            if data.draw(st.booleans()):
                ground.grounder.undo()
                ground.rows, ground.texts, facts = before
        if data.draw(st.booleans()):
            other = replace(program, rules=other_rules(data.draw, full))
            if (count := expected(other, as_database(facts))) is None:
                with pytest.raises(Infeasible, match="hold"):
                    ground.under(other)
            else:
                program = other
                ground.under(program)
                assert ground.counted() == count
    again = Ground(program, OPENED, FUNCTIONS)
    again.change(facts)
    assert again.counted() == ground.counted()
    assert again.texts == ground.texts


def test_a_missing_atom_is_an_error_or_left_out():
    program = parse("1: A(X) -> T(X)")
    step = {("T", ("a",)): math.nan, ("A", ("a",)): 1.0}
    ground = Ground(program, "T")
    assert ground.change(step) == {(0, ("a",))}
    with pytest.raises(RuleError, match=r"the rule needs T\('b'\)"):
        ground.change({("A", ("b",)): 1.0, ("A", ("a",)): None})
    assert ground.grounder.listed.get(("A", ("b",))) is None
    assert ground.grounder.listed.get(("A", ("a",))) == 1.0
    ground.change({("A", ("c",)): 0.0})
    with pytest.raises(RuleError, match=r"the rule needs T\('c'\)"):
        ground.change({("A", ("c",)): 1.0})
    skipping = Ground(program, "T", skip=True)
    skipping.change(step)
    skipping.change({("A", ("b",)): 1.0})
    assert skipping.rows.keys() == {(0, ("a",))}


def test_a_step_reaches_only_the_ground_rules_that_mention_its_atoms():
    ground = Ground(parse("1: B(X, Y) & T(X) -> T(Y)\n1: T(+X) <= 1"), "T")
    people = [str(n) for n in range(50)]
    ground.change({("T", (name,)): math.nan for name in people})
    ground.change({("B", pair): 1.0 for pair in pairwise(people)})
    near = ground.grounder.neighbourhood([("T", ("7",)), ("T", ("none",))])
    assert near == {("T", (name,)) for name in people} | {("B", ("6", "7")), ("B", ("7", "8"))}
    assert ground.change({("B", ("7", "9")): 1.0}) == {(0, ("7", "9"))}
    touched = ground.change({("T", ("7",)): 0.5})
    assert touched == {(0, ("7", "9")), (0, ("7", "8")), (0, ("6", "7")), (1, ())}
    np.testing.assert_equal(ground.rows[0, ("6", "7")][2], -0.5)


@pytest.mark.parametrize("ordered", ["", "& X % Y"])
def test_numbers_of_what_went_are_given_out_again(ordered):
    """Atoms and constants come and go, many more than there are at any time."""
    program, rng = (
        parse(f"1: B(X, Y) & T(X) {ordered} -> T(Y)\n1: T(+X) <= 3"),
        np.random.default_rng(0),
    )
    ground, facts = Ground(program, "T"), {}
    for day in range(150):
        names = [f"{day}_{n}" for n in range(8)] + [*{row[0] for name, row in facts if name == "T"}]
        links = [("B", tuple(rng.choice(names, 2).tolist())) for _ in range(10)]
        step = {("T", (name,)): math.nan for name in names} | dict.fromkeys(links, 1.0)
        old = {row[0] for name, row in facts if name == "T" and int(row[0].split("_")[0]) < day - 3}
        step |= {atom: None for atom in facts if {*atom[1]} & old}
        step = {
            atom: value for atom, value in step.items() if value is None or not {*atom[1]} & old
        }
        ground.change(step)
        facts = {atom: value for atom, value in (facts | step).items() if value is not None}
    again = Ground(program, "T")
    again.change(facts)
    assert ground.counted() == again.counted()
    assert len(ground.grounder.listed.constants) < 100
    assert ground.grounder.listed.room < 500
