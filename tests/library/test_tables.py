"""Tables of the libraries that people use, examples in tables, and Parquet in place of text files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import REPO, command

import onlinesrl as srl
from onlinesrl.core.example import ValuedAtom
from onlinesrl.library.tables import columns_of
from onlinesrl.logic.tables import read_parquet, write_parquet
from tests.support.golden import check, refusal

Columns = dict[str, list[Any]]
FRAMES: dict[str, Callable[[Columns], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "duckdb": lambda columns: duckdb.sql("SELECT * FROM frame", connection=_registered(columns)),
    "onlinesrl": srl.Table,
}
COLUMNS: Columns = {"doc": [3, 1, 3], "word": ["a", "é", "b"], "value": [0.5, 1.0, 0.0]}


def _registered(columns: Columns) -> Any:
    connection = duckdb.connect()
    connection.register("frame", pa.table(columns))
    return connection


@pytest.fixture(params=FRAMES)
def frame(request: pytest.FixtureRequest) -> Callable[[Columns], Any]:
    return FRAMES[request.param]


# reading -----------------------------------------------------------------------------------------


def test_a_frame_is_read(frame: Callable[[Columns], Any]) -> None:
    assert columns_of(frame(COLUMNS), "Word") == COLUMNS


@pytest.mark.parametrize(
    "made",
    [
        pd.DataFrame({"word": pd.Categorical(["a", "b", "a"]), "n": pd.array([1, 2, 3], "Int32")}),
        pl.DataFrame({"word": ["a", "b", "a"], "n": [1, 2, 3]}).with_columns(
            pl.col("word").cast(pl.Categorical), pl.col("n").cast(pl.UInt8)
        ),
        pa.table({"word": pa.array(["a", "b", "a"]).dictionary_encode(), "n": [1, 2, 3]}),
        pl.concat(
            [
                pl.DataFrame({"word": ["a", "b"], "n": [1, 2]}),
                pl.DataFrame({"word": ["a"], "n": [3]}),
            ],
            rechunk=False,
        ),
    ],
    ids=["pandas", "polars", "pyarrow", "chunks"],
)
def test_types_of_their_own_are_read(made: Any) -> None:
    assert columns_of(made, "Word") == {"word": ["a", "b", "a"], "n": [1, 2, 3]}


def test_a_bad_frame_is_named(frame: Callable[[Columns], Any]) -> None:
    def read(columns: str) -> str:
        return refusal(lambda: [*srl.examples({"Word": frame(eval(columns))}, by="doc")])

    check(Path(__file__).parent / "golden" / "frames.txt", read)


# examples in tables ------------------------------------------------------------------------------


def test_rows_are_gathered_to_examples(frame: Callable[[Columns], Any]) -> None:
    truth = {"doc": [1, 2], "label": ["x", "y"]}
    one, two, three = srl.examples({"Word": frame(COLUMNS)}, {"Is": frame(truth)}, by="doc")
    word = ValuedAtom(["é"], 1.0)
    assert (one.id, one.evidence, one.truth) == (1, {"Word": [word]}, {"Is": [["x"]]})
    assert (two.id, two.evidence, two.truth) == (2, {}, {"Is": [["y"]]})
    assert three.truth == {} and three.query is None
    assert [row.value for row in three.evidence["Word"]] == [0.5, 0.0]


def test_what_is_no_table_is_said() -> None:
    with pytest.raises(srl.TableError, match="Word: cannot be read as a table: "):
        [*srl.examples({"Word": pd.DataFrame({"doc": [1], "word": [1j]})}, by="doc")]


def test_examples_without_truth_have_none() -> None:
    assert [x.truth for x in srl.examples({"Word": pl.DataFrame(COLUMNS)}, by="doc")] == [
        None,
        None,
    ]
    with pytest.raises(srl.TableError, match="text as names in truth Is, and numbers in evidence"):
        [*srl.examples({"W": srl.Table({"d": [1]})}, {"Is": srl.Table({"d": ["1"]})}, by="d")]


def test_a_stream_through_tables_teaches_the_same(frame: Callable[[Columns], Any]) -> None:
    stream = [*srl.read(REPO / "streams" / "citations" / "citations.jsonl")][:25]
    parts: dict[str, dict[str, Columns]] = {"evidence": {}, "truth": {}}
    for n, x in enumerate(stream):
        for part, atoms in (("evidence", x.evidence), ("truth", x.truth or {})):
            for name, rows in atoms.items():
                for row in rows:
                    columns = parts[part].setdefault(name, {"n": []})
                    columns["n"].append(n)
                    for at, constant in enumerate(row):
                        columns.setdefault(f"a{at}", []).append(constant)
    frames = {
        part: {name: frame(columns) for name, columns in of.items()} for part, of in parts.items()
    }
    model = srl.Model.read(REPO / "streams" / "citations" / "segmentation.mln")
    learners = [srl.OnlineLearner(model, query="InField", sigma=0.003) for _ in range(2)]
    learners[0].learn_many(stream)
    learners[1].learn_many(srl.examples(**frames, by="n"))
    assert learners[0].weights_text() == learners[1].weights_text()


# Parquet -----------------------------------------------------------------------------------------

MLN = """person = {Anna, Bob, Carl}
Friends(person, person)
Smokes(person)
2 Friends(x, y) => (Smokes(x) <=> Smokes(y))
-1 Smokes(x)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.mln").write_text(MLN)
    (tmp_path / "e.db").write_text("Friends(Anna, Bob)\nFriends(Bob, Carl)\nSmokes(Anna)\n")
    friends = {"x": ["Anna", "Bob"], "y": ["Bob", "Carl"], "value": [True, True]}
    write_parquet(tmp_path / "Friends.parquet", friends)
    write_parquet(tmp_path / "Smokes.parquet", {"who": ["Anna", "Anna"]})
    (tmp_path / "m.psl").write_text("2: Friends(A, B) & Smokes(A) -> Smokes(B)\n1: !Smokes(A) ^2\n")
    declared = "predicates: {Friends/2: closed, Smokes/1: open}\n"
    (tmp_path / "m.data").write_text(
        declared + "observations: {Friends: f.txt, Smokes: s.txt}\ntargets: {Smokes: t.txt}\n"
    )
    (tmp_path / "p.data").write_text(
        declared + "observations: {Friends: Friends.parquet, Smokes: Smokes.parquet}\n"
        "targets: {Smokes: t.parquet}\n"
    )
    (tmp_path / "f.txt").write_text("Anna\tBob\nBob\tCarl\n")
    (tmp_path / "s.txt").write_text("Anna\n")
    (tmp_path / "t.txt").write_text("Bob\nCarl\n")
    write_parquet(tmp_path / "t.parquet", {"who": ["Bob", "Carl"]})
    return tmp_path


