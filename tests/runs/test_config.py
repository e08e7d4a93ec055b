"""A configuration says all that is wrong with it at once, and where, or what it is."""

import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.core.errors import ConfigError
from onlinesrl.core.io.config_types import STDIN
from onlinesrl.core.online.update_rules import UPDATES
from onlinesrl.runs.config.fingerprint import mismatch
from onlinesrl.runs.config.loading import load, of_values
from onlinesrl.runs.config.schema import Config

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
    for name in ("a.jsonl", "b.jsonl", "start.mln"):
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


@pytest.mark.parametrize(
    ("update", "loss", "said"),
    [
        ("mira", "ml", "expected 'pl', found 'ml'"),
        ("perceptron", "ml", "expected 'pl', found 'ml'"),
        ("subgradient", "pl", "expected 'ml', found 'pl'"),
    ],
)
def test_a_loss_that_does_not_fit_is_an_error(folder, update, loss, said):
    text = f"{GOOD}learner: {{update: {update}, loss: {loss}}}\n"
    column = text.splitlines()[-1].index(loss + "}") + 1
    assert complaints(folder, text) == [f"run.yaml:5:{column}: learner.loss: {said}"]


def test_a_section_in_place_of_a_value_is_an_error_of_the_key(folder):
    text = """\
model: {a: 1}
query: InField
source:
  path: [a.jsonl, {b: 2}]
checkpoint:
  every: {}
"""
    assert complaints(folder, text) == [
        "run.yaml:1:8: model: expected a path, found a section",
        "run.yaml:4:19: source.path: expected a path, found a section",
        "run.yaml:6:10: checkpoint.every: expected a number of examples, or a time such as 30s or 5m, "
        "found a section",
    ]


@pytest.mark.parametrize(
    ("more", "place", "said"),
    [
        ("labels: {}\ndistribute: {}", "5:1", "labels: examples of shards bring their own;"),
        (
            "labels:\n  topic: a",
            "6:3",
            "labels.topic: labels of a topic belong to a source of kind",
        ),
        ("distribute: {}\nsink:\n  kind: parquet", "7:3", "sink.kind: a distributed run writes a"),
    ],
)
def test_sections_that_do_not_go_together_are_said_at_the_key(folder, more, place, said):
    [found] = complaints(folder, f"{GOOD}{more}\n")
    assert found.startswith(f"run.yaml:{place}: {said}")


@pytest.mark.parametrize("name", [r"\0", r"a\0b", r"\ud800", r"\ude00\ud83d"])
def test_what_no_file_can_be_named_is_no_path(folder, name):
    text = f'{GOOD}output: "{name}"\nlearner: {{start: "{name}"}}\n'
    shown = name.replace(r"\0", r"\x00")
    assert complaints(folder, text) == [
        f"run.yaml:5:9: output: expected a path, found '{shown}'",
        f"run.yaml:6:18: learner.start: expected a path, found '{shown}'",
    ]


