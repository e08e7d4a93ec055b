"""PSL's models and data: JSON, .data files, tab-separated atoms."""

import json
from pathlib import Path

import numpy as np
import pytest

from onlinesrl.core.errors import DatabaseError, ModelError, StorageError
from onlinesrl.psl.lang.data import DataFiles, read_database
from onlinesrl.psl.lang.linear_form import normal_rules
from onlinesrl.psl.lang.model import load_json, load_psl
from onlinesrl.psl.lang.reader import load
from onlinesrl.psl.lang.text import show_rule
from tests.support.golden import check, refusal
from tests.support.paths import SHARED

GOLDEN = Path(__file__).parent / "golden"

CASES = SHARED / "peers" / "psl" / "cases"


def written(folder, **texts):
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {name: folder / name for name in texts}


def test_data_as_arrays(tmp_path):
    files = written(
        tmp_path,
        obs="Anna Lee\tBob\t0.25\r\nBob\tAnna Lee\n\n",
        goal="Bob\tCarl\n",
        truth="Bob\tCarl\t0.5",
    )
    database = read_database(
        {
            "Knows": DataFiles(2, (files["obs"],), (files["goal"],), (files["truth"],)),
            "Empty": DataFiles(3),
        }
    )
    assert database.constants == ("Anna Lee", "Bob", "Carl")
    knows = database.relations["Knows"]
    assert knows.observed.columns.dtype == np.int32
    assert knows.observed.columns.tolist() == [[0, 1], [1, 0]]
    assert knows.observed.values.tolist() == [0.25, 1.0]
    assert knows.targets.columns.tolist() == [[1], [2]]
    assert np.isnan(knows.targets.values).all()
    assert knows.truth.values.tolist() == [0.5]
    assert not knows.closed
    empty = database.relations["Empty"]
    assert empty.closed
    assert empty.observed.columns.shape == (3, 0)


def test_an_atom_listed_again_counts_once(tmp_path):
    files = written(tmp_path, a="b\t1\nc\t0.5\nb\n", b="d\nc\t0.50\n", t="x\ny\t0.5\nx\n")
    database = read_database({"P": DataFiles(1, (files["a"], files["b"]), (files["t"],))})
    relation = database.relations["P"]
    assert [database.constants[i] for i in relation.observed.columns[0]] == ["b", "c", "d"]
    assert relation.observed.values.tolist() == [1.0, 0.5, 1.0]
    assert relation.targets.values.tolist()[1:] == [0.5]


def test_mistakes_in_data_have_a_place(tmp_path):
    """Without a file of targets, and where lines are targets that are observed."""

    def read(given):
        files = written(tmp_path, data=eval(given), obs="q\tq\nx\ty\n")
        observed = DataFiles(2, (files["obs"],), (files["data"],))
        plain = DataFiles(2, (files["data"],))
        of = observed if "x" in given else plain
        return refusal(lambda: read_database({"P": of})).replace(str(tmp_path), "FOLDER")

    check(GOLDEN / "data.txt", read)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StorageError, match="cannot read"):
        read_database({"P": DataFiles(1, (tmp_path / "none",))})


CONFIG = {
    "options": {"inference.normalize": True},
    "rules": ["1: Knows(A, B) -> Knows(B, A) ^2", "Knows(A, +B) <= 1 . {B: Likes(A, B)}"],
    "predicates": {
        "Knows/2": {
            "targets": {"learn": ["learn.txt"], "infer": "infer.txt"},
            "evaluations": ["DiscreteEvaluator"],
        },
        "Likes/2": {"observations": ["likes.txt"]},
    },
}


def saved(folder, indent=2, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**CONFIG, **changes}, indent=indent))
    return path


def test_json(tmp_path):
    written(tmp_path, **{"learn.txt": "a\tb\n", "infer.txt": "c\td\n", "likes.txt": "a\tb\t0.5\n"})
    model = load_json(saved(tmp_path))
    assert [show_rule(each) for each in model.program.rules] == CONFIG["rules"]
    assert model.program.rules[1].position.line == 7
    assert dict(model.options) == {"inference.normalize": True}
    assert model.database().constants == ("c", "d", "a", "b")
    assert model.database("learn").constants == ("a", "b")


@pytest.mark.parametrize("indent", [None, 2, "\t"])
def test_mistakes_in_the_rules_of_json_have_a_place(tmp_path, indent):
    rules = ["1: Knows(A, B) -> Knows(B, A)", "1: Knows(A, 'x') -> Knws(A, B)"]
    path = saved(tmp_path, indent, rules=rules)
    with pytest.raises(ModelError) as caught:
        load_json(path)
    line = path.read_text().split("\n")[caught.value.line - 1]
    assert line[caught.value.column - 1 :].startswith("Knws")
    assert caught.value.hint == "did you mean Knows?"


def test_a_rule_of_json_with_escapes(tmp_path):
    rules = ["1: Knows(A, '\u00e9')  // so\n -> Likes(A, '\\\"')"]
    model = load_json(saved(tmp_path, rules=rules))
    assert [show_rule(each) for each in model.program.rules] == [
        "1: Knows(A, '\u00e9') -> Likes(A, '\"')"
    ]


