"""PSL's ground models against the naive grounder and against PSL's own counts."""

import json
from collections import Counter
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.core.errors import ModelError
from onlinesrl.psl.ground.form_assembly import Listing
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.ground.hinge_loss_mrf import united, validate
from onlinesrl.psl.ground.join_plan import plan_program
from onlinesrl.psl.lang.data import Database, Relation
from onlinesrl.psl.lang.linear_form import normal_rules
from onlinesrl.psl.lang.model import load_json
from onlinesrl.psl.lang.reader import parse
from tests.support.paths import SHARED
from tests.support.random_psl_programs import (
    FUNCTIONS,
    counted,
    databases,
    expected,
    names,
    programs,
    side_by_side,
    table,
)

PEERS = SHARED / "peers" / "psl"
EMPTY = {arity: table([], [], arity) for arity in (1, 2)}


@given(programs(), databases())
def test_the_rows_of_the_naive_grounder(program, database):
    rows = expected(program, database)
    if rows is None:
        with pytest.raises(ModelError, match="breaks this hard rule"):
            Grounder(program, FUNCTIONS).ground(database)
        return
    model = Grounder(program, FUNCTIONS).ground(database)
    validate(model)
    assert counted(model, names(database)) == rows


@given(programs(), st.lists(databases(), min_size=1, max_size=3))
def test_worlds_are_ground_as_if_alone(program, worlds):
    grounder = Grounder(program, FUNCTIONS)
    found = grounder.ground_worlds(side_by_side(worlds), len(worlds), "TU")
    for w, world in enumerate(worlds):
        rows = expected(program, world)
        assert (rows is None) == (w in found.failures)
        if rows is not None:
            alone = grounder.ground_worlds(side_by_side([world]), 1, "TU").graphs.model
            validate(alone)
            assert counted(alone, names(world)) == rows
            assert same(found.graphs.micrograph(w), alone)


def same(one, other):
    return all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        for field in fields(one)
    )


@pytest.mark.skipif(not PEERS.exists(), reason="needs the recorded answers of PSL")
@pytest.mark.parametrize(
    "case", sorted(each.parent.name for each in PEERS.glob("golden/*/golden.json"))
)
def test_as_many_ground_rules_as_psl(case):
    golden = json.loads((PEERS / "golden" / case / "golden.json").read_text())
    model = load_json(PEERS / "cases" / case / "config.json")
    ground, inactive, _ = with_counts(Grounder(model.program), model.database())
    assert ground.n_rows + inactive.sum() == golden["terms"]
    assert ground.n_variables == golden["vars"]


def with_counts(grounder, database):
    """The model of one world, and the counts of ground rules that are left out."""
    inactive, skipped = np.zeros(len(grounder.program.rules), int), np.zeros(1, int)
    listing = Listing(database)
    models = [*grounder.models(listing, inactive, skipped)]
    return united(listing.n_variables, models), inactive, skipped


def database(a=(), t=(), targets=()):
    """Data of A/1 and T/1 over the constants a, b and c; a and t are observed, row by row."""

    def values(rows):
        return table([row for row, _ in rows], [value for _, value in rows], 1)

    relations = {
        "A": Relation(values(a), EMPTY[1], EMPTY[1]),
        "T": Relation(values(t), table(targets, None, 1), EMPTY[1]),
    }
    return Database(("a", "b", "c"), relations)


def test_what_observed_values_satisfy_is_not_counted_but_what_they_do_together_is():
    program = parse("1: A(X) & A(Y) & X != Y -> T(X)", "rules.psl")
    data = database(
        a=[((0,), 0.5), ((1,), 0.4), ((2,), 0.0)], targets=[(0,), (1,)], t=[((2,), 0.3)]
    )
    model, inactive, _ = with_counts(Grounder(program), data)
    assert (model.n_rows, inactive.tolist()) == (0, [2])


def test_a_missing_atom_is_named():
    program = parse("1: !T(X)\n2: A(X) -> T(X)", "rules.psl")
    data = database(a=[((0,), 1.0), ((2,), 1.0)], targets=[(0,)])
    with pytest.raises(ModelError) as caught:
        Grounder(program).ground(data)
    assert str(caught.value) == (
        "rules.psl:2:1: the rule needs T('c'), which is neither observed nor a target\n"
        "  2: A(X) -> T(X)\n"
        "  ^\n"
        "  hint: T has targets, so each of its atoms in a ground rule must be listed; "
        "inference.targets: skip (infer: --targets skip) leaves such ground rules out"
    )


def test_ground_rules_that_reach_a_missing_atom_are_counted_where_they_are_left_out():
    program = parse("1: !T(X)\n2: A(X) -> T(X)\nA(X) & A(Y) -> T(X) | T(Y) .", "rules.psl")
    data = database(a=[((0,), 1.0), ((1,), 0.5), ((2,), 1.0)], targets=[(0,)])
    model, _, skipped = with_counts(Grounder(program, skip=True), data)
    assert model.n_rows == 3  # !T(a), A(a) -> T(a), A(a) & A(a) -> T(a)
    assert skipped.tolist() == [2 + 8]