def test_text_that_is_not_unicode_is_an_error_in_words(folder):
    text = GOOD.replace("InField", r'"\ud800"') + '"\\ud800": 1\n'
    assert complaints(folder, text) == [
        "run.yaml:2:8: query: expected text in Unicode, found '\\ud800'",
        "run.yaml:5:1: expected a key that can be printed",
    ]


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
    text = """\
model: nope.mln
query: [InField, 3]
sorce: x
source:
  path: [a.jsonl, missing.jsonl]
  only:
    - face
    - 2024
  max_bytes: ten
learner:
  update: cda3
  update: mira
  sigma: -1e-3
  start: gone.mln
sigma: 2
inference: {solver: toulbar2, audit_every: -1, max_nodes: 1.5, max_groundings: true, unsolved: no}
checkpoint:
  every: 30 seconds
  keep: null
metrics: [a]
limits: {bad_share: .inf, crashes: -1}
seed: 99999999999999999999999
batch: 0
"""
    known = (
        "model, dialect, query, source, output, world, labels, sink, learner, inference, checkpoint, "
        "metrics, limits, drift, distribute, seed, batch, targets"
    )
    assert complaints(folder, text) == [
        "run.yaml:1:8: model: expected a file that can be read (No such file or directory), "
        "found 'nope.mln'",
        "run.yaml:2:18: query: expected text (quote what reads as a number), found 3",
        f"run.yaml:3:1: sorce: unknown key; did you mean source? known here: {known}",
        "run.yaml:5:19: source.path: expected a file that can be read "
        "(No such file or directory), found 'missing.jsonl'",
        "run.yaml:8:7: source.only: expected text (quote what reads as a number), found 2024",
        "run.yaml:9:14: source.max_bytes: expected a whole number, found 'ten'",
        "run.yaml:11:11: learner.update: expected 'adagrad', 'cda1', 'cda2', 'pa1', 'simple', 'mira', "
        "'subgradient', 'perceptron', 'cd', 'log-likelihood' or module:Class, found 'cda3'",
        "run.yaml:12:3: learner.update: duplicate key (first on line 11)",
        "run.yaml:13:10: learner.sigma: expected more than 0, found -0.001",
        "run.yaml:14:10: learner.start: expected a file that can be read (No such file or directory), "
        "found 'gone.mln'",
        f"run.yaml:15:1: sigma: unknown key; did you mean learner.sigma? known here: {known}",
        "run.yaml:16:21: inference.solver: expected 'highs' or 'cbc', found 'toulbar2'",
        "run.yaml:16:44: inference.audit_every: expected at least 0, found -1",
        "run.yaml:16:59: inference.max_nodes: expected a whole number, found 1.5",
        "run.yaml:16:80: inference.max_groundings: expected a whole number, found true",
        "run.yaml:16:96: inference.unsolved: expected 'fallback', 'skip' or 'stop', found 'no'",
        "run.yaml:18:10: checkpoint.every: expected a number of examples, or a time such as "
        "30s or 5m, found '30 seconds'",
        "run.yaml:19:9: checkpoint.keep: expected a whole number, found nothing",
        "run.yaml:20:10: metrics: expected a section of keys, found ['a']",
        "run.yaml:21:21: limits.bad_share: expected a finite number, found inf",
        "run.yaml:21:36: limits.crashes: expected at least 0, found -1",
        "run.yaml:22:7: seed: expected at most 9.22337e+18, found 99999999999999999999999",
        "run.yaml:23:8: batch: expected at least 1, found 0",
    ]


