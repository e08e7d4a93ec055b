"""Numbers as evidence, by every road: lines, databases, tables, facts, Python; answers about one world."""

import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from conftest import Job, command

import onlinesrl as srl
from onlinesrl.core.errors import DatabaseError
from onlinesrl.logic.database import load_db, parse_db
from onlinesrl.logic.dialect import DIALECTS
from onlinesrl.logic.tables import write_parquet
from onlinesrl.mln.lang.reader import parse
from tests.support.golden import check, refusal

GOLDEN = Path(__file__).parent / "golden"

MODEL = """Score(person): real
Near(person, person): real
Bias(): real
Known(person)
Good(person)
1.5 Score(x) => Good(x)
-0.5 Bias() ^ Good(x)
2 Near(x, y) ^ Known(x) => (Good(x) <=> Good(y))
"""
NUMBERS = {
    "Score": {"Anna": 0.75, "Bob": -1.5, "Carl": 1.0, "Dora": 0.0},
    "Near": {("Anna", "Bob"): 0.5, ("Anna", "Carl"): -0.25, ("Bob", "Carl"): 1.5},
    "Bias": {(): -1.0},
}
GIVEN: dict[str, Any] = {**NUMBERS, "Known": ["Anna", "Bob"]}
DATABASE = """Score(Anna) = 0.75
Score(Bob) = -1.5 Score(Carl)=1
Score(Dora) = 0
Near(Anna, Bob) = +.5
Near(Anna, Carl) = -25e-2
Near(Bob, Carl) = 1.5
Bias() = -1
Known(Anna)
Known(Bob)
"""
DATABASE = DATABASE.replace(" Score(Carl)", "\nScore(Carl)")
PEOPLE = ("Anna", "Bob", "Carl", "Dora")


def worth(good: dict[str, bool]) -> float:
    """The weights of the true clauses: those of `<=>` are two, each with half of the weight."""
    total = sum(1.5 * x * good[p] for p, x in NUMBERS["Score"].items())
    total += sum(0.5 * good[p] for p in PEOPLE)
    for (x, y), number in NUMBERS["Near"].items():
        total += number * ((not good[x] or good[y]) + (not good[y] or good[x]))
    return total


STATES = [dict(zip(PEOPLE, good, strict=True)) for good in product([False, True], repeat=4)]


def marginals() -> dict[tuple[str, ...], float]:
    z = sum(math.exp(worth(state)) for state in STATES)
    return {(p,): sum(math.exp(worth(state)) for state in STATES if state[p]) / z for p in PEOPLE}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    model, database = tmp_path / "m.mln", tmp_path / "e.db"
    model.write_text(MODEL)
    database.write_text(DATABASE)
    return model, database


# answers about one world -------------------------------------------------------------------------


@pytest.mark.parametrize("road", ["Python", "a database", "tables", "Parquet"])
def test_marginals_are_those_of_all_states(road: str, files: tuple[Path, Path]) -> None:
    evidence: Any = GIVEN
    if road == "a database":
        evidence = files[1]
    if road == "tables":
        evidence = {**GIVEN, "Score": pd.DataFrame(
            {"person": [*NUMBERS["Score"]], "value": [*NUMBERS["Score"].values()]}
        )}  # fmt: skip
    if road == "Parquet":
        columns = {"person": [*NUMBERS["Score"]], "value": [*NUMBERS["Score"].values()]}
        write_parquet(files[1].with_name("Score.parquet"), columns)
        lines = [line for line in DATABASE.splitlines() if not line.startswith("Score")]
        files[1].write_text("\n".join(lines))
        evidence = [files[1], files[1].with_name("Score.parquet")]
    found = srl.infer(MODEL, evidence, "Good", method="exact")["Good"]
    assert found == pytest.approx(marginals())


