"""Modules of one's own, as the guide has them: outside of the package, by a process and in Python."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from copy import copy
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl import modules
from onlinesrl.core.errors import Infeasible, ModuleError, StorageError
from onlinesrl.core.evaluation.own_metric import AnyMetric
from onlinesrl.core.io import checkpoint_file
from onlinesrl.core.io.config_section import kinds_of
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.online.update_rules import UPDATES, AnyUpdate
from onlinesrl.mln.inference.registry import ENGINES, AnyMlnEngine
from onlinesrl.mln.learning.registry import AnyMlnLearner
from onlinesrl.psl.inference.registry import ENGINES as PSL_ENGINES
from onlinesrl.psl.inference.registry import AnyPslEngine
from onlinesrl.runs.config.loading import load
from onlinesrl.stream.sinks import AnySink
from onlinesrl.stream.sources import AnySource
from onlinesrl.stream.sources.own import OwnRecords
from onlinesrl.testing import (
    check_batch_learner,
    check_engine,
    check_metric,
    check_sink,
    check_source,
    check_update,
)
from tests.support.golden import check, refusal

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "onlinesrl" / "guide"
SAVED = re.compile(r"`([\w.]+)`(?:\.[^`]*|:)\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
PSL_MODEL = "0.7: Likes(a) & Near(a, b) -> Likes(b) ^2\n0.3: !Likes(a) ^2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the quickstart and of the page on modules."""
    (tmp_path / "mine").mkdir()
    for page in ("quickstart", "modules"):
        for name, text in SAVED.findall((GUIDE / f"{page}.md").read_text()):
            (tmp_path / "mine" / name).write_text(text)
    return tmp_path / "mine"


@pytest.fixture
def mine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder on this process's path."""
    monkeypatch.syspath_prepend(folder)
    for file in folder.glob("*.py"):
        monkeypatch.delitem(sys.modules, file.stem, raising=False)
    return folder