def test_what_set_gets_wrong_is_named_by_the_argument(folder):
    overrides = ["learner.sgima=3", "learner.sigma=abc", "foo", ".=1", "seed=[", "metrics.by=a b"]
    assert complaints(folder, "query: A\nbatch: x\n", *overrides) == [
        "run.yaml:1:1: model: missing; expected the rules, an .mln or a .psl file",
        "run.yaml:1:1: source: missing; expected a section with the path of the examples",
        "run.yaml:2:8: batch: expected a whole number, found 'x'",
        "--set foo: expected key=value, such as learner.sigma=0.1",
        "--set .=1: expected key=value, such as learner.sigma=0.1",
        "--set seed=[: not valid YAML: expected the node content, but found '<stream end>'",
        "--set learner.sigma=abc: learner.sigma: expected a number, found 'abc'",
        "--set learner.sgima=3: learner.sgima: unknown key; did you mean sigma? known here: "
        "update, loss, max_weights, costs, label_loss, predict, calibrated, start, sigma, delta",
        "--set metrics.by=a b: metrics.by: expected Predicate.N or the name of an argument's "
        "type, found 'a b'",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "model: m.mln\n  query: A\n",
            [
                "run.yaml:2:8: not valid YAML: mapping values are not allowed here",
                "    query: A",
                "         ^",
            ],
        ),
        (
            'a: "\0"\n',
            ["run.yaml:1:5: not valid YAML: U+0000 is not allowed", r'  a: "\x00"', "      ^"],
        ),
        ("- a\n", ["run.yaml:1:1: expected keys such as model:, found ['a']"]),
        (
            GOOD + "output: &x [a]\n? [b]\n: 1\nseed: 1" + "0" * 5000,
            [
                "run.yaml:6:3: expected a key, found a list or a section",
                "run.yaml:8:7: seed: this number has too many digits",
                "run.yaml:5:9: output: expected a path, found ['a']",
            ],
        ),
        (
            GOOD + "batch: &x 3\nseed: *x\n",
            ["run.yaml:5:8: seed: aliases are not supported: write the value again"],
        ),
        (
            GOOD + "output: !!python/object/apply:os.system [true]\n",
            [
                "run.yaml:5:9: output: the tag tag:yaml.org,2002:python/object/apply:os.system "
                "does not fit"
            ],
        ),
        (
            GOOD + "learner: {eta: 2, loss: pl}\nmetrics: {by: 2x}\ncheckpoint: {every: 0}\n",
            [
                "run.yaml:5:11: learner.eta: not for update adagrad, but for update perceptron or cd; "
                "known here: update, loss, max_weights, costs, label_loss, predict, calibrated, start, "
                "sigma, delta",
                "run.yaml:6:15: metrics.by: expected Predicate.N or the name of an argument's "
                "type, found '2x'",
                "run.yaml:7:21: checkpoint.every: expected a number of examples, or a time such "
                "as 30s or 5m, found 0",
            ],
        ),
        (
            GOOD.replace("a.jsonl", "'-'") + "  without: [x, x]\n",
            [
                "run.yaml:4:9: source.path: - (standard input) cannot be one of several, "
                "found ['-', 'conf/b.jsonl']",
                "run.yaml:5:12: source.without: expected every name once, found ['x', 'x']",
            ],
        ),
    ],
)
def test_golden_complaints(folder, text, said):
    assert sorted(complaints(folder, text)) == sorted(line.replace("conf/", "") for line in said)


def test_a_file_that_is_not_there_or_not_text(folder):
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


@pytest.mark.parametrize("every", ["0", "-3", "0s", "true", "2.5", "s", "'12'", "[3]", ""])
def test_what_is_no_checkpoint_interval(folder, every):
    (said,) = complaints(folder, GOOD, f"checkpoint.every={every}")
    assert "expected a number of examples, or a time such as 30s or 5m" in said


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
    """What is set beside it is as it is written: a sigma that the update does not use is refused."""
    text = GOOD + "learner: {update: cda2, loss: ml, sigma: 0.3, max_weights: 9}\n"
    mira = configuration(folder, text, "learner.update=mira").learner
    assert mira.model_dump(exclude={"costs", "label_loss", "start"}) == {
        "update": "mira",
        "loss": "pl",
        "predict": "averaged",
        "calibrated": False,
        "max_weights": 9,
    }
    (said,) = complaints(folder, text, "learner.label_loss=f1")
    assert "learner.label_loss: f1 is no sum over atoms, so no search finds the state" in said
    assert (
        configuration(folder, text, "learner={loss: pl, label_loss: f1}").learner.label_loss == "f1"
    )
    cda1 = configuration(folder, text, "learner={update: cda1}").learner
    assert (cda1.update, cda1.loss, cda1.strength) == ("cda1", "ml", 0.3)
    for order in (["learner.sigma=1", "learner.update=mira"], ["learner={sigma: 1, update: mira}"]):
        (said,) = complaints(folder, text, *order)
        assert said.startswith("--set learner")
        assert "learner.sigma: not for update mira, but for update adagrad or cda1" in said
    (said,) = complaints(folder, GOOD + "learner: {update: mira, sigma: 0.01}\n")
    assert said.startswith("run.yaml:5:25: learner.sigma: not for update mira, but for")


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