def test_the_ground_network_has_the_products(
    files: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    model, database = map(str, files)
    assert command("ground", "--model", model, "--evidence", database, "--query", "Good") == 0
    lines = capfd.readouterr().out.splitlines()
    assert {"1.125 Good(Anna)", "-2.25 Good(Bob)", "-0.5 !Good(Bob)"} <= {*lines}
    assert {"0.5 !Good(Anna) v Good(Bob)", "-0.25 Good(Anna) v !Good(Carl)"} <= {*lines}
    assert not any(line[:2] == "0 " for line in lines)


# databases ---------------------------------------------------------------------------------------


def test_a_database_gives_numbers_after_the_sign_of_equality() -> None:
    found = {atom[:2]: atom.value for atom in parse_db(DATABASE)}
    expected = {
        (name, (row,) if isinstance(row, str) else row): value
        for name, of in NUMBERS.items()
        for row, value in of.items()
    }
    assert found == expected | {("Known", (p,)): True for p in GIVEN["Known"]}


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_has_numbers(name: str, tmp_path: Path) -> None:
    path = tmp_path / "e.db"
    path.write_text("Score(Anna) = -0.5\n")
    (atom,) = load_db(path, parse(MODEL), DIALECTS[name])
    assert atom.value == -0.5


def test_a_bad_number_in_a_database_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "e.db"

    def read(text: str) -> str:
        path.write_text(text + "\n")
        return refusal(lambda: load_db(path, parse(MODEL))).replace(str(path), "e.db")

    check(GOLDEN / "numbers.txt", read)


def test_an_atom_with_two_numbers(files: tuple[Path, Path]) -> None:
    more = files[1].with_name("more.db")
    more.write_text("Score(Anna) = 0.5\n")
    with pytest.raises(DatabaseError, match=r"Score\(Anna\) has another value in .*e\.db:1"):
        srl.infer(MODEL, [files[1], more], "Good")


@pytest.mark.parametrize("query", ["Score", "Good,Score"])
def test_numeric_predicates_are_not_asked_for(query: str) -> None:
    with pytest.raises(srl.OnlinesrlError, match="Score is numeric"):
        srl.infer(MODEL, GIVEN, query.split(","))


def test_predicates_without_numbers_are_not_open() -> None:
    found = srl.infer(MODEL, {"Score": {"Anna": 2.0}}, "Good", closed=["Known"])
    assert found.stats["warnings"] == []
    assert found["Good"] == {("Anna",): 1.0}


# runs --------------------------------------------------------------------------------------------

EXAMPLE = {
    "id": 1,
    "evidence": {
        "Score": [{"args": ["Anna"], "value": 0.75}, {"args": ["Bob"], "value": 1}],
        "Known": [["Anna"]],
    },
    "truth": {"Good": [["Anna"]]},
}


def test_bad_numbers_are_dead_letters(job: Callable[..., Job], tmp_path: Path) -> None:
    """With their place and reason; the weights are those of the good lines."""
    good = json.dumps(EXAMPLE).encode() + b"\n"
    bad = [good.replace(b"0.75", number) for number in (b"NaN", b"1e40", b"null", b'"0.75"')]
    bad += [good.replace(b'{"args": ["Anna"], "value": 0.75}', b'["Anna"]')]
    (tmp_path / "m.mln").write_text(MODEL)
    keys = {
        "model": str(tmp_path / "m.mln"),
        "query": "Good",
        "metrics": {},
        "limits": {"bad_share": 1},
    }
    some, clean = job([good, *bad, good], "some", **keys), job([good, good], "clean", **keys)
    assert (some.run(), clean.run()) == (0, 0)
    letters = some.lines("deadletter.jsonl")
    assert [letter["line"] for letter in letters] == [2, 3, 4, 5, 6]
    assert "expected a number from -1e+30 to 1e+30" in letters[1]["reason"]
    assert "got `null`" in letters[2]["reason"]
    assert "has no value, and Score is numeric" in letters[4]["reason"]
    assert some.results()["weights.mln"] == clean.results()["weights.mln"]


def test_databases_tables_and_facts_learn_the_same_weights(tmp_path: Path) -> None:
    """Worlds as lines, as databases, in Parquet files, and with scores as facts of all examples."""
    atoms = EXAMPLE["evidence"], EXAMPLE["truth"]
    (tmp_path / "lines.jsonl").write_text(json.dumps(EXAMPLE) + "\n")
    database = "Score(Anna) = 0.75\nScore(Bob) = 1\nKnown(Anna)\n"
    (tmp_path / "worlds").mkdir()
    (tmp_path / "worlds" / "1.db").write_text(database + "Good(Anna)\n")
    (tmp_path / "facts.db").write_text(database)
    (tmp_path / "rest.jsonl").write_text(json.dumps({"id": 1, "evidence": {}, "truth": atoms[1]}))
    columns: dict[str, dict[str, list[Any]]] = {
        "evidence/Score": {"id": [1, 1], "person": ["Anna", "Bob"], "value": [0.75, 1.0]},
        "evidence/Known": {"id": [1], "person": ["Anna"]},
        "truth/Good": {"id": [1], "person": ["Anna"]},
    }
    for name, of in columns.items():
        write_parquet(tmp_path / "tables" / f"{name}.parquet", of)
    (tmp_path / "m.mln").write_text(MODEL)
    sources: list[dict[str, Any]] = [
        {"path": tmp_path / "lines.jsonl"},
        {"path": tmp_path / "worlds"},
        {"path": tmp_path / "rest.jsonl", "background": tmp_path / "facts.db"},
        {"kind": "parquet", "path": tmp_path / "tables", "by": "id"},
    ]
    found = []
    for n, source in enumerate(sources):
        keys = {
            "model": str(tmp_path / "m.mln"),
            "query": "Good",
            "output": str(tmp_path / f"o{n}"),
        }
        of = {key: str(value) for key, value in source.items()}
        assert srl.run({**keys, "source": of})["bad"] == 0
        found.append((tmp_path / f"o{n}" / "weights.mln").read_bytes())
    assert len({*found}) == 1


def test_facts_that_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "facts.db").write_text("Known(Anna)\nScore(Anna) = 1\nScore(Anna) = 2\n")
    (tmp_path / "lines.jsonl").write_text(json.dumps(EXAMPLE) + "\n")
    (tmp_path / "m.mln").write_text(MODEL)
    source = {"path": str(tmp_path / "lines.jsonl"), "background": str(tmp_path / "facts.db")}
    keys = {"model": str(tmp_path / "m.mln"), "query": "Good", "output": str(tmp_path / "o")}
    with pytest.raises(DatabaseError, match="another value here than in line 2"):
        srl.run({**keys, "source": source})


