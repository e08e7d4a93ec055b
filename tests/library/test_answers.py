"""Answers in Python: those of the command line; tables in and out; bad tables."""

import re
from pathlib import Path
from typing import Any

import duckdb
import nanoarrow as na
import pandas as pd
import pytest
from conftest import command

import onlinesrl as srl
from onlinesrl.core import errors
from onlinesrl.library.tables import Table
from tests.support.golden import check, refusal

MODEL = """person = {Anna, Bob, Carl}
Friends(person, person)
Smokes(person)
1.5 Smokes(x)
2 Friends(x, y) => (Smokes(x) <=> Smokes(y))
-3 Smokes(Carl)
"""
FACTS = {"Friends": [("Anna", "Bob"), ("Bob", "Carl")], "Smokes": ["Anna"]}
RULES = """10: Knows(X, Y) & Likes(X, Z) -> Likes(Y, Z) ^2
1: !Likes(X, Z) ^2
"""


def printed(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capfd.readouterr()
    assert command(*arguments) == 0
    return capfd.readouterr().out.splitlines()


@pytest.mark.parametrize("method", ["mpe", "lp", "walksat", "exact", "mcsat", "gibbs"])
def test_answers_are_those_of_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], method: str
) -> None:
    (tmp_path / "m.mln").write_text(MODEL)
    (tmp_path / "e.db").write_text("Friends(Anna, Bob)\nFriends(Bob, Carl)\nSmokes(Anna)\n")
    files = ["--model", str(tmp_path / "m.mln"), "--evidence", str(tmp_path / "e.db")]
    lines = printed(capfd, "infer", *files, "--query", "Smokes", "--method", method)
    model = srl.Model.read(tmp_path / "m.mln")
    for evidence in (FACTS, tmp_path / "e.db"):
        found = srl.infer(model, evidence, "Smokes", method=method)
        assert sorted(
            f"Smokes({person}) {value:.{0 if method in ('mpe', 'lp', 'walksat') else 10}f}"
            for (person,), value in found["Smokes"].items()
        ) == sorted(lines)
        assert found.stats["method"] == method
    assert "Smokes(Bob)" in found._repr_html_()


def test_the_ground_network_is_that_of_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.mln").write_text(MODEL)
    (tmp_path / "e.db").write_text("Friends(Anna, Bob)\nSmokes(Anna)\n")
    files = ["--model", str(tmp_path / "m.mln"), "--evidence", str(tmp_path / "e.db")]
    facts = {"Friends": [("Anna", "Bob")], "Smokes": ["Anna"]}
    lines = printed(capfd, "ground", *files, "--query", "Smokes")
    assert [*srl.ground(MODEL, facts, "Smokes")] == lines
    with pytest.raises(srl.UsageError, match="PSL"):
        srl.ground(srl.Model(RULES, "psl"), {}, "Likes")


def psl_files(folder: Path) -> Path:
    (folder / "m.psl").write_text(RULES)
    (folder / "knows.txt").write_text("a\tb\nb\tc\t0.5\n")
    (folder / "likes.txt").write_text("a\tx\t0.9\n")
    (folder / "targets.txt").write_text("b\tx\nc\tx\n")
    (folder / "m.data").write_text(
        "predicates:\n  Knows/2: closed\n  Likes/2: open\nobservations:\n  Knows: knows.txt\n"
        "  Likes: likes.txt\ntargets:\n  Likes: targets.txt\n"
    )
    return folder / "m.data"


TABLES = {
    "Knows": Table({"x": ["a", "b"], "y": ["b", "c"], "value": [1.0, 0.5]}),
    "Likes": Table({"x": ["a"], "z": ["x"], "value": [0.9]}),
}
ROWS = {"Knows": {("a", "b"): 1, ("b", "c"): 0.5}, "Likes": {("a", "x"): 0.9}}


