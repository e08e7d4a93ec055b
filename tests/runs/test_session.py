"""From a configuration to a learner: starting weights, trained weights, and what does not fit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import MODEL, Job

from onlinesrl.core.errors import ConfigError, ModelError, OnlinesrlError
from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.runs import run as run_module
from onlinesrl.runs.config.loading import Config, load
from onlinesrl.runs.evaluation import evaluate, predictions
from tests.stream.test_kill import LEARNERS
from tests.support.trust_program import MODEL as TRUST
from tests.support.trust_program import examples


def config_of(job: Job, *overrides: str) -> Config:
    return load(job.config, overrides)


def run(job: Job, *overrides: str) -> dict[str, Any]:
    """Run in this process; return the summary."""
    said: list[str] = []
    return run_module.run(config_of(job, *overrides), run_module.Options(), 0.0, said.append)


@pytest.fixture(scope="module")
def trained(warm: None, tmp_path_factory: pytest.TempPathFactory, citations: list[bytes]) -> Job:
    """A finished run over 60 citations."""
    job = Job(tmp_path_factory.mktemp("trained"), citations[:60])
    run(job)
    return job


@pytest.fixture
def held_out(job: Callable[..., Job], citations: list[bytes]) -> Job:
    return job(citations[60:100], "held_out")


def test_starting_weights_are_no_part_of_trained_ones(trained: Job, held_out: Job) -> None:
    weights = trained.output / "weights.mln"
    config = config_of(held_out, f"learner.start={weights}")
    expected = evaluate(config_of(held_out), trained.output)
    assert evaluate(config, trained.output) == expected
    untrained = held_out.folder / "untrained.mln"
    untrained.write_text(MODEL.read_text().replace("\nInField(+i", "\n0.0 InField(+i"))
    with pytest.raises(ModelError, match="no weight"):
        evaluate(config, untrained)


def test_a_model_of_other_rules_is_a_model_of_its_own(held_out: Job, tmp_path: Path) -> None:
    """Every token is a title: precision is the share of title tokens among all."""
    foreign = tmp_path / "foreign.mln"
    declarations = MODEL.read_text().partition("// Words")[0]
    foreign.write_text(declarations + '\n2.5 Token(w, i) => InField(i, "title")\n')
    found = evaluate(config_of(held_out), foreign)
    assert found["by"]["title"]["recall"] == 1.0
    assert found["by"]["author"]["recall"] == found["by"]["venue"]["recall"] == 0.0
    assert found["precision"] == found["accuracy"]


def test_weights_of_a_part_of_the_rules_fit_the_model(held_out: Job, tmp_path: Path) -> None:
    part = tmp_path / "part.mln"
    declarations = MODEL.read_text().partition("// Words")[0]
    part.write_text(declarations + '\n2.5 Token("the", i) => InField(i, "title")\n')
    learner = run_module.trained_learner(config_of(held_out), part)
    assert [(e.key, e.weight) for e in learner.weights.entries() if e.weight] == [
        (("the", "title"), 2.5)
    ]


def test_a_run_goes_on_from_starting_weights(
    trained: Job, job: Callable[..., Job], citations: list[bytes]
) -> None:
    cold = job(citations[60:100], "cold")
    start = {"start": str(trained.output / "weights.mln"), "sigma": 0.003}
    warm = job(citations[60:100], "start", learner=start)
    assert run(warm)["f1"] > run(cold)["f1"]
    first = warm.lines("predictions.jsonl")[0]
    assert first["predicted"] == cold_prediction(trained, citations[60], job)


def cold_prediction(trained: Job, line: bytes, job: Callable[..., Job]) -> Any:
    one = job([line], "one")
    learner = run_module.trained_learner(config_of(one), trained.output / "weights.mln")
    [[_, _, outcome]] = filter(None, predictions(learner, config_of(one), Metrics()))
    assert outcome.prediction is not None
    return outcome.prediction.predicted


def test_starting_weights_that_no_rule_fits_are_said(
    held_out: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = tmp_path / "start.mln"
    declarations = MODEL.read_text().partition("// Words")[0]
    start.write_text(declarations + '\n2.5 HasComma(i) => InField(i, "title")\n')
    run_module.new_learner(config_of(held_out, f"learner.start={start}"))
    assert "no rule of the model fits `HasComma(i) => InField(i" in capsys.readouterr().err


def test_a_checkpoint_of_another_model_is_refused(
    trained: Job, held_out: Job, tmp_path: Path
) -> None:
    other = tmp_path / "other.mln"
    other.write_text(MODEL.read_text() + "\nHasComma(i) => InField(i, +f)\n")
    with pytest.raises(OnlinesrlError, match="model: the file has changed") as caught:
        evaluate(config_of(held_out, f"model={other}"), trained.output)
    assert caught.value.exit_code == 78


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("query=Feild", "query: Feild is not declared in the model, which has Center, "),
        ("metrics.by=nothing", "metrics.by: nothing is no argument of a query predicate: "),
        ("metrics.by=InField.3", r"InField.1 \(position\), InField.2 \(field\)"),
        ("learner.max_weights=20", "learner.max_weights: the rules alone have"),
    ],
)
def test_what_does_not_fit_the_model_is_said_at_its_key(
    held_out: Job, override: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        run_module.new_learner(config_of(held_out, override))
    assert str(caught.value).startswith(f"--set {override}: ")


@pytest.mark.parametrize("by", ["field", "InField.2"])
def test_values_of_an_argument_are_counted(held_out: Job, trained: Job, by: str) -> None:
    found = evaluate(config_of(held_out, f"metrics.by={by}"), trained.output)
    assert found["by"].keys() == {"author", "title", "venue"}


def test_values_of_an_argument_without_declared_constants(held_out: Job, trained: Job) -> None:
    found = evaluate(config_of(held_out, "metrics.by=position"), trained.output)
    plain = evaluate(config_of(held_out), trained.output)
    support = sum(scores["support"] for scores in found["by"].values())
    assert support == sum(scores["support"] for scores in plain["by"].values())
    assert {"0", "10"} <= found["by"].keys()


def test_a_summary_says_how_a_run_went(trained: Job) -> None:
    summary = json.loads((trained.output / "summary.json").read_bytes())
    last = trained.lines("metrics.jsonl")[-1]
    assert {name: summary[name] for name in last if name != "window"} == {
        name: value for name, value in last.items() if name != "window"
    }
    assert summary["examples"] == summary["updates"] == 60
    assert summary["regret_bound"] > 0
    assert summary["finished"] is True
    assert summary["examples_per_second"] == pytest.approx(60 / summary["seconds"])
    assert summary["config"]["query"] == ["InField"]


def test_mira_has_no_regret_bound(job: Callable[..., Job], citations: list[bytes]) -> None:
    summary = run(job(citations[:10], learner={"update": "mira"}))
    assert summary["regret_bound"] is summary["dual"] is None
    assert summary["loss"] > 0


# a run that another one goes on from ---------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_run_takes_over_the_whole_state_of_another(
    job: Callable[..., Job], citations: list[bytes], learner: str, checkpoint: bool
) -> None:
    keys = {"learner": LEARNERS[learner]}
    day1, whole = job(citations[:40], "day1", **keys), job(citations[:70], "whole", **keys)
    summary = [run(each) for each in (day1, whole)][1]
    start = day1.checkpoints()[-1] if checkpoint else day1.output
    day2 = job(citations[40:70], "day2", learner=LEARNERS[learner] | {"start": str(start)})
    found = run(day2)
    assert (day2.output / "weights.mln").read_bytes() == (whole.output / "weights.mln").read_bytes()
    assert day2.lines("predictions.jsonl") == whole.lines("predictions.jsonl")[40:]
    assert found["examples"] == 30
    for name in ("updates", "weights", "dual", "regret_bound", "loss"):
        assert found[name] == summary[name]
    assert run(day2) == found


def test_a_soft_run_takes_over_the_whole_state_of_another(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    (tmp_path / "trust.psl").write_text(TRUST)
    keys = {"model": str(tmp_path / "trust.psl"), "query": "Trusts", "metrics": {}}
    lines = [msgspec.json.encode(example) + b"\n" for example in examples(40)]
    day1, whole = job(lines[:20], "day1", **keys), job(lines, "whole", **keys)
    run(day1), run(whole)
    day2 = job(lines[20:], "day2", learner={"start": str(day1.output)}, **keys)
    run(day2)
    assert (day2.output / "weights.psl").read_bytes() == (whole.output / "weights.psl").read_bytes()
    assert day2.lines("predictions.jsonl") == whole.lines("predictions.jsonl")[20:]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("learner.sigma=0.5", "learner.sigma: was 0.01, is 0.5"),
        ("learner.update=cda1", "learner.update: was 'adagrad', is 'cda1'"),
        ("query=[InField, Token]", "query: was"),
        ("model=OTHER", "model: the file has changed"),
    ],
)
def test_the_state_of_another_learner_is_refused(
    trained: Job, held_out: Job, tmp_path: Path, override: str, said: str
) -> None:
    other = tmp_path / "other.mln"
    other.write_text(MODEL.read_text() + "\nHasComma(i) => InField(i, +f)\n")
    start = f"learner.start={trained.output}"
    with pytest.raises(ConfigError) as caught:
        run(held_out, override.replace("OTHER", str(other)), start)
    assert "checkpoint-" in str(caught.value)
    assert "is of another learner (" in str(caught.value)
    assert str(caught.value).endswith("); to start from its weights, give its weights file")
    assert "\\n" not in str(caught.value)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"--set {start}: learner.start: ")


def test_a_run_goes_on_though_that_which_it_started_from_has_gone_on(
    job: Callable[..., Job], citations: list[bytes]
) -> None:
    day1 = job(citations[:40], "day1")
    run(day1)
    day2 = job(citations[40:60], "day2", learner={"start": str(day1.output)})
    run(day2)
    day1.source.write_bytes(b"".join(citations[:50]))
    run(day1)
    day2.source.write_bytes(b"".join(citations[40:70]))
    assert run(day2)["updates"] == 70