# Python ------------------------------------------------------------------------------------------


def learner(**keys: Any) -> srl.OnlineLearner:
    return srl.OnlineLearner(MODEL, query="Good", **keys)


def test_numbers_in_mappings_and_tables_are_those_of_lines() -> None:
    table = pd.DataFrame({"person": ["Anna", "Bob"], "value": [0.75, 1.0]})
    truth = {"Good": ["Anna"]}
    found = []
    for x in (
        msgspec.json.decode(json.dumps(EXAMPLE), type=srl.Example),
        {"Score": {"Anna": 0.75, "Bob": 1}, "Known": ["Anna"]},
        {"Score": table, "Known": ["Anna"]},
    ):
        own = learner()
        own.learn_one(x, truth)
        found.append(own.weights.table().columns)
    shared = learner(background={"Score": table})
    shared.learn_one({"Known": ["Anna"]}, truth)
    found.append(shared.weights.table().columns)
    assert all(each == found[0] for each in found)


def test_a_bad_number_is_an_error_and_changes_nothing() -> None:
    """Of an example, of the evidence of a query, and among facts."""
    own = learner()
    own.learn_one({"Score": {"Anna": 0.5}}, {"Good": []})
    before = own.weights.table().columns

    def learn(given: str) -> str:
        bad = {"Score": eval(given, {"pd": pd})}
        said = refusal(lambda: own.learn_one(bad, {"Good": []}))
        assert own.weights.table().columns == before
        assert "Score" in refusal(lambda: srl.infer(MODEL, bad, "Good"))
        assert "Score" in refusal(lambda: learner(background=bad))
        return said

    check(GOLDEN / "numbers_in_python.txt", learn)


def test_a_checkpoint_keeps_numeric_facts(tmp_path: Path) -> None:
    own = learner(background={"Score": {"Anna": 1, "Bob": 0.25}})
    own.learn_one({"Known": ["Anna"]}, {"Good": ["Bob"]})
    own.save(tmp_path / "own.ckpt")
    again = srl.OnlineLearner.load(tmp_path / "own.ckpt")
    for each in (own, again):
        each.learn_one({"Known": ["Bob"]}, {"Good": ["Anna"]})
    assert again.weights.table().columns == own.weights.table().columns