def infer(capfd: pytest.CaptureFixture[str], folder: Path, *options: str) -> str:
    paths = [str(folder / each) if "." in each or each == "found" else each for each in options]
    capfd.readouterr()
    assert command("infer", *paths) == 0
    return capfd.readouterr().out


@pytest.mark.parametrize("method", ["mpe", "exact"])
def test_parquet_is_evidence_and_answer(
    folder: Path, capfd: pytest.CaptureFixture[str], method: str
) -> None:
    asked = ("--model", "m.mln", "--query", "Smokes", "--method", method)
    lines = infer(capfd, folder, *asked, "--evidence", "e.db")
    tables = ("--evidence", "Friends.parquet", "--evidence", "Smokes.parquet")
    assert infer(capfd, folder, *asked, *tables) == lines
    assert infer(capfd, folder, *asked, *tables, "--tables", "found") == ""
    found = read_parquet(folder / "found" / "Smokes.parquet")
    assert found["person"] == ["Bob", "Carl"]
    assert [float(line.split()[1]) for line in lines.splitlines()] == pytest.approx(found["value"])


def test_parquet_is_data_of_psl(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = infer(capfd, folder, "--model", "m.psl", "--data", "m.data")
    assert infer(capfd, folder, "--model", "m.psl", "--data", "p.data") == lines
    infer(capfd, folder, "--model", "m.psl", "--data", "p.data", "--tables", "found")
    found = read_parquet(folder / "found" / "Smokes.parquet")
    rows = [f"Smokes\t{who}\t{v:.10g}" for who, v in zip(*found.values(), strict=True)]
    assert rows == lines.splitlines()


def test_a_bad_file_is_named(folder: Path) -> None:
    model, path = srl.Model.read(folder / "m.mln"), folder / "Friends.parquet"

    def read(columns: str) -> str:
        write_parquet(path, eval(columns))
        return refusal(lambda: srl.infer(model, path, "Smokes")).replace(str(folder), "FOLDER")

    check(Path(__file__).parent / "golden" / "files.txt", read)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"x": ["Anna"]}, "Friends has 2 arguments; expected as many columns, and value; found x"),
        ({"x": ["Anna"], "y": ["Bob"], "value": [2.0]}, "from 0 to 1, not 2"),
    ],
)
def test_a_bad_file_of_psl_is_named(
    folder: Path, capfd: pytest.CaptureFixture[str], columns: Columns, said: str
) -> None:
    write_parquet(folder / "Friends.parquet", columns)
    model = ["--model", str(folder / "m.psl"), "--data", str(folder / "p.data")]
    assert command("infer", *model) == 65
    message = capfd.readouterr().err
    assert said in message and "Friends.parquet:1:1" in message


def test_what_is_no_parquet_is_named(folder: Path) -> None:
    (folder / "Friends.parquet").write_text("Anna,Bob\n")
    model = srl.Model.read(folder / "m.mln")
    with pytest.raises(srl.StorageError, match=r"Friends\.parquet: "):
        srl.infer(model, folder / "Friends.parquet", "Smokes")
    with pytest.raises(srl.StorageError, match=r"Nobody\.parquet: cannot read"):
        srl.infer(model, folder / "Nobody.parquet", "Smokes")
