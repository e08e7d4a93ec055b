"""PSL's join plans run by DuckDB: the rows of the arrays, and its SQL."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import long
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onlinesrl.core.errors import ModelError, StorageError
from onlinesrl.psl.ground.duckdb_joins import DuckDb, _whole_groups
from onlinesrl.psl.ground.form_assembly import Listing
from onlinesrl.psl.ground.grounder import Grounder, united
from onlinesrl.psl.ground.join_plan import plan_program
from onlinesrl.psl.ground.sql import Cut
from onlinesrl.psl.lang.data import Database, Relation
from onlinesrl.psl.lang.linear_form import normal_rules
from onlinesrl.psl.lang.model import load_json
from onlinesrl.psl.lang.reader import parse
from tests.psl.ground.test_psl_grounding import EMPTY, PEERS, database
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

MEMORY = 200_000_000
FEWER = settings(max_examples=settings.default.max_examples // 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("spill")


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


def ground(program, data, folder, *, most=10**6, memory=MEMORY, cut=None):
    """The model and the inactive rows, by DuckDB."""
    listing = Listing(data)
    inactive = np.zeros(len(program.rules), np.int64)
    with DuckDb(folder, memory, cut) as engine:
        models = list(Grounder(program, FUNCTIONS, most).models(listing, inactive, engine))
    return united(listing.n_variables, models), inactive


@FEWER
@given(program=programs(), data=databases())
def test_the_rows_of_the_arrays(folder, program, data):
    rows = expected(program, data)
    if rows is None:
        with pytest.raises(ModelError, match="breaks this hard rule"):
            ground(program, data, folder)
        return
    model, inactive = ground(program, data, folder)
    arrays = Grounder(program, FUNCTIONS).ground(data)

    assert counted(model, names(data)) == rows
    assert counted(arrays.graphs.model, names(data)) == rows
    assert inactive.tolist() == arrays.inactive.tolist()


@FEWER
@given(program=programs(), data=databases(), parts=st.integers(1, 4))
def test_every_ground_rule_is_in_one_part(folder, program, data, parts):
    rows = expected(program, data)
    assume(rows is not None)
    found, left_out = Counter(), np.zeros(len(program.rules), np.int64)
    for part in range(parts):
        model, inactive = ground(program, data, folder, cut=Cut(part, parts))
        found += counted(model, names(data))
        left_out += inactive

    assert found == rows
    assert left_out.tolist() == Grounder(program, FUNCTIONS).ground(data).inactive.tolist()


@FEWER
@given(program=programs(), data=databases(), kept=st.sets(st.integers(0, 29), max_size=12))
def test_the_same_errors_where_atoms_are_missing(folder, program, data, kept):
    """Some targets are gone: both raise an error, perhaps of other atoms, or both have the same rows."""
    data = thinned(data, kept)
    answers = []
    for executor in (
        lambda: Grounder(program, FUNCTIONS).ground(data).graphs.model,
        lambda: ground(program, data, folder)[0],
    ):
        try:
            answers.append(counted(executor(), names(data)))
        except ModelError as error:
            answers.append((error.line, error.message.startswith("the rule needs")))

    assert answers[0] == answers[1]


@FEWER
@given(program=programs(), data=databases(), kept=st.sets(st.integers(0, 29), max_size=12))
def test_ground_rules_that_reach_a_missing_atom_are_left_out(folder, program, data, kept):
    """What is left are the rows of the whole data without an atom that is gone."""
    forms = normal_rules(program)
    whole = expected(program, data)
    assume(whole is not None and not any(form.summations for form in forms))
    fewer = thinned(data, kept)
    gone = set(names(data)) - set(names(fewer))
    rows = Counter({row: n for row, n in whole.items() if not gone & {atom for atom, _ in row[3]}})
    grounder = Grounder(program, FUNCTIONS, skip=True)
    arrays = grounder.ground(fewer)
    listing, skipped = Listing(fewer), np.zeros(1, np.int64)
    inactive = np.zeros(len(program.rules), np.int64)
    with DuckDb(folder, MEMORY) as engine:
        models = list(grounder.models(listing, inactive, engine, skipped))
    worlds = grounder.ground_worlds(side_by_side([fewer, data, fewer]), 3, "TU")

    assert counted(arrays.graphs.model, names(fewer)) == rows
    assert counted(united(listing.n_variables, models), names(fewer)) == rows
    assert arrays.skipped == skipped
    assert worlds.skipped.tolist() == [skipped[0], 0, skipped[0]]
    assert counted(worlds.graphs.micrograph(2), names(fewer)) == rows
    assert counted(worlds.graphs.micrograph(1), names(data)) == whole


@pytest.mark.skipif(not PEERS.exists(), reason="needs the recorded answers of PSL")
@pytest.mark.parametrize("case", [long("citeseer"), "friendship-10k", "simple-acquaintances"])
def test_cases_of_psl(case, folder):
    psl = load_json(PEERS / "cases" / case / "config.json")
    data = psl.database()
    model, inactive = ground(psl.program, data, folder)
    again, _ = ground(psl.program, data, folder)
    arrays = Grounder(psl.program).ground(data)

    assert inactive.tolist() == arrays.inactive.tolist()
    assert counted(model, names(data)) == counted(arrays.graphs.model, names(data))
    assert all(np.array_equal(getattr(model, each), getattr(again, each)) for each in vars(model))


def test_too_many_ground_rules(folder):
    program = parse("1: A(X) & A(Y) -> T(X)", "rules.psl")
    data = database(a=[((n,), 1.0) for n in range(3)], targets=[(0,), (1,), (2,)])
    assert ground(program, data, folder, most=9)[0].n_rows == 9
    with pytest.raises(ModelError, match="more than 8 joined rows"):
        ground(program, data, folder, most=8)


def test_groups_are_not_parted():
    (plan,) = plan_program(parse("U(X, +Y) <= 1 ."))
    rows = np.array([[9, 8, 7, 6, 5, 4, 3], [0, 0, 1, 1, 1, 2, 3], [0, 1, 0, 1, 2, 0, 0]], np.int32)
    for cuts in ([1, 3, 4, 6], [2, 5], [3], [], [1, 2, 3, 4, 5, 6]):
        found = list(_whole_groups(plan, iter(np.split(rows, cuts, axis=1))))
        assert np.array_equal(np.concatenate(found, axis=1), rows)
        ends = [int(each[1, -1]) for each in found]
        assert ends == sorted(set(ends))


def test_memory_and_disk_that_do_not_suffice(folder):
    program = parse("T(X, +Y) <= 1 .", "rules.psl", declared={"T": 2})
    n = 1000
    pairs = np.stack((np.repeat(np.arange(n), n), np.tile(np.arange(n), n)), 1)[::-1]
    relation = Relation(EMPTY[2], table(pairs, None, 2), EMPTY[2])
    data = Database(tuple(map(str, range(n))), {"T": relation})
    with pytest.raises(StorageError, match=r"with 5,000,000 bytes of memory"):
        ground(program, data, folder, memory=5_000_000)


def test_no_folder():
    with pytest.raises(StorageError, match="cannot use"):
        DuckDb(Path("/nowhere"), MEMORY).__enter__()


def test_the_standard_output_is_not_duckdbs(tmp_path):
    """It draws a bar there while a query takes long."""
    with DuckDb(tmp_path, MEMORY) as engine:
        found = engine.connection.sql("SELECT current_setting('enable_progress_bar')").fetchall()

    assert found == [(False,)]


def test_a_grounding_that_nobody_ends(tmp_path):
    """The connection is closed while rows are still to come."""
    program = parse("1: A(X) & A(Y) & A(Z) -> T(X)", "rules.psl")
    n = 100
    rows = [((k,), 1.0) for k in range(n)]
    relations = database(a=rows, targets=[(k,) for k in range(n)]).relations
    data = Database(tuple(map(str, range(n))), relations)
    listing, inactive = Listing(data), np.zeros(1, np.int64)
    with DuckDb(tmp_path, MEMORY) as engine:
        models = Grounder(program).models(listing, inactive, engine)
        first = next(models)

    assert 0 < first.n_rows < n**3
    del models
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "1: A(X) & B(X, Y) & T(Y) & X != Y -> T(X) | A('b')",
        "1: T(X) & A(Y) & !(X % Y) & Y % 'b' -> U(X, Y)",
        "1: U(X, +Y) + T(X) <= |Y| {Y: B(X, Y) | !A(Y)}",
        "T('a') = 0.5 .",
        "1: T('a')",
    ],
)
def test_joins_filters_orders_and_constants(text, folder):
    names_of, n = ("a", "b", "10", "9", "9a"), 5
    pairs = [(x, y) for x in range(n) for y in range(n)]
    relations = {
        "A": Relation(table([(0,), (1,), (2,)], [1.0, 0.4, 0.7], 1), EMPTY[1], EMPTY[1]),
        "B": Relation(table(pairs[::3], [0.8] * 9, 2), EMPTY[2], EMPTY[2]),
        "T": Relation(EMPTY[1], table([(k,) for k in range(n)], None, 1), EMPTY[1]),
        "U": Relation(EMPTY[2], table(pairs, None, 2), EMPTY[2]),
    }
    program = parse(text, declared={"A": 1, "B": 2, "T": 1, "U": 2})
    data = Database(names_of, relations)
    model, inactive = ground(program, data, folder)
    arrays = Grounder(program).ground(data)
    assert model.n_rows
    assert counted(model, names(data)) == counted(arrays.graphs.model, names(data))
    assert inactive.tolist() == arrays.inactive.tolist()


def test_a_filter_that_nothing_passes(folder):
    program = parse("0.68: U(X, +Y) = 0.5 ^1 {Y: (!A(Y) & A(Y))}", declared={"A": 1, "U": 2})
    data = Database(
        ("a", "b"),
        {
            "A": Relation(table([(0,)], [1.0], 1), table([], [], 1), table([], [], 1)),
            "U": Relation(table([], [], 2), table([(0, 1)], None, 2), table([], [], 2)),
        },
    )
    model, inactive = ground(program, data, folder)
    assert (model.n_rows, inactive.tolist()) == (0, [0])
    assert Grounder(program).ground(data).graphs.model.n_rows == 0