def test_a_function_has_the_name_that_the_model_gives_it(tmp_path):
    predicates = {**CONFIG["predicates"], "Near/2": {}}
    rules = ["1: Likes(A, B) & NEAR(A, B) -> Knows(A, B)"]
    path = saved(tmp_path, rules=rules, predicates=predicates)
    model = load_json(path, {"near": lambda a, b: float(a != b)})
    assert {*model.functions} == {"Near"} == model.program.functions
    assert "Near" not in model.files["infer"]


def test_mistakes_in_json(tmp_path):
    def read(given):
        said = refusal(lambda: load_json(saved(tmp_path, **eval(given))))
        return said.replace(str(tmp_path), "FOLDER")

    check(GOLDEN / "json.txt", read)


def test_what_is_not_json(tmp_path):
    path = written(tmp_path, **{"config.json": '{"rules": [}'})["config.json"]
    with pytest.raises(ModelError, match=r"config\.json:1:12: not valid YAML"):
        load_json(path)


def test_rules_with_a_data_file(tmp_path):
    files = written(
        tmp_path,
        **{
            "m.psl": "1: Likes(A, B) & Near(A, B) -> Knows(A, B)",
            "m.data": "predicates:\n  Knows/2: open\n  Likes/2: closed\n  Near/2: closed\n"
            "observations:\n  Likes: [likes.txt]\ntargets:\n  Knows: knows.txt\n",
            "likes.txt": "a\tb\n",
            "knows.txt": "a\tb\n",
        },
    )
    model = load_psl(files["m.psl"], files["m.data"], {"Near": lambda a, b: float(a != b)})
    assert model.program.functions == {"Near"}
    assert {*model.database().relations} == {"Knows", "Likes"}
    assert not model.database("learn").relations["Knows"].closed
    files["m.data"].write_text("predicates:\n  Likes/2: closed\ntargets:\n  Likes: likes.txt\n")
    with pytest.raises(ModelError, match="a closed predicate has no targets"):
        load_psl(files["m.psl"], files["m.data"])


@pytest.mark.skipif(not CASES.exists(), reason="needs the peers' cases in ../shared")
def test_the_peers_json_and_rules_are_the_same():
    folders = sorted(each for each in CASES.iterdir() if each.is_dir())
    assert folders
    for folder in folders:
        model, program = load_json(folder / "config.json"), load(folder / "model.psl")
        assert model.program.rules == program.rules, folder.name
        assert normal_rules(model.program) == normal_rules(program), folder.name


@pytest.mark.skipif(not CASES.exists(), reason="needs the peers' cases in ../shared")
def test_the_peers_splits():
    model = load_json(CASES / "smokers-learn-5k" / "config.json")
    infer, learn = model.database(), model.database("learn")
    assert len(infer.relations["Friend"].observed) == 5000
    assert not np.array_equal(
        infer.relations["Friend"].observed.columns, learn.relations["Friend"].observed.columns
    )


@pytest.mark.parametrize(
    "kind",
    [
        "closed",
        "[closed, types: [UniqueStringID, UniqueStringID]]",
        "\n    - types:\n      - UniqueStringID\n      - UniqueIntID\n    - closed",
        "[closed]",
    ],
)
def test_a_predicate_may_have_a_list_of_what_it_is(tmp_path, kind):
    text = f"predicates:\n  K/2: {kind}\n  S/1: open\nobservations:\n  K: k.txt\ntargets:\n  S: k.txt\n"
    files = written(tmp_path, **{"m.psl": "1: K(A, B) -> S(A)\n", "m.data": text})
    assert load_psl(files["m.psl"], files["m.data"]).program.predicates == {"K": 2, "S": 1}
    closed = written(tmp_path, **{"c.data": text.replace("targets:\n  S", "targets:\n  K")})
    with pytest.raises(ModelError, match="K is closed: a closed predicate has no targets"):
        load_psl(files["m.psl"], closed["c.data"])


def test_what_a_predicate_cannot_be_is_said(tmp_path):
    def read(kind):
        text = f"predicates:\n  K/2: {kind}\n"
        files = written(tmp_path, **{"m.psl": "1: K(A, B)\n", "m.data": text})
        said = refusal(lambda: load_psl(files["m.psl"], files["m.data"]))
        return said.replace(str(tmp_path), "FOLDER")

    check(GOLDEN / "predicates.txt", read)


def test_lines_are_trimmed_as_psl_does(tmp_path):
    """Blanks and tabs at both ends of a line are no part of a constant; others are."""
    text = "ann\tbob \n  bob\tc d\t0.5\t \n \t \n\tcid\tann\r\n"
    files = written(tmp_path, k=text, short="ann\t\n")
    database = read_database({"K": DataFiles(2, (files["k"],))})
    assert database.constants == ("ann", "bob", "cid", "c d")
    assert database.relations["K"].observed.values.tolist() == [1.0, 0.5, 1.0]
    with pytest.raises(DatabaseError, match="separated by tabs, not 1 fields"):
        read_database({"K": DataFiles(2, (files["short"],))})
