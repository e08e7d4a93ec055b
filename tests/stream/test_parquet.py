"""Parquet files as a run's source and sink: the bits of the same examples as lines, through stops."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import KEYS, command, soaked

import onlinesrl as srl
from onlinesrl.core.example import ValuedAtom
from onlinesrl.core.parallel.executors import Inline
from onlinesrl.logic.tables import argument_names, read_parquet, write_parquet
from onlinesrl.stream.distributed import parquet_splits
from onlinesrl.stream.distributed.parquet_splits import TablePieces, TableShards
from onlinesrl.stream.sources.parquet import TableSource
from tests.support.golden import check
from tests.support.tables import predicted_rows, write_tables

pytestmark = pytest.mark.usefixtures("counting")

COUNT = 24
PARQUET = {"kind": "parquet", "path": "tables"}


@pytest.fixture(scope="module")
def numbered(citations):
    """Citations whose ids are numbers."""
    lines = [{**json.loads(line), "id": n} for n, line in enumerate(citations[:COUNT])]
    for line in lines:
        line.pop("group", None)
    return [json.dumps(line).encode() + b"\n" for line in lines]


@pytest.fixture(scope="module")
def written(numbered, tmp_path_factory):
    """The citations as tables in so many files each, written once."""

    @cache
    def folder(parts):
        made = tmp_path_factory.mktemp("written")
        write_tables(made, numbered, parts)
        return made

    return folder


@pytest.fixture
def tables(job, numbered, written):
    def make(name="tables", lines=numbered, **keys):
        found = job([], name, **{"source": PARQUET, "checkpoint": {"every": 7}, **keys})
        parts = 1 if name == "tables" else 3
        if lines is numbered:
            shutil.copytree(written(parts), found.folder / "tables")
        else:
            write_tables(found.folder / "tables", lines, parts)
        return found

    return make


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", [soaked("tables"), "in parts"])
def test_tables_teach_what_lines_teach(job, tables, numbered, name):
    lines, table = job(numbered, "lines", checkpoint={"every": 7}), tables(name)
    assert lines.run() == 0, lines.said
    assert table.run("--until", "11") == 0, table.said
    assert table.run() == 0, table.said
    assert "after 11 examples" in table.said
    assert table.results() == lines.results()


def test_all_tables_of_csv_may_be_one_example(job):
    world = job([], source={"kind": "csv", "path": "one", "by": None})
    for part, text in (
        ("evidence/Token", 'word , pos\n free ,007\n" ",\t2\n'),
        ("truth/InField", "p,f, value\n007,title,Yes\n 2,title, no\n3,title, 0.5\n"),
    ):
        path = world.folder / "one" / f"{part}.csv"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (example,) = srl.read(world.config)
    assert (example.id, example.evidence) == ("one", {"Token": [["free", "007"], [" ", "2"]]})
    valued = [("007", 1.0), ("2", 0.0), ("3", 0.5)]
    assert example.truth == {"InField": [ValuedAtom([p, "title"], value) for p, value in valued]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id,k\n2,yes,no\n", "CSV Error on Line: 2 "),
        ('id,k\n2,"a\n', "CSV Error on Line: 2 "),
        ("id,value\n2,caf\xe9\n", "not utf-8 encoded"),
        ("id,value\n2,x\n", "Could not convert string 'x' to DOUBLE"),
        ("idd,k\n", "no column id, which says the example (source.by); it has idd, k"),
        ("id,id\n", "the header has the column 'id' twice"),
        ("", "no header in the first line"),
        ("id,k\n,3\n", "column id: expected an example, found an empty cell"),
    ],
)
def test_a_table_of_csv_that_does_not_fit_ends_the_run(job, text, reason):
    world = job([], source={"kind": "csv", "path": "one"})
    path = world.folder / "one" / "evidence" / "Token.csv"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="latin-1")
    assert world.run() == 65
    assert str(path) in world.said
    assert reason in world.said


def test_predictions_are_in_tables_once(job, numbered):
    bad = [*numbered[:5], b"{\n", b'{"id": 99, "evidence": {"Tokn": []}}\n', *numbered[5:]]
    keys: dict[str, Any] = {"checkpoint": {"every": 7}, "limits": {"bad_share": 1.0}}
    lines, sunk = job(bad, "lines", **keys), job(bad, sink={"kind": "parquet"}, **keys)
    assert (lines.run(), sunk.run("--until", "12"), sunk.run()) == (0, 0, 0)
    found = predicted_rows(sunk.output / "predictions")
    expected = lines.lines("predictions.jsonl")
    atoms = [
        (e["id"], *atom) for e in expected for atom in e.get("predicted", {}).get("InField", ())
    ]
    assert found["InField"] == atoms
    assert [(row[0], row[-1]) for row in found["examples"]] == [
        (e.get("id"), e.get("error")) for e in expected
    ]
    assert sunk.run("--fresh") == 0
    assert predicted_rows(sunk.output / "predictions") == found


@pytest.mark.usefixtures("kernels")
def test_what_is_predicted_is_a_source(tables, tmp_path):
    run = tables()
    assert run.run() == 0, run.said
    weights, folder = str(run.output / "weights.mln"), tmp_path / "found"
    assert command("predict", weights, str(run.config), "--tables", str(folder)) == 0
    assert command("predict", weights, str(run.config), "--tables", str(folder)) == 78
    shutil.copytree(run.folder / "tables" / "evidence", tmp_path / "again" / "evidence")
    shutil.copytree(folder / "InField", tmp_path / "again" / "truth" / "InField")
    again = {**KEYS, "source": {**PARQUET, "path": str(tmp_path / "again")}, "output": "again"}
    values = srl.run({**again, "output": str(tmp_path / "run")})
    assert values["examples"] == COUNT


# bad input ----------------------------------------------------------------------------------------


def test_a_bad_table_is_named(tables):
    run = tables()
    path = run.folder / "tables" / "evidence" / "Token.parquet"

    def learn(columns):
        write_parquet(path, eval(columns))
        return f"{run.run()}: {run.said.strip()}".replace(str(run.folder), "FOLDER")

    check(Path(__file__).parent / "golden" / "parquet.txt", learn)


@pytest.mark.usefixtures("kernels")
def test_a_bad_row_is_a_bad_example(tables):
    run = tables(limits={"bad_share": 1.0, "max_atoms": 5000})
    token = run.folder / "tables" / "evidence" / "Token.parquet"
    columns = read_parquet(token)
    columns["argument_1"][0] = None
    write_parquet(token, columns)
    assert run.run() == 0, run.said
    (dead,) = run.lines("deadletter.jsonl")
    assert dead["line"] == columns["id"][0] + 1
    assert "got `null`" in str(dead)


def test_a_huge_example_is_one_bad_example(tables):
    run = tables(source={**PARQUET, "max_bytes": 20_000}, limits={"bad_share": 1.0})
    token = run.folder / "tables" / "evidence" / "Token.parquet"
    columns = read_parquet(token)
    columns["id"] += [COUNT] * 100_000
    columns["argument_1"] += ["x"] * 100_000
    columns["argument_2"] += [*range(100_000)]
    write_parquet(token, columns)
    assert run.run() == 0, run.said
    assert len(run.lines("deadletter.jsonl")) == 1
    assert len(run.predictions()) == COUNT


@pytest.mark.parametrize(
    ("keys", "option", "said"),
    [
        ({}, "forever", "tables have an end"),
        ({"labels": {}}, "end", "labels of tables are beside the evidence"),
        ({"source": {**PARQUET, "path": "nowhere"}}, "end", "source.path: expected a file"),
        ({"source": {**PARQUET, "path": "."}}, "end", "no *.parquet file in this folder"),
    ],
)
def test_what_tables_cannot_do_is_said(tables, keys, option, said):
    run = tables(**keys)
    assert run.run("--until", option) in {64, 74, 78}
    assert said in run.said


# in shards ---------------------------------------------------------------------------------------


@pytest.fixture
def few_pieces(monkeypatch):
    """Each piece is looked for in the tables anew."""
    monkeypatch.setattr(parquet_splits, "DEALT", 3)


@pytest.mark.usefixtures("few_pieces")
@pytest.mark.parametrize("count", [3, *map(soaked, (1, 7, 60))])
def test_shards_have_the_examples_of_the_tables(tables, tmp_path, count):
    path = tables("in parts").folder / "tables"
    shards = TableShards(path, "id", 10_000, count)
    shards.begin(None, Inline())
    read = [record for record in TableSource(path, "id", 10_000).read() if record is not None]
    found, sizes = [], []
    for shard in range(count):
        own = [piece for piece in shards.pieces if piece.shard == shard]
        pieces = TablePieces(path, "id", own, 10_000)
        records = [*pieces.read()]
        found += records
        sizes.append(len(records))
        if records and shard < 3:
            again = TablePieces(path, "id", own, 10_000)
            first = next(iter(again.read()))
            position = json.loads(json.dumps(again.after([first])))
            left = [(r.value, r.line) for r in again.read(position)]
            assert left == [(r.value, r.line) for r in records[1:]]
    found.sort(key=lambda r: r.line)
    assert [(r.value, r.line) for r in found] == [(r.value, r.line) for r in read]
    assert max(sizes) <= COUNT // count + 6


@pytest.mark.usefixtures("few_pieces")
def test_tables_are_learned_in_shards(tables):
    run = tables(distribute={"shards": 3, "round": 7, "workers": 1})
    assert run.run() == 0, run.said
    one = run.results()
    ids = [line["id"] for line in run.predictions()]
    assert sorted(ids) == [*range(COUNT)]
    assert run.run("--fresh", "--set", "distribute.workers=2") == 0, run.said
    assert run.results() == one


def test_shards_of_tables_that_change_are_refused(tables, numbered):
    run = tables(distribute={"shards": 3, "round": 2, "workers": 1})
    assert run.run("--until", "6") == 0, run.said
    write_tables(run.folder / "tables", numbered[1:])
    assert run.run() == 74
    assert "its bytes have changed since the run began" in run.said


@pytest.mark.usefixtures("kernels")
def test_a_type_called_id_has_a_column_beside_that_of_the_example(tmp_path):
    """So has one whose number is another's name."""
    assert argument_names(["a", "a_3", "a", "Value", None]) == [
        "a",
        "a_3",
        "a_3_3",
        "Value_4",
        "argument_5",
    ]
    (tmp_path / "m.mln").write_text("P(id, k)\nQ(id, k)\n1 P(x, y) ^ Q(x, y)\n")
    line = '{"id": %d, "evidence": {"P": [["a", "b"]]}, "truth": {"Q": [["a", "b"]]}}\n'
    (tmp_path / "s.jsonl").write_text(line % 1 + line % 2)
    config = {
        "model": str(tmp_path / "m.mln"),
        "query": "Q",
        "source": {"path": str(tmp_path / "s.jsonl")},
        "output": str(tmp_path / "run"),
        "sink": {"kind": "parquet"},
    }
    assert srl.run(config)["examples"] == 2
    path = tmp_path / "run" / "predictions" / "Q" / "part-00000000.parquet"
    assert read_parquet(path) == {"id": [1, 2], "id_1": ["a", "a"], "k": ["b", "b"]}


def test_a_sink_without_memory_ends_a_run_that_goes_on_later(job, numbered):
    def little():
        def fail(*arguments, **options):
            raise duckdb.OutOfMemoryException("Out of Memory Error: Allocation failure")

        duckdb.connect = fail

    sunk = job(numbered, sink={"kind": "parquet"}, checkpoint={"every": 7})
    assert sunk.run(first=little) == 74
    assert f"{sunk.output / 'predictions'}: Out of Memory Error: Allocation failure" in sunk.said
    assert "Traceback" not in sunk.said
    assert sunk.run() == 0, sunk.said
    assert len(predicted_rows(sunk.output / "predictions")["examples"]) == COUNT
