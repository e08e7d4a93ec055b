"""The command line: what each command prints, and its exit codes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MODEL, REPO, Job, wait

from onlinesrl import __version__
from onlinesrl.lang.example import json_schema


@pytest.fixture(scope="module")
def trained(warm: None, tmp_path_factory: pytest.TempPathFactory, citations: list[bytes]) -> Job:
    """A finished run over 60 citations, with checkpoints on the way."""
    job = Job(tmp_path_factory.mktemp("trained"), citations[:60], checkpoint={"every": 25})
    assert job.run() == 0, job.said
    return job


def call(job: Job, *arguments: object) -> int:
    return wait(job.fork(*map(str, arguments)))


def cold(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(REPO), "TERM": "dumb", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-c", "from onlinesrl.cli import main; main()", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_version() -> None:
    done = cold("--version")
    assert (done.stdout, done.stderr, done.returncode) == (f"onlinesrl {__version__}\n", "", 0)


def test_usage() -> None:
    done = cold()
    assert (done.returncode, done.stderr) == (64, "")
    for name in ("run", "predict", "evaluate", "weights", "check", "schema"):
        assert name in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "No such command 'nothing'"),
        (["run"], "Missing argument 'CONFIG'"),
        (["run", "a.yaml", "b.yaml"], "unexpected extra argument"),
        (["run", "a.yaml", "--slow"], "No such option: --slow"),
        (["check", "a.yaml", "--examples", "few"], "'--examples'"),
        (["check", "a.yaml", "--examples", "-1"], "'--examples'"),
        (["weights", "a", "--top", "0"], "'--top'"),
    ],
)
def test_wrong_usage_is_64(trained: Job, arguments: list[str], said: str) -> None:
    assert call(trained, *arguments) == 64
    assert trained.said.startswith("onlinesrl: ")
    assert said in trained.said


def test_run_prints_a_summary(trained: Job, job: Callable[..., Job], citations) -> None:
    run = job(citations[:10])
    assert run.run() == 0
    printed = dict(line.split("  ", 1) for line in run.printed.splitlines())
    assert printed["Examples"].strip() == "10, 10 learned from"
    assert {"Time", "F1", "Accuracy", "Hamming loss", "Regret bound", "Weights"} <= printed.keys()
    assert printed["Results"].strip() == str(run.output)
    assert [line.split(" | ")[0] for line in run.said.splitlines()] == [
        f"examples {n}" for n in (1, 2, 4, 8)
    ]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("learner.update=sgd", "learner.update"),
        ("learner.rate=1", "unknown key"),
        ("source.path=nowhere.jsonl", "No such file"),
        ("model=nowhere.mln", "No such file"),
        ("query=Nothing", "Nothing is not declared"),
    ],
)
def test_a_wrong_configuration_is_78(trained: Job, override: str, said: str) -> None:
    for command in ("run", "check"):
        assert call(trained, command, trained.config, "--set", override) == 78
        assert trained.said.startswith(f"--set {override}: ")
        assert said in trained.said


def test_a_wrong_model_is_78(trained: Job, tmp_path: Path) -> None:
    model = tmp_path / "wrong.mln"
    model.write_text("P(x)\nP(x) ^\n")
    assert call(trained, "check", trained.config, "--set", f"model={model}") == 78
    assert trained.said.startswith(f"{model}:2:")
    assert "  P(x) ^\n" in trained.said


def predicted(job: Job, *arguments: object) -> list[Any]:
    assert call(job, "predict", *arguments) == 0, job.said
    return [json.loads(line) for line in job.printed.splitlines()]


def test_predict_gives_labels_scores_and_margins(
    trained: Job, job: Callable[..., Job], citations: list[bytes]
) -> None:
    unlabelled = [
        json.dumps({k: v for k, v in json.loads(line).items() if k != "truth"}).encode() + b"\n"
        for line in citations[60:70]
    ]
    there = job([*unlabelled, b"{\n"], "there")
    before = {path: path.read_bytes() for path in trained.output.rglob("*") if path.is_file()}
    lines = predicted(there, trained.output, there.config)
    assert [line["id"] for line in lines] == [json.loads(c)["id"] for c in citations[60:70]]
    assert all(line["certified"] and line["margin"] >= 0 for line in lines)
    assert all("hamming" not in line for line in lines)
    assert f"warning: {there.source}:11: not an example" in there.said
    assert {path: path.read_bytes() for path in before} == before
    assert not there.output.exists()
    by_file = predicted(there, trained.output / "weights.mln", there.config)
    assert [line["predicted"] for line in by_file] == [line["predicted"] for line in lines]
    target = there.folder / "predicted.jsonl"
    assert predicted(there, trained.output, there.config, "--output", target) == []
    assert [json.loads(line) for line in target.read_bytes().splitlines()] == lines


def test_predict_cannot_write(trained: Job, tmp_path: Path) -> None:
    target = tmp_path / "no" / "file"
    assert call(trained, "predict", trained.output, trained.config, "--output", target) == 74
    assert f"{target}: cannot write: No such file or directory" in trained.said


def evaluated(job: Job, *arguments: object) -> Any:
    assert call(job, "evaluate", *arguments) == 0, job.said
    return json.loads(job.printed)


def test_evaluate_prints_the_same_metrics_for_every_form_of_weights(
    trained: Job, job: Callable[..., Job], citations: list[bytes]
) -> None:
    there = job(citations[60:90], "there")
    metrics = evaluated(there, trained.output, there.config)
    assert metrics["examples"] == metrics["labelled"] == 30
    for form in (trained.checkpoints()[-1], trained.output / "weights.mln"):
        assert evaluated(there, form, there.config) == metrics
    only = evaluated(there, trained.output, there.config, "--set", "source.only=nothing")
    assert (only["examples"], only["f1"]) == (0, None)


@pytest.mark.parametrize("name", ["nothing", "nothing.mln", "nothing.ckpt"])
def test_trained_weights_that_are_not_there_are_74(trained: Job, name: str) -> None:
    assert call(trained, "evaluate", trained.folder / name, trained.config) == 74
    assert "No such file or directory" in trained.said


def test_a_folder_without_checkpoints_is_74(trained: Job, tmp_path: Path) -> None:
    assert call(trained, "evaluate", tmp_path, trained.config) == 74
    assert f"{tmp_path}: no checkpoint in this folder" in trained.said


def test_a_damaged_checkpoint_is_74(trained: Job, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.ckpt"
    damaged.write_bytes(trained.checkpoints()[-1].read_bytes()[:-1])
    assert call(trained, "evaluate", damaged, trained.config) == 74
    assert "cut off" in trained.said


def test_weights_of_one_checkpoint(trained: Job) -> None:
    assert call(trained, "weights", trained.output, "--top", "7") == 0
    lines = trained.printed.splitlines()
    assert len(lines) == 7
    heaviest = (trained.output / "weights.mln").read_text().splitlines()
    first = next(line for line in heaviest if line[:1].isdigit() or line[:1] == "-")
    assert float(lines[0].split()[0]) == pytest.approx(float(first.split()[0]), abs=1e-6)
    assert "updates" in lines[0]


def test_weights_of_two_checkpoints(trained: Job) -> None:
    old, *_, new = trained.checkpoints()
    assert call(trained, "weights", old, new, "--top", "5") == 0
    lines = [line.split() for line in trained.printed.splitlines()]
    assert len(lines) == 5
    for change, before, arrow, after, *_ in lines:
        assert arrow == "->"
        assert float(after) - float(before) == pytest.approx(float(change), abs=2e-6)
    changes = [abs(float(line[0])) for line in lines]
    assert changes == sorted(changes, reverse=True)
    assert changes[-1] > 0
    assert call(trained, "weights", new, new) == 0
    assert {line.split()[0] for line in trained.printed.splitlines()} == {"+0.000000"}


def test_check_looks_at_the_first_examples(job: Callable[..., Job], citations) -> None:
    run = job([*citations[:5], b"{\n", *citations[5:9]])
    assert call(run, "check", run.config, "--examples", "5") == 0
    assert run.printed.splitlines()[1] == "examples: 5 of the first 5 are good"
    assert call(run, "check", run.config) == 65
    found = run.printed.splitlines()
    assert found[1] == "examples: 9 of the first 10 are good"
    assert found[2].startswith(f"{run.source}:6: not an example: ")
    assert call(run, "check", run.config, "--examples", "0") == 0
    assert run.printed.splitlines()[1] == "examples: 0 of the first 0 are good"
    assert not run.output.exists()


def test_schema(trained: Job) -> None:
    assert call(trained, "schema") == 0
    assert json.loads(trained.printed) == json_schema()


def test_commands_of_the_example_configuration_work_where_it_is(
    trained: Job, tmp_path: Path
) -> None:
    config = REPO / "configs" / "citations.yaml"
    assert call(trained, "check", config) == 0
    assert "examples: 100 of the first 100 are good" in trained.printed
    assert str(MODEL) == str(REPO / "streams" / "citations" / "segmentation.mln")
    assert not (tmp_path / "runs").exists()