@pytest.mark.parametrize("evidence", [TABLES, ROWS], ids=["tables", "rows"])
@pytest.mark.parametrize("method", ["admm", "tron", "tandem"])
def test_psl_from_memory_is_psl_from_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], evidence: Any, method: str
) -> None:
    data = psl_files(tmp_path)
    model = tmp_path / "m.psl"
    lines = printed(capfd, "infer", "--model", str(model), "--data", str(data), "--method", method)
    query = {"Likes": [("b", "x"), ("c", "x")]}
    found = srl.infer(srl.Model.read(model), evidence, query, method=method)
    assert [f"Likes\t{a}\t{b}\t{v:.10g}" for (a, b), v in found["Likes"].items()] == lines
    assert found.tables["Likes"].columns.keys() == {"argument_1", "argument_2", "value"}
    scored = srl.infer(srl.Model.read(model), evidence, query, truth={"Likes": [("b", "x")]})
    assert scored.stats["evaluation"]["Likes"]["atoms"] == 1


# tables ------------------------------------------------------------------------------------------


def frames(columns: dict[str, list[Any]]) -> list[Any]:
    """The same table from several libraries."""
    table = Table(columns)
    return [table, na.ArrayStream(table)]


def test_a_table_goes_through_arrow_and_back() -> None:
    columns = {"person": ["Anna", "Bob"], "n": [1, 2], "value": [0.5, 1.0]}
    for frame in frames(columns):
        stream = na.ArrayStream(frame).read_all()
        assert [stream.child(n).to_pylist() for n in range(3)] == [*columns.values()]
    assert "2 rows" in repr(Table(columns))
    assert "Anna" in Table(columns)._repr_html_()


def test_relations_of_duckdb_are_read() -> None:
    relation = duckdb.sql(
        "select 'Anna' as x, 'Bob' as y union all select 'Bob', 'Carl' order by 1"
    )
    one = srl.infer(MODEL, {"Friends": relation, "Smokes": ["Anna"]}, "Smokes", method="exact")
    other = srl.infer(MODEL, FACTS, "Smokes", method="exact")
    assert one == other


def test_bad_tables_are_named() -> None:
    model = srl.Model(RULES, "psl")

    def read(columns: str) -> str:
        facts = {"Knows": pd.DataFrame(eval(columns, {"nan": float("nan")}))}
        return refusal(lambda: srl.infer(model, facts, {"Likes": [("b", "x")]}))

    check(Path(__file__).parent / "golden" / "tables.txt", read)


def test_an_atom_is_not_observed_and_asked_for() -> None:
    model = srl.Model(RULES, "psl")
    with pytest.raises(srl.DataError, match="Likes: row 0 of the query is observed, in row 1"):
        srl.infer(model, {"Likes": [("a", "x"), ("b", "x")]}, {"Likes": [("b", "x")]})
    with pytest.raises(srl.DataError, match="no predicate Hates; it has Knows, Likes"):
        srl.infer(model, {"Hates": [("a", "x")]}, {"Likes": [("b", "x")]})
    with pytest.raises(srl.DataError, match="does not declare Hates"):
        srl.infer(MODEL, {"Hates": ["Anna"]}, "Smokes")
    with pytest.raises(srl.DataError, match="has two values"):
        srl.infer(
            MODEL,
            {
                "Friends": {("Anna", "Bob"): 1, ("Bob", "Bob"): 0},
                "Smokes": Table({"p": ["Bob", "Bob"], "value": [0, 1]}),
            },
            "Smokes",
        )
    with pytest.raises(srl.UsageError, match="unknown method"):
        srl.infer(model, {}, {"Likes": [("b", "x")]}, method="mpe")