def thinned(data, kept):
    """The data without some of the targets; each predicate keeps its first."""
    relations = dict(data.relations)
    for name in "TU":
        targets = relations[name].targets
        some = [n for n in range(len(targets)) if n in kept or n == 0]
        arity = len(targets.columns)
        fewer = table(targets.columns.T[some], None, arity)
        relations[name] = Relation(relations[name].observed, fewer, EMPTY[arity])
    return Database(data.constants, relations)


@given(programs(), databases(), st.sets(st.integers(0, 29), max_size=12))
def test_ground_rules_that_reach_a_missing_atom_are_left_out(program, data, kept):
    """What is left are the rows of the whole data without an atom that is gone."""
    forms = normal_rules(program)
    whole = expected(program, data)
    assume(whole is not None and not any(form.summations for form in forms))
    fewer = thinned(data, kept)
    gone = set(names(data)) - set(names(fewer))
    rows = Counter({row: n for row, n in whole.items() if not gone & {atom for atom, _ in row[3]}})
    grounder = Grounder(program, FUNCTIONS, skip=True)
    alone, _, skipped = with_counts(grounder, fewer)
    worlds = grounder.ground_worlds(side_by_side([fewer, data, fewer]), 3, "TU")

    assert counted(alone, names(fewer)) == rows
    assert worlds.skipped.tolist() == [skipped[0], 0, skipped[0]]
    assert counted(worlds.graphs.micrograph(2), names(fewer)) == rows
    assert counted(worlds.graphs.micrograph(1), names(data)) == whole


def test_a_missing_atom_of_a_closed_predicate_is_false():
    program = parse("1: A(X) -> T(X)", "rules.psl")
    data = database(a=[((0,), 0.5)])
    assert Grounder(program).ground(data).n_rows == 0
    program = parse("1: T(X) -> A(X)", "rules.psl")
    model = Grounder(program).ground(database(targets=[(0,)]))
    assert (model.coefficient.tolist(), model.constant.tolist()) == ([1.0], [0.0])


def test_too_many_ground_rules():
    program = parse("1: A(X) & A(Y) -> T(X)", "rules.psl")
    data = database(a=[((n,), 1.0) for n in range(3)], targets=[(0,), (1,), (2,)])
    assert Grounder(program, most=9).ground(data).n_rows == 9
    with pytest.raises(ModelError, match="more than 8 joined rows"):
        Grounder(program, most=8).ground(data)


def test_what_has_no_value_is_an_error():
    far = parse("1: A(X) & Far(X, 'b') -> T(X)", "rules.psl", functions=["Far"])
    data = database(a=[((0,), 1.0)], targets=[(0,)])
    with pytest.raises(ModelError, match=r"Far\(a, b\) is 2, not a value from 0 to 1"):
        Grounder(far, {"Far": lambda x, y: 2.0}).ground(data)
    quotient = parse("1 / (|X| - 1) * T(+X) <= 1 .", "rules.psl")
    with pytest.raises(ModelError, match="divides by 0"):
        Grounder(quotient).ground(data)


def test_a_plan_is_readable():
    program = parse(
        "1: A(X) & B(X, Y) & B(Y, Z) & X % Z -> T(Z)\nU(X, +Y) <= |Y| . {Y: B(X, Y) | !A(Y)}"
    )
    assert [str(plan) for plan in plan_program(program)] == [
        "join A(X)\njoin B(X, Y) by argument 1\njoin B(Y, Z) by argument 1\n  check X % Z\n"
        "look up T(Z)",
        "join U(X, +Y)\n  check B(X, Y) | !A(Y)\ngroup by X",
    ]


@pytest.mark.parametrize("method", ["admm", "world"])
def test_of_two_constants_exactly_one_comes_before_the_other(method):
    """Whatever they look like, also in a world; a rule pulls its pair up to 2 / 3."""
    names = ["9", "009", "10", "-10", "-9", "00", "-0", "x", "1a", "", "-"]
    model = srl.Model("1: F(A) & F(B) & A % B -> G(A, B) ^2\n0.5: !G(A, B) ^2\n", "psl")
    pairs = [(a, b) for a in names for b in names if a != b]
    if method == "world":
        world = srl.World(model, "G")
        world.apply(add={"F": names}, query={"G": pairs})
        values = world.answer()["G"]
    else:
        values = srl.infer(model, {"F": names}, {"G": pairs}, method=method)["G"]
    order = sorted(names, key=lambda name: sum(values[name, b] > 0.5 for b in names if b != name))
    assert order[::-1] == ["-10", "-9", "9", "10", "", "-", "-0", "00", "009", "1a", "x"]
    assert all(values[a, b] + values[b, a] == pytest.approx(2 / 3, abs=1e-2) for a, b in pairs)


def test_a_coefficient_beyond_all_bounds():
    program = parse("|A| / 1e-50 * T(+A) <= 1 .", "rules.psl")
    with pytest.raises(ModelError, match="is beyond 1e\\+50 in a ground rule"):
        Grounder(program).ground(database(targets=[(0,), (1,)]))
