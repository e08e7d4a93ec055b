"""From a configuration to a learner: starting weights, trained weights, and what does not fit."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import MODEL, Job

from tests.stream.test_kill import LEARNERS
from tests.support.trust_program import MODEL as TRUST
from tests.support.trust_program import examples


def set_(overrides: tuple[str, ...]) -> list[str]:
    return [part for override in overrides for part in ("--set", override)]


def run(job: Job, *overrides: str) -> dict[str, Any]:
    """Run, and return the summary."""
    assert job.run(*set_(overrides)) == 0, job.said
    summary: dict[str, Any] = json.loads((job.output / "summary.json").read_bytes())
    return summary


def evaluate(job: Job, weights: Path, *overrides: str) -> dict[str, Any]:
    """The metrics of trained weights on the examples of a job."""
    assert job.call("evaluate", weights, job.config, *set_(overrides)) == 0, job.said
    metrics: dict[str, Any] = json.loads(job.printed)
    return metrics


@pytest.fixture(scope="module")
def trained(warm, tmp_path_factory, citations):
    """A finished run over 60 citations."""
    job = Job(tmp_path_factory.mktemp("trained"), citations[:60])
    run(job)
    return job


@pytest.fixture
def held_out(job, citations):
    return job(citations[60:100], "held_out")


def test_starting_weights_are_no_part_of_trained_ones(trained, held_out):
    start = f"learner.start={trained.output / 'weights.mln'}"
    assert evaluate(held_out, trained.output, start) == evaluate(held_out, trained.output)
    untrained = held_out.folder / "untrained.mln"
    untrained.write_text(MODEL.read_text().replace("\nInField(+i", "\n0.0 InField(+i"))
    assert held_out.call("evaluate", untrained, held_out.config) == 78
    assert "no weight" in held_out.said


def test_a_model_of_other_rules_is_a_model_of_its_own(held_out, tmp_path):
    """Every token is a title: precision is the share of title tokens among all."""
    foreign = tmp_path / "foreign.mln"
    declarations = MODEL.read_text().partition("// Words")[0]
    foreign.write_text(declarations + '\n2.5 Token(w, i) => InField(i, "title")\n')
    found = evaluate(held_out, foreign)
    assert found["by"]["title"]["recall"] == 1.0
    assert found["by"]["author"]["recall"] == found["by"]["venue"]["recall"] == 0.0
    assert found["precision"] == found["accuracy"]


def test_a_run_goes_on_from_starting_weights(trained, job, citations):
    cold = job(citations[60:100], "cold")
    start = {"start": str(trained.output / "weights.mln"), "sigma": 0.003}
    warm = job(citations[60:100], "start", learner=start)
    assert run(warm)["f1"] > run(cold)["f1"]
    first = warm.lines("predictions.jsonl")[0]
    one = job([citations[60]], "one")
    assert one.call("predict", trained.output / "weights.mln", one.config) == 0, one.said
    assert first["predicted"] == json.loads(one.printed)["predicted"]


def test_starting_weights_that_no_rule_fits_are_said(held_out, tmp_path):
    start = tmp_path / "start.mln"
    declarations = MODEL.read_text().partition("// Words")[0]
    start.write_text(declarations + '\n2.5 HasComma(i) => InField(i, "title")\n')
    run(held_out, f"learner.start={start}")
    assert "no rule of the model fits `HasComma(i) => InField(i" in held_out.said


def test_a_checkpoint_of_another_model_is_refused(trained, held_out, tmp_path):
    other = tmp_path / "other.mln"
    other.write_text(MODEL.read_text() + "\nHasComma(i) => InField(i, +f)\n")
    change = ("--set", f"model={other}")
    assert held_out.call("evaluate", trained.output, held_out.config, *change) == 78
    assert "model: the file has changed" in held_out.said


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("query=Feild", "query: Feild is not declared in the model, which has Center, "),
        ("metrics.by=nothing", "metrics.by: nothing is no argument of a query predicate: "),
        ("metrics.by=InField.3", "InField.1 (position), InField.2 (field)"),
        ("learner.max_weights=20", "learner.max_weights: the rules alone have"),
    ],
)
def test_what_does_not_fit_the_model_is_said_at_its_key(held_out, override, said):
    assert held_out.run("--set", override) == 78
    assert held_out.said.startswith(f"--set {override}: ")
    assert said in held_out.said


@pytest.mark.parametrize("by", ["field", "InField.2"])
def test_values_of_an_argument_are_counted(held_out, trained, by):
    found = evaluate(held_out, trained.output, f"metrics.by={by}")
    assert found["by"].keys() == {"author", "title", "venue"}


def test_values_of_an_argument_without_declared_constants(held_out, trained):
    found = evaluate(held_out, trained.output, "metrics.by=position")
    plain = evaluate(held_out, trained.output)
    support = sum(scores["support"] for scores in found["by"].values())
    assert support == sum(scores["support"] for scores in plain["by"].values())
    assert {"0", "10"} <= found["by"].keys()


def test_a_summary_says_how_a_run_went(trained):
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


def test_mira_has_no_regret_bound(job, citations):
    summary = run(job(citations[:10], learner={"update": "mira"}))
    assert summary["regret_bound"] is summary["dual"] is None
    assert summary["loss"] > 0


# a run that another one goes on from ---------------------------------------------------------------


@pytest.mark.parametrize(("learner", "checkpoint"), [*zip(LEARNERS, [0, 1, 0, 1], strict=True)])
def test_a_run_takes_over_the_whole_state_of_another(job, citations, learner, checkpoint):
    keys = {"learner": LEARNERS[learner]}
    day1, whole = job(citations[:20], "day1", **keys), job(citations[:35], "whole", **keys)
    summary = [run(each) for each in (day1, whole)][1]
    start = day1.checkpoints()[-1] if checkpoint else day1.output
    day2 = job(citations[20:35], "day2", learner=LEARNERS[learner] | {"start": str(start)})
    found = run(day2)
    assert (day2.output / "weights.mln").read_bytes() == (whole.output / "weights.mln").read_bytes()
    assert day2.lines("predictions.jsonl") == whole.lines("predictions.jsonl")[20:]
    assert found["examples"] == 15
    for name in ("updates", "weights", "dual", "regret_bound", "loss"):
        assert found[name] == summary[name]
    assert run(day2) == found


def test_a_soft_run_takes_over_the_whole_state_of_another(job, tmp_path):
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
        ("learner.replay={}", "learner.replay.examples: was nothing, is 10"),
        ("query=[InField, Token]", "query: was"),
        ("model=OTHER", "model: the file has changed"),
    ],
)
def test_the_state_of_another_learner_is_refused(trained, held_out, tmp_path, override, said):
    other = tmp_path / "other.mln"
    other.write_text(MODEL.read_text() + "\nHasComma(i) => InField(i, +f)\n")
    start = f"learner.start={trained.output}"
    assert held_out.run(*set_((override.replace("OTHER", str(other)), start))) == 78
    complaint = held_out.said.rstrip("\n")
    assert complaint.startswith(f"--set {start}: learner.start: ")
    assert "checkpoint-" in complaint
    assert "is of another learner (" in complaint
    assert said in complaint
    assert complaint.endswith("); to start from its weights, give its weights file")
    assert "\n" not in complaint


def test_a_run_goes_on_though_that_which_it_started_from_has_gone_on(job, citations):
    day1 = job(citations[:40], "day1")
    run(day1)
    day2 = job(citations[40:60], "day2", learner={"start": str(day1.output)})
    run(day2)
    day1.source.write_bytes(b"".join(citations[:50]))
    run(day1)
    day2.source.write_bytes(b"".join(citations[40:70]))
    assert run(day2)["updates"] == 70