def test_what_is_asked_for_without_an_open_atom_has_no_rows() -> None:
    model = srl.Model("P(thing)\nQ(thing)\nR(thing, kind)\n1 P(x) => Q(x)\n1 R(x, y) ^ Q(x)")
    found = srl.infer(model, {"P": ["x"], "Q": ["x"]}, ["Q", "R"])
    assert (found["Q"], found["R"], len(found.tables["R"])) == ({}, {}, 0)
    assert [*found.tables["R"].columns] == ["thing", "kind", "value"]
    with pytest.raises(KeyError):
        found["P"]


@pytest.mark.parametrize("search", [{"error": 0.1}, {"max_work": 1}, {"lazy": "never"}], ids=str)
def test_psl_refuses_settings_of_markov_logic(search: Any) -> None:
    model = srl.Model("1: P(A) -> Q(A)", "psl")
    with pytest.raises(srl.UsageError, match=rf"^{next(iter(search))}: for Markov logic only$"):
        srl.infer(model, {"P": ["a"]}, {"Q": ["a"]}, **search)


@pytest.mark.parametrize("none", [[], {}, (), Table({"x": []}), Table({"x": [], "y": []})])
def test_psl_takes_no_atoms_however_they_are_given(none: Any) -> None:
    model = srl.Model("1: P(A) & R(A, B) -> Q(A) ^2\n1: !Q(A) ^2", "psl")
    found = srl.infer(model, {"P": none, "R": none}, {"Q": ["x"]})
    assert found["Q"] == {("x",): pytest.approx(0.0, abs=1e-3)}
    assert srl.infer(model, {"P": ["x"]}, {"Q": none})["Q"] == {}
    with pytest.raises(srl.DataError, match="P has 1 arguments in the model, here 2"):
        srl.infer(model, {"P": [("x", "y")]}, {"Q": ["x"]})


def test_an_answer_is_a_mapping() -> None:
    model = srl.Model(MODEL)
    found = srl.infer(model, FACTS, "Smokes")
    assert "Smokes" in found and "Likes" not in found and len(found) == 1
    assert [*found] == [*found.keys()] == ["Smokes"]
    assert dict(found) == found == srl.infer(model, FACTS, "Smokes", method="lp")
    assert [*found.values()] == [found["Smokes"]]
    with pytest.raises(KeyError):
        found["Likes"]


def test_an_answer_has_its_certificate_and_score() -> None:
    model, rules = srl.Model(MODEL), srl.Model(RULES, "psl")
    evidence = {"Knows": [("a", "b")], "Likes": {("a", "c"): 1.0}}
    query = {"Likes": [("b", "c")]}
    world, psl_world = srl.World(model, "Smokes"), srl.World(rules, "Likes")
    world.apply(add=FACTS)
    psl_world.apply(add={"Knows": [("a", "b")]}, set={"Likes": {("a", "c"): 1.0}}, query=query)
    for answer, same in (
        (srl.infer(model, FACTS, "Smokes"), world.answer()),
        (srl.infer(rules, evidence, query), psl_world.answer()),
    ):
        assert answer.certified is same.certified is True
        assert answer.score == pytest.approx(same.score) == answer.stats["score"]
    for marginals in (srl.infer(model, FACTS, "Smokes", method="exact"), world.marginals()):
        assert marginals.certified is marginals.score is None


def test_errors_that_public_docstrings_name_are_public() -> None:
    public = [getattr(srl, name) for name in srl.__all__]
    parts = [part for of in public for part in (of, *getattr(of, "__dict__", {}).values())]
    raised = re.findall(r"Raises ([^.]*)\.", " ".join(str(part.__doc__) for part in parts))
    named = {name for name in re.findall(r"\w+", " ".join(raised)) if hasattr(errors, name)}
    assert {"Infeasible", "UsageError"} <= named <= {*srl.__all__}
    with pytest.raises(srl.UsageError, match="query predicate Likes is not declared"):
        srl.infer(MODEL, FACTS, "Likes")
    with pytest.raises(srl.Infeasible):
        srl.infer(MODEL, FACTS, "Smokes", given="Smokes(Bob) ^ !Smokes(Bob)", method="exact")
