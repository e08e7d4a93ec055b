"""Batch learning as a command and from Python: what it writes, refuses, and leaves behind."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import command

import onlinesrl as srl
from onlinesrl.core.learning.batch import Trace
from onlinesrl.mln.learning.problem import MlnProblem
from onlinesrl.runs import batch_learning
from onlinesrl.runs.config import loading
from tests.support.golden import check

PSL = "1: Knows(A, B) & Likes(A) -> Likes(B) ^2\n1: !Likes(A) ^2\nLikes(A) <= 1 .\n"
DATA = """predicates: {Knows/2: closed, Likes/1: open}
observations: {Knows: knows.txt}
targets: {Likes: likes.txt}
truth: {Likes: truth.txt}
"""
MLN = (
    "Knows(p, p)\nLikes(p)\nIs(p, kind)\nKnows(x, y) ^ Likes(x) => Likes(y)\nIs(x, +k) ^ Likes(x)\n"
)
WORLDS = ["Knows(A, B)\nLikes(A)\nLikes(B)\nIs(A, Tall)\n", "Knows(A, B)\nIs(B, Old)\n!Likes(C)\n"]


@pytest.fixture
def psl(tmp_path):
    """A configuration, with its files beside it."""
    (tmp_path / "m.psl").write_text(PSL)
    (tmp_path / "m.data").write_text(DATA)
    (tmp_path / "knows.txt").write_text("ann\tbob\nbob\tcat\n")
    (tmp_path / "likes.txt").write_text("ann\nbob\ncat\n")
    (tmp_path / "truth.txt").write_text("ann\t1\nbob\t0.9\ncat\t0.2\n")
    config = tmp_path / "learn.yaml"
    config.write_text(f"model: m.psl\ndata: m.data\ntest: m.data\noutput: {tmp_path / 'out'}\n")
    return config


@pytest.fixture
def mln(tmp_path):
    (tmp_path / "m.mln").write_text(MLN)
    for number, text in enumerate(WORLDS):
        (tmp_path / f"{number}.db").write_text(text)
    config = tmp_path / "learn.yaml"
    config.write_text(
        f"model: m.mln\nsource: {{path: [0.db, 1.db]}}\nquery: Likes\nlearner: {{prior_sd: 1}}\n"
        f"test: {{path: 0.db}}\noutput: {tmp_path / 'out'}\n"
    )
    return config


@pytest.mark.parametrize("language", ["psl", "mln"])
def test_the_result_is_a_model_that_loads_again(language, request, capsys):
    config = request.getfixturevalue(language)
    assert command("learn", str(config)) == 0
    folder = config.parent / "out"
    assert {file.name for file in folder.iterdir()} == {f"weights.{language}", "learned.json"}
    found = json.loads((folder / "learned.json").read_text())
    shown = capsys.readouterr().out
    assert all(each["rule"] in shown for each in found["weights"])
    assert found["objective"] and found["scores"]["Likes"]["atoms"]
    trained = srl.Model.read(folder / f"weights.{language}")
    learned = [each["weight"] for each in found["weights"]]
    assert [rule.weight for rule in trained.rules if not rule.hard] == learned[
        : 3 - (language == "psl")
    ]
    assert command("learn", str(config)) == 78
    assert "--fresh replaces it" in capsys.readouterr().err
    assert command("learn", str(config), "--fresh") == 0
    assert sorted(file.name for file in config.parent.iterdir() if file.name[0] == ".") == []


def test_mistakes_are_told_and_nothing_is_written(psl, capsys):
    def learn(given):
        file, text = eval(given)
        path, before = psl.parent / file, sorted(psl.parent.iterdir())
        right = path.read_text()
        path.write_text(text)
        code = command("learn", str(psl), "--set", f"output={psl.parent / 'out'}")
        assert sorted(psl.parent.iterdir()) == before
        path.write_text(right)
        said = capsys.readouterr().err.strip().replace(str(psl.parent), "FOLDER")
        return f"{code}: {said[said.index('FOLDER') :]}"

    check(Path(__file__).parent / "golden" / "batch.txt", learn)


def test_a_group_that_no_example_has_is_told_with_its_place(mln, capsys):
    mln.write_text(mln.read_text().replace("test: {", "test:\n  {only: tall, "))
    (mln.parent / "0.jsonl").write_text(
        '{"id": 1, "group": "old", "evidence": {}, "truth": {"Likes": [["A"]]}}\n'
    )
    assert command("learn", str(mln), "--set", f"test.path={mln.parent / '0.jsonl'}") == 78
    said = f"{mln}:6:10: test.only: no example of tall; there are old\n"
    assert capsys.readouterr().err.endswith(said)
    assert not (mln.parent / "out").exists()


def test_test_data_without_truth_are_told(psl):
    untold = psl.parent / "untold.data"
    untold.write_text(DATA.replace("truth: {Likes: truth.txt}\n", ""))
    assert command("learn", str(psl), "--set", f"test={untold}") == 0
    result = json.loads((psl.parent / "out" / "learned.json").read_bytes())
    assert result["warnings"] == ["no atom of the test data has a truth: nothing is scored"]


def test_keys_of_another_command_are_told_as_such(psl, tmp_path, capsys):
    psl.write_text(psl.read_text() + "learner: {kind: lme, cc: 3}\n")
    assert command("run", str(psl)) == 78
    said = f"{psl}:5:1: these are the keys of batch learning: use onlinesrl learn"
    assert capsys.readouterr().err == f"{said}\n"
    assert command("check", str(psl)) == 78
    assert capsys.readouterr().err.startswith(f"{psl}:5:22: learner.cc: unknown key")
    online = tmp_path / "run.yaml"
    online.write_text("model: m.psl\nquery: Likes\nsource: {path: m.jsonl}\nbatch: 3\n")
    assert command("learn", str(online)) == 78
    assert "run.yaml:1:1: these are the keys of online learning: use onlinesrl run" in (
        capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


def test_what_is_no_result_is_left_alone(psl, capsys):
    (psl.parent / "out").mkdir()
    (psl.parent / "out" / "mine").touch()
    assert command("learn", str(psl), "--fresh") == 78
    assert "not a result of learning" in capsys.readouterr().err


def test_a_learner_that_was_stopped_finds_what_it_kept(psl):
    config = loading.load_batch(psl)
    part = config.output.with_name(".out.part")
    part.mkdir()
    (part / "journal").touch()
    batch_learning.learn(config, False, lambda _: None)
    assert not part.exists()
    config.output.rename(config.output.with_name("elsewhere"))
    part.mkdir()
    (part / "journal").touch()
    (part / "settings.json").write_text('{"seed": 7}')
    with pytest.raises(srl.OnlinesrlError, match="made with another configuration"):
        batch_learning.learn(config, False, lambda _: None)


def test_an_objective_that_is_not_finite_ends_learning():
    with pytest.raises(srl.LearningError, match="the objective is nan at step 0"):
        Trace(lambda _: None).add(float("nan"))


def test_learning_in_python_is_that_of_the_command(psl):
    steps: list[tuple[int, float]] = []
    learned = srl.learn(
        srl.Model(PSL, "psl"),
        {"Knows": [("ann", "bob"), ("bob", "cat")]},
        {"Likes": ["ann", "bob", "cat"]},
        truth={"Likes": {("ann",): 1.0, ("bob",): 0.9, ("cat",): 0.2}},
        progress=lambda number, objective: steps.append((number, objective)),
    )
    found = batch_learning.learn(loading.load_batch(psl), False, lambda _: None)
    assert [rule.weight or 0.0 for rule in learned.model.rules] == [
        each["weight"] for each in found["weights"]
    ]
    assert steps == [*enumerate(found["objective"])]


def test_worlds_have_constants_of_their_own(mln):
    """The weights of a rule with ``+`` are those of all constants; each world counts its own only."""
    problem = batch_learning.read_problem(loading.load_batch(mln), None)
    assert isinstance(problem, MlnProblem)
    assert problem.names[1:] == ["Is(x, Tall) ^ Likes(x)", "Is(x, Old) ^ Likes(x)"]
    assert problem.places({"kind": ("Old",)}).tolist() == [0, 2]
    two = srl.learn(
        MLN, [mln.parent / "0.db", mln.parent / "1.db"], "Likes", learner={"prior_sd": 1.0}
    )
    found = batch_learning.learn(loading.load_batch(mln), False, lambda _: None)
    weights = [each["weight"] for each in found["weights"]]
    np.testing.assert_array_equal([rule.weight for rule in two.model.rules], weights)


def test_other_data_are_predicted_with_the_weights_of_their_own_constants(mln):
    problem = batch_learning.read_problem(loading.load_batch(mln), None)
    config = loading.load_batch(mln, [f"source.path={mln.parent / '1.db'}"])
    other = batch_learning.read_problem(config, None)
    assert isinstance(problem, MlnProblem) and isinstance(other, MlnProblem)
    assert problem.names != other.names
    weights = np.array([0.1, -2.0, 2.0])
    both, alone = problem.predicted(weights)["Likes"], problem.predicted(weights, other)["Likes"]
    np.testing.assert_array_equal(both.values[-len(alone.values) :], alone.values)
    assert set(alone.values) == {0.0, 1.0}


def test_a_summary_shows_the_heaviest_of_many_weights():
    weights = [{"rule": f"P({n})", "before": 0.0, "weight": n - 50.0} for n in range(100)]
    result = {
        "objective": [2.0, 1.0],
        "seconds": {"learn_cpu": 0.1, "all": 0.2},
        "learner": {"kind": "mple"},
        "stats": {},
        "scores": {},
        "config": {"output": "out"},
        "weights": weights,
    }
    shown = [*batch_learning.summary(result)]
    assert "P(0)" in shown[6] and shown[-1].strip() == "and 70 smaller ones in learned.json"


@pytest.mark.parametrize("language", ["psl", "mln"])
def test_check_reads_model_and_data_without_learning(
    language: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    config = request.getfixturevalue(language)
    assert command("check", str(config)) == 0
    out = capsys.readouterr().out.splitlines()
    assert (
        out
        == {
            "psl": [
                "learner: mle",
                "model: 3 rules",
                "Knows: 2 observed",
                "Likes: 0 observed, 3 targets, 3 with a truth",
            ],
            "mln": [
                "learner: mple",
                "model: 2 rules",
                "source: 2 worlds with 7 atoms",
                "test: 1 worlds with 4 atoms",
            ],
        }[language]
    )
    assert not (config.parent / "out").exists()
    assert command("check", str(config), "--set", "learner.kind=nothing") == 78
    assert "learner.kind: expected" in capsys.readouterr().err


OPTIONAL = ("clarabel", "pandas", "polars", "pyarrow", "ray", "sklearn", "threadpoolctl")
"""Modules that the README's install does not bring."""


