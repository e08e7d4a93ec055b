"""A configuration says all that is wrong with it at once, and where, or what it is."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from conftest import REPO
from hypothesis import given
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.core.errors import ConfigError
from onlinesrl.core.io.config_types import STDIN
from onlinesrl.core.online.update_rules import UPDATES
from onlinesrl.runs.config.fingerprint import mismatch
from onlinesrl.runs.config.loading import load, of_values
from onlinesrl.runs.config.schema import Config
from tests.support import golden

GOOD = """\
model: models/m.mln
query: InField
source:
  path: [a.jsonl, b.jsonl]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A configuration's folder below the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf" / "models").mkdir(parents=True)
    (tmp_path / "here.jsonl").touch()
    (tmp_path / "conf" / "models" / "m.mln").write_text("InField(i, f)\n")
    for name in ("a.jsonl", "b.jsonl", "start.mln", "m.mln", "a.csv"):
        (tmp_path / "conf" / name).touch()
    return Path("conf")


def configuration(folder: Path, text: str, *overrides: str) -> Config:
    path = folder / "run.yaml"
    path.write_text(text)
    return load(path, overrides)


def complaints(folder: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        configuration(folder, text, *overrides)
    assert caught.value.exit_code == 78
    return str(caught.value).replace("conf/", "").splitlines()


def test_defaults_and_where_paths_lead(folder):
    config = configuration(folder, GOOD)
    assert config.model == Path("conf/models/m.mln")
    assert config.query == ("InField",)
    assert config.source.path == (Path("conf/a.jsonl"), Path("conf/b.jsonl"))
    assert config.output == Path("runs/run")
    assert config.learner == srl.OnlineLearner("A(t)", "A").settings.learner
    assert (config.learner.update, config.learner.loss) == ("adagrad", "pl")
    assert (config.inference.presolve, config.inference.solver) == ("exact", "highs")
    assert (config.checkpoint.examples, config.checkpoint.seconds) == (None, 30.0)
    assert (config.limits.bad_share, config.seed, config.batch) == (0.1, 0, 500)


def test_paths_set_on_the_command_line_are_relative_to_the_current_directory(folder):
    overrides = ["source.path=here.jsonl", "learner.start=conf/start.mln", "output=x/y"]
    config = configuration(folder, GOOD, *overrides)
    assert config.source.path == (Path("here.jsonl"),)
    assert config.learner.start == Path("conf/start.mln")
    assert config.output == Path("x/y")


def test_set_values_are_yaml_and_lie_over_the_file(folder):
    overrides = ["query=[A, B]", "learner.sigma=1e-3", "learner.max_weights=5000", "seed=7"]
    overrides += ["source.without=face", "learner.max_weights=", "source={path: '-'}"]
    config = configuration(folder, GOOD + "  only: [x]\nlearner:\nseed: 3\n", *overrides)
    assert config.query == ("A", "B")
    assert (config.learner.sigma, config.learner.max_weights) == (0.001, None)
    assert (config.source.only, config.source.without) == (("x",), ("face",))
    assert (config.source.path, config.seed) == ((STDIN,), 7)


@pytest.mark.parametrize("key", ["only", "without"])
@pytest.mark.parametrize("cleared", ["", "[]", "null"])
def test_a_list_of_groups_can_be_cleared(folder, key, cleared):
    plain = configuration(folder, GOOD)
    in_the_file = configuration(folder, GOOD + f"  {key}: {cleared}\n")
    set_later = configuration(folder, GOOD + f"  {key}: [x, y]\n", f"source.{key}={cleared}")
    assert in_the_file.source == set_later.source == plain.source
    assert in_the_file.fingerprint("") == plain.fingerprint("")


@pytest.mark.parametrize("update", UPDATES)
def test_the_loss_that_is_not_given_fits_the_update(folder, update):
    config = configuration(folder, GOOD, f"learner.update={update}")
    taken = get_args(UPDATES[update].model_fields["loss"].annotation)
    assert config.learner.loss == taken[0]


def test_pairs_of_surrogates_are_characters_as_json_writes_them(folder):
    (folder / "\U0001f600.jsonl").touch()
    values = {
        "model": "models/m.mln",
        "query": "\U0001f600",
        "source": {"path": "\U0001f600.jsonl"},
    }
    config = configuration(folder, json.dumps(values))
    assert config.query == ("\U0001f600",)
    assert config.source.path == (folder / "\U0001f600.jsonl",)
    files = {"model": config.model, "source": {"path": config.source.path[0]}}
    assert of_values({**values, **files, "output": "out"}).source == config.source


def test_everything_wrong_is_said_at_once(folder):
    """With file, line, column and key: all messages of a corpus of wrong configurations."""

    def said(text):
        overrides = re.findall("^--set (.*)$", text, re.MULTILINE)
        text = re.sub("^--set .*\n", "", text, flags=re.MULTILINE)
        return "\n".join(complaints(folder, text + "\n", *overrides))

    golden.check(REPO / "tests" / "runs" / "golden" / "configurations.txt", said)


def test_a_file_that_is_not_there_or_not_text(folder):
    assert "U+0000 is not allowed" in complaints(folder, 'a: "\0"\n')[0]
    assert "this number has too many digits" in complaints(folder, GOOD + "seed: 1" + "0" * 5000)[0]
    with pytest.raises(ConfigError, match=r"^none\.yaml: No such file or directory$"):
        load(Path("none.yaml"))
    Path("latin.yaml").write_bytes(b"seed: 1\nquery: \xe9\n")
    with pytest.raises(ConfigError, match=r"^latin\.yaml:2:1: not UTF-8 text$"):
        load(Path("latin.yaml"))
    with pytest.raises(ConfigError, match="nested too deeply"):
        configuration(folder, "[" * 50_000)


@pytest.mark.parametrize(
    ("every", "examples", "seconds"),
    [("500", 500, None), ("30s", None, 30.0), ("5m", None, 300.0), ("1.5h", None, 5400.0)],
)
def test_checkpoint_interval(folder, every, examples, seconds):
    checkpoint = configuration(folder, GOOD, f"checkpoint.every={every}").checkpoint
    assert (checkpoint.examples, checkpoint.seconds) == (examples, seconds)


def test_a_problem_found_later_still_has_its_place(folder):
    config = configuration(folder, GOOD, "metrics.by=Nope.1")
    assert str(config.error("query", "no such predicate")) == (
        "conf/run.yaml:2:8: query: no such predicate"
    )
    assert str(config.error("metrics.by", "no such predicate")) == (
        "--set metrics.by=Nope.1: metrics.by: no such predicate"
    )
    assert str(config.error("seed", "bad")) == "conf/run.yaml:1:1: seed: bad"


def test_an_override_of_the_update_leaves_out_what_goes_with_that_of_the_file(folder):
    text = GOOD + "learner: {update: cda2, loss: ml, sigma: 0.3, max_weights: 9}\n"
    mira = configuration(folder, text, "learner.update=mira").learner
    assert mira.model_dump(exclude={"costs", "label_loss", "replay", "start"}) == {
        "update": "mira",
        "loss": "pl",
        "predict": "averaged",
        "calibrated": False,
        "max_weights": 9,
    }
    assert (
        configuration(folder, text, "learner={loss: pl, label_loss: f1}").learner.label_loss == "f1"
    )
    cda1 = configuration(folder, text, "learner={update: cda1}").learner
    assert (cda1.update, cda1.loss, cda1.strength) == ("cda1", "ml", 0.3)


@pytest.mark.parametrize(
    "harmless",
    [
        "output=elsewhere",
        "batch=1",
        "checkpoint.every=5",
        "checkpoint.keep=9",
        "source.max_bytes=10",
        "limits.bad_share=1",
        "limits.crashes=0",
        "inference.max_nodes=7",
        "inference.unsolved=stop",
    ],
)
def test_what_a_resumed_run_may_change(folder, harmless):
    old = json.loads(json.dumps(configuration(folder, GOOD).fingerprint("P(t)")))
    assert mismatch(old, configuration(folder, GOOD, harmless).fingerprint("P(t)")) == []


def test_what_a_resumed_run_may_not_change_is_named(folder):
    old = configuration(folder, GOOD).fingerprint("P(t)")
    overrides = ["learner.sigma=0.1", "query=[A]", "seed=3", "metrics.by=field"]
    overrides += ["source.without=face", "learner.start=conf/start.mln", "limits.max_atoms=9"]
    new = configuration(folder, GOOD, *overrides).fingerprint("P(t) v Q(t)")
    lines = mismatch(old, new)
    assert [line.partition(":")[0] for line in lines] == [
        "learner.sigma",
        "learner.start",
        "limits.max_atoms",
        "metrics.by",
        "model",
        "query",
        "seed",
        "source.without",
    ]
    assert "learner.sigma: was 0.01, is 0.1" in lines
    assert "model: the file has changed" in lines
    assert "source.without: was nothing, is ['face']" in lines


def test_the_fingerprint_does_not_depend_on_the_current_directory(folder, monkeypatch):
    before = configuration(folder, GOOD).fingerprint("P(t)")
    monkeypatch.chdir("conf")
    assert mismatch(before, load(Path("run.yaml")).fingerprint("P(t)")) == []


@given(st.text(max_size=60), st.text(max_size=40))
def test_no_text_escapes_the_complaints(tmp_path_factory, text, override):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigError):
        load(path, [f"seed={override}", override])