def command(folder: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Call the command line in a process, from the folder above."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), path]))}
    words = [sys.executable, "-P", "-m", "onlinesrl", *arguments]
    return subprocess.run(
        words, cwd=folder.parent, env=environment, capture_output=True, text=True, check=False
    )


def rules(text: str) -> str:
    """The lines of a file of weights without its comments."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("//"))


def run(folder: Path, name: str, *more: str) -> tuple[str, list[dict[str, Any]]]:
    """Run a configuration; return its weights, without the first line, and its predictions."""
    done = command(folder, "run", f"mine/{name}.yaml", *more)
    assert done.returncode == 0, done.stderr
    output = folder.parent / "runs" / name
    text = rules((output / "weights.mln").read_text())
    lines = (output / "predictions.jsonl").read_text().splitlines()
    return text, [json.loads(line) for line in lines]


def learned(folder: Path, **options: Any) -> str:
    """Learn in Python from the mails of the quickstart; return the weights."""
    model = srl.Model.read(folder / "mail.mln")
    learner = srl.OnlineLearner(model, "Label", **options)
    learner.learn_many(srl.read(folder / "mail.jsonl"))
    return rules(learner.weights_text())


# update rules -------------------------------------------------------------------------------------


def test_a_rule_of_the_guide_learns_the_same_in_a_process_and_in_python(mine: Path) -> None:
    alma = import_module("steps").Alma
    check_update(alma)
    weights, _ = run(mine, "steps")
    for update in (alma(speed=0.5), {"update": alma, "speed": 0.5}):
        assert learned(mine, update=update) == weights
    assert learned(mine, update={"update": "steps:Alma", "speed": 0.5}) == weights
    assert learned(mine, update=alma) == learned(mine, update="steps:Alma") != weights
    learner = srl.OnlineLearner(srl.Model.read(mine / "mail.mln"), "Label", update=alma)
    learner.learn_many(srl.read(mine / "mail.jsonl"))
    assert learner.certificate["regret_bound"] is None


def test_a_run_goes_on_with_its_module_and_not_with_another(folder: Path) -> None:
    lines = (folder / "mail.jsonl").read_text().splitlines(keepends=True)
    whole, _ = run(folder, "steps")
    (folder / "mail.jsonl").write_text(lines[0])
    run(folder, "steps", "--fresh")
    (folder / "mail.jsonl").write_text("".join(lines))
    assert run(folder, "steps")[0] == whole
    other = command(folder, "run", "mine/steps.yaml", "--set", "learner.speed=0.7")
    assert (other.returncode, "learner.speed: was 0.5, is 0.7" in other.stderr) == (78, True)


def test_what_is_wrong_is_told_with_its_place(mine: Path) -> None:
    (mine / "broken.py").write_text("1 / 0\n")
    text = (mine / "steps.yaml").read_text().splitlines()

    def read(line: str) -> str:
        (mine / "steps.yaml").write_text("\n".join([*text[:3], f"learner: {line}\n"]))
        return refusal(lambda: load(mine / "steps.yaml")).replace(str(mine), "FOLDER")

    check(Path(__file__).parent / "golden" / "modules.txt", read)


def test_an_installed_package_names_its_rules(folder: Path) -> None:
    package = folder.parent / "installed"
    (package / "alma-1.dist-info").mkdir(parents=True)
    (package / "alma-1.dist-info" / "METADATA").write_text("Name: alma\nVersion: 1\n")
    points = "[onlinesrl.updates]\nalma = steps:Alma\n"
    (package / "alma-1.dist-info" / "entry_points.txt").write_text(points)
    (folder / "steps.py").rename(package / "steps.py")
    named = ["run", "mine/steps.yaml", "--set", "learner.update=alma"]
    done = command(folder, *named, path=str(package))
    assert done.returncode == 0, done.stderr
    other = command(
        folder, "check", "mine/steps.yaml", "--set", "learner.update=x", path=str(package)
    )
    assert "'second-order', 'alma' or module:Class, found 'x'" in other.stderr


def test_a_checkpoint_imports_nothing(mine: Path, tmp_path: Path) -> None:
    learner = srl.OnlineLearner(srl.Model.read(mine / "mail.mln"), "Label", update="steps:Alma")
    learner.save(tmp_path / "saved")
    again = srl.OnlineLearner.load(tmp_path / "saved")
    assert again.settings == learner.settings
    del sys.modules["steps"]
    with pytest.raises(srl.UsageError, match="import steps before"):
        srl.OnlineLearner.load(tmp_path / "saved")
    assert "steps" not in sys.modules
    told = command(mine, "weights", str(tmp_path / "saved"), path=str(mine))
    assert told.returncode == 64
    assert "a checkpoint must not import" in told.stderr
    told = command(mine, "checkpoint", "verify", str(tmp_path / "saved"), path=str(mine))
    assert (told.returncode, "1 intact, 0 damaged" in told.stdout) == (0, True)
    assert "intact, and not restored: learner.update: steps:Alma is of a module" in told.stdout


class Refused(modules.Update):
    """No kernel."""

    @staticmethod
    def formula(params, t, margin, dot, norm):
        return 1.0, 0.0


class Whole(modules.Update):
    """Returns whole numbers, whose bits would be read as floats."""

    @staticmethod
    @kernel
    def formula(params, t, margin, dot, norm):
        return 1, 0


class Unbounded(modules.Update):
    """Its steps may be infinite."""

    @staticmethod
    @kernel
    def formula(params, t, margin, dot, norm):
        return norm / (margin - dot), 0.0


class Untyped(modules.Update):
    """Cannot be compiled."""

    @staticmethod
    @kernel
    def formula(params, t, margin, dot, norm):
        return params.nothing, 0.0


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Refused, "is no kernel: write @kernel"),
        (Whole, r"returns .*, expected UniTuple\(float64 x 2\)"),
        (Unbounded, "is not finite"),
        (Untyped, "cannot be compiled"),
        (int, "expected a subclass"),
    ],
)
def test_a_rule_that_is_wrong(rule: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_update(rule)


def test_a_class_within_a_function_has_no_name_to_come_back_by() -> None:
    class Local(UPDATES["cda2"]):  # type: ignore[misc]
        pass

    with pytest.raises(srl.UsageError, match="Local cannot be imported"):
        srl.OnlineLearner(srl.datasets.citations().model, "InField", update=Local)


@pytest.mark.parametrize("update", UPDATES)
def test_the_packages_own_rules_keep_the_contract(update: str) -> None:
    check_update(UPDATES[update])


def test_bases_are_offered_under_one_name() -> None:
    for annotation in (
        AnyUpdate,
        AnyMlnEngine,
        AnyPslEngine,
        AnyMetric,
        AnyMlnLearner,
        AnySource,
        AnySink,
    ):
        kinds = kinds_of(annotation)
        assert kinds is not None
        assert getattr(modules, kinds.base.__name__) is kinds.base


# metrics and batch learners -----------------------------------------------------------------------


def test_a_metric_of_the_guide_is_shown_and_resumes_exactly(mine: Path) -> None:
    recall = import_module("figures").Recall
    check_metric(recall(predicate="Smokes"))
    whole = run(mine, "figures")
    summary = mine.parent / "runs" / "figures" / "summary.json"
    shown = json.loads(summary.read_text())["own"]
    lines = (mine / "mail.jsonl").read_text().splitlines(keepends=True)
    (mine / "mail.jsonl").write_text(lines[0])
    run(mine, "figures", "--fresh")
    (mine / "mail.jsonl").write_text("".join(lines))
    assert run(mine, "figures") == whole
    assert json.loads(summary.read_text())["own"] == shown
    assert "all_labels" in (mine.parent / "runs" / "figures" / "report.html").read_text()
    learner = srl.OnlineLearner(
        srl.Model.read(mine / "mail.mln"),
        "Label",
        metrics={"all_labels": recall(predicate="Label")},
    )
    for example in srl.read(mine / "mail.jsonl"):
        learner.learn_one(example)
        learner = copy(learner)  # by way of its checkpoint
    assert learner.metrics["own"] == shown
    assert srl.OnlineLearner.load(mine.parent / "runs" / "figures").metrics["own"] == shown
    learner.save(mine / "figures.ckpt")
    saved = checkpoint_file.load(mine / "figures.ckpt")
    saved.header["metrics"]["own"]["all_labels"][0] = "x"
    checkpoint_file.write(mine / "figures.ckpt", saved.number, saved.header, saved.arrays)
    with pytest.raises(StorageError, match="the state of the metric all_labels is not its own"):
        srl.OnlineLearner.load(mine / "figures.ckpt")


class Noisy(modules.Metric):
    """Its state is no JSON."""

    def start(self):
        return ()

    def add(self, state, prediction, example):
        return (*state, 1)

    def value(self, state):
        return float(len(state))


class Endless(modules.Metric):
    """Its value is infinite."""

    def start(self):
        return 0

    def add(self, state, prediction, example):
        return state + 1

    def value(self, state):
        return float("inf")


@pytest.mark.parametrize(("metric", "said"), [(Noisy, "JSON makes"), (Endless, "neither a finite")])
def test_a_metric_that_is_wrong(metric: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_metric(metric)


def test_metrics_of_ones_own_are_checked_with_their_place(mine: Path) -> None:
    with pytest.raises(srl.ConfigError) as error:
        load(
            mine / "figures.yaml", ["metrics.own.all_labels.predicat=Label", "metrics.own.x={k: 1}"]
        )
    assert "metrics.own.all_labels.predicat: unknown key; did you mean predicate?" in str(
        error.value
    )
    assert "metrics.own.x.kind: expected module:Class" in str(error.value)


def test_a_batch_learner_of_the_guide_learns(mine: Path) -> None:
    climb = import_module("climbing").Climb
    check_batch_learner(climb)
    assert command(mine, "check", "mine/climbing.yaml").returncode == 0
    done = command(mine, "learn", "mine/climbing.yaml")
    assert done.returncode == 0, done.stderr
    texts = [line.read_text() for line in (mine.parent / "runs" / "climbing").glob("*.mln")]
    model, evidence = srl.Model.read(mine / "mail.mln"), [*srl.read(mine / "mail.jsonl")]
    learned = srl.learn(model, evidence, "Label", learner=climb(steps=10))
    weights = [rule.weight for rule in learned.model.rules if rule.weight is not None]
    assert any(all(f"{weight:.6g}"[:6] in text for weight in weights) for text in texts)
    with pytest.raises(srl.UsageError, match=r"learner\.step: unknown key"):
        srl.learn(model, evidence, "Label", learner={"kind": climb, "step": 1})


@pytest.mark.parametrize("learner", ["mple", "voted-perceptron", "contrastive-divergence"])
def test_the_packages_own_batch_learners_keep_the_contract(learner: str) -> None:
    check_batch_learner(learner)


# sources and sinks --------------------------------------------------------------------------------


def with_mails(folder: Path, lines: Sequence[str]) -> None:
    """Write the database that the source of the guide reads."""
    connection = sqlite3.connect(folder / "mails.db")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS mail (number INTEGER PRIMARY KEY, day, evidence, truth)"
    )
    for line in map(json.loads, lines):
        values = line["id"], json.dumps(line["evidence"]), json.dumps(line["truth"])
        connection.execute("INSERT INTO mail (day, evidence, truth) VALUES (?, ?, ?)", values)
    connection.commit()
    connection.close()


def answers(folder: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(folder / "answers.db")
    rows = connection.execute("SELECT id, line FROM answer ORDER BY id").fetchall()
    connection.close()
    return rows


DYING = """
import os
from pathlib import Path
from answers import Answers

class Dying(Answers):
    def send(self, lines, state):
        state = super().send(lines, state)
        died = Path(self.path).with_suffix(".died")
        if state == 2 and not died.exists():
            died.touch()
            os._exit(9)
        return state
"""


def test_a_source_and_a_sink_of_the_guide_go_on_where_they_were(mine: Path) -> None:
    """Also where the process dies between the sink's write and the checkpoint."""
    lines = (mine / "mail.jsonl").read_text().splitlines()
    with_mails(mine, lines)
    (mine / "dying.py").write_text(DYING)
    keys = (
        f"sink.path={mine / 'answers.db'}",
        "sink.kind=dying:Dying",
        "batch=1",
        "checkpoint.every=1",
    )
    go = ["run", "mine/mailbox.yaml", *(word for key in keys for word in ("--set", key))]
    assert command(mine, *go).returncode == 9
    done = command(mine, *go)
    assert done.returncode == 0, done.stderr
    folder = mine.parent / "runs" / "mailbox"
    assert rules((folder / "weights.mln").read_text()) == learned(mine)
    assert [(name, json.loads(line)["id"]) for name, line in answers(mine)] == [
        ("monday", "monday"),
        ("tuesday", "tuesday"),
    ]
    assert json.loads((folder / "summary.json").read_text())["examples"] == 2
    check_source(import_module("mailbox").Mailbox(path=mine / "mails.db"))
    check_sink(import_module("answers").Answers(path=mine / "others.db"))
    assert command(mine, "check", "mine/mailbox.yaml").returncode == 0


class Forgetful(modules.RecordSource):
    """It starts anew whatever the position, or yields text."""

    text: bool = False

    def records(self, position):
        for number in range(3):
            yield (str(number) if self.text else b"%d" % number), number


COUNT = count()


class Counting(modules.LineSink):
    """Its state is that of the process."""

    def send(self, lines, state):
        return next(COUNT)


def test_sources_and_sinks_that_are_wrong() -> None:
    with pytest.raises(AssertionError, match="other records than the first time"):
        check_source(Forgetful())
    with pytest.raises(AssertionError, match="is not bytes"):
        check_source(Forgetful(text=True))
    with pytest.raises(ModuleError, match="expected bytes and a position"):
        [*OwnRecords("x", Forgetful(text=True).records, 9, False).read()]
    with pytest.raises(AssertionError, match="a second try comes to"):
        check_sink(Counting())


# engines ------------------------------------------------------------------------------------------


def test_an_engine_of_the_guide_predicts_and_is_never_certified(mine: Path) -> None:
    icm = import_module("search").Icm
    check_engine(icm)
    weights, predictions = run(mine, "search")
    assert [line["certified"] for line in predictions] == [False] * 2
    inference = {"engine": icm, "presolve": "none"}
    assert learned(mine, inference=inference) == weights
    for mark, hard in (("!", ""), ("", "!Label(m, k) v !Label(m, j) v k = j.\n")):
        rules = "2 Word(m, A) => Label(m, Work)\n3 Word(m, B) => Label(m, Play)\n-1 Label(m, k)\n"
        model = srl.Model(f"Word(mail, word)\nLabel(mail, kind{mark})\n{rules}{hard}")
        words = {"Word": [["1", "A"], ["2", "B"], ["3", "C"]]}
        answers = [
            srl.OnlineLearner(model, "Label", inference=engine).predict_one(words)["Label"]
            for engine in ("mpe", icm(presolve="none"))
        ]
        assert answers[0] == answers[1] != []


def test_an_engine_of_psl_is_certified_by_its_multipliers(mine: Path) -> None:
    descent = import_module("descent").Descent
    check_engine(descent)
    for sure, engine in ((True, descent), (False, descent(steps=1))):
        learner = srl.OnlineLearner(srl.Model(PSL_MODEL, "psl"), "Likes", inference=engine)
        facts = {"Near": {("a", "b"): 1.0}, "Likes": {("a",): 0.9}}
        truth = {"Likes": {("b",): 1.0}}
        prediction = learner.learn_one(facts, truth, query={"Likes": ["b"]})
        assert prediction.certified is sure
        assert learner.metrics["updates"] == sure


class Lying(modules.MlnMapEngine):
    """Its state breaks a hard rule, if there is one."""

    truth: int = 1

    def solve(self, model, weights, bonus):
        return np.full(model.n_atoms, self.truth, np.uint8)


class Giving(modules.MlnMapEngine):
    """It finds nothing."""

    def solve(self, model, weights, bonus):
        raise modules.Unsolved("nothing after 7 sweeps")


def test_users_read_why_an_engine_found_nothing(mine: Path) -> None:
    model = srl.Model.read(mine / "mail.mln")
    learner = srl.OnlineLearner(model, "Label", inference=Giving(presolve="none"))
    with pytest.raises(srl.ExampleError, match="nothing after 7 sweeps"):
        learner.learn_one(next(iter(srl.read(mine / "mail.jsonl"))))


class Short(modules.PslMapEngine):
    """Too few values, or no multipliers."""

    missing: int = 1

    def solve(self, model, weights, bonus):
        return np.zeros(model.n_variables - self.missing), None


class Writing(modules.PslMapEngine):
    """It makes its answer the best one by what it writes into the model, or into the weights."""

    into: str = "weights"

    def solve(self, model, weights, bonus):
        if self.into == "weights":
            weights[:] = 0
        else:
            model.coefficient[:] = model.constant[:] = 0
        return np.zeros(model.n_variables), np.zeros(model.n_rows)


class Raising(modules.PslMapEngine):
    """It claims, without a proof, that no values satisfy the hard rules."""

    def solve(self, model, weights, bonus):
        raise Infeasible("no values")


@pytest.mark.parametrize("into", ["weights", "model"])
def test_what_an_engine_writes_certifies_nothing(into: str) -> None:
    learner = srl.OnlineLearner(
        srl.Model(PSL_MODEL, "psl"), "Likes", inference={"engine": Writing, "into": into}
    )
    facts = {"Near": {("a", "b"): 1.0}, "Likes": {("a",): 0.9}}
    prediction = learner.predict_one(facts, query={"Likes": ["b"]})
    assert prediction.certified is False


def test_an_engine_of_psl_cannot_refuse_an_example() -> None:
    learner = srl.OnlineLearner(srl.Model(PSL_MODEL, "psl"), "Likes", inference=Raising)
    with pytest.raises(ModuleError, match="Raising: expected values and multipliers: no values"):
        learner.predict_one({"Near": {("a", "b"): 1.0}}, query={"Likes": ["b"]})


def test_engines_that_are_wrong_are_told(mine: Path) -> None:
    model, lines = srl.Model.read(mine / "mail.mln"), [*srl.read(mine / "mail.jsonl")]
    learner = srl.OnlineLearner(model, "Label", inference={"engine": Lying, "presolve": "none"})
    with pytest.raises(ModuleError, match="Lying: its state breaks a hard clause"):
        learner.learn_one(lines[0])
    learner = srl.OnlineLearner(
        model, "Label", inference={"engine": Lying, "presolve": "none", "truth": 2}
    )
    with pytest.raises(ModuleError, match="of 4 zeros and ones"):
        learner.learn_one(lines[0])
    with pytest.raises(AssertionError, match="breaks a hard clause"):
        check_engine(Lying)
    with pytest.raises(AssertionError, match="values from 0 to 1"):
        check_engine(Short)
    with pytest.raises(srl.UsageError, match=r"expected a subclass of onlinesrl\.modules\.PslMap"):
        srl.OnlineLearner(srl.Model(PSL_MODEL, "psl"), "Likes", inference=Lying)


OWN = [*ENGINES.values(), *(PSL_ENGINES[name] for name in sorted({*PSL_ENGINES} - {"tandem"}))]
"""All but tandem, whose bound is that of its pages, which have the bonus as rows."""


@pytest.mark.parametrize("engine", OWN)
def test_the_packages_own_engines_keep_the_contract(engine: Any) -> None:
    check_engine(engine)