@pytest.mark.parametrize("language", ["psl", "mln"])
def test_the_default_learner_needs_no_extra(
    language: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in OPTIONAL:
        monkeypatch.setitem(sys.modules, module, None)
    assert command("learn", str(request.getfixturevalue(language))) == 0


@pytest.mark.parametrize(
    ("language", "keys", "module", "extra"),
    [
        ("mln", {"kind": "max-margin"}, "clarabel", "qp"),
        ("mln", {"kind": "bayesian"}, "sklearn", "bayesian"),
        ("psl", {"kind": "bayesian"}, "sklearn", "bayesian"),
        ("psl", {"kind": "random", "engine": "ray"}, "ray", "ray"),
    ],
)
def test_a_missing_extra_is_told_before_anything_is_read(
    language: str,
    keys: dict[str, str],
    module: str,
    extra: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = request.getfixturevalue(language)
    (config.parent / f"m.{language}").unlink()
    text = config.read_text().partition("learner")[0] + f"learner: {json.dumps(keys)}\n"
    config.write_text(text)
    monkeypatch.setitem(sys.modules, module, None)
    assert command("learn", str(config)) == 78
    key, value = list(keys.items())[-1]
    line = len(text.splitlines())
    said = capsys.readouterr().err
    assert f"learn.yaml:{line}:" in said
    assert (
        f"learner.{key}: {value} needs the extra {extra}: pip install 'onlinesrl[{extra}]'" in said
    )
