"""A learner as a model of MLflow: in a fresh process it predicts the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from conftest import CITATIONS, REPO, Job

import onlinesrl as srl
from onlinesrl.library.mlflow_model import log_model, save_model

FRESH = """
import json, sys
import mlflow.pyfunc
model = mlflow.pyfunc.load_model(sys.argv[1])
print(json.dumps(model.predict(json.load(sys.stdin))))
"""


def fresh(model: str, lines: list[str]) -> list[str]:
    """What a model of MLflow answers in another process."""
    done = subprocess.run(
        [sys.executable, "-c", FRESH, model],
        input=json.dumps(lines),
        env=os.environ | {"PYTHONPATH": str(REPO), "MLFLOW_DISABLE_TELEMETRY": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[str] = json.loads(done.stdout)
    return answers


@pytest.mark.filterwarnings("ignore")  # MLflow warns of its own code when it is imported
def test_a_model_predicts_in_a_fresh_process_the_same_bits(tmp_path: Path) -> None:
    lines = CITATIONS.read_text().splitlines()[:40]
    citations = srl.datasets.citations()
    learner = srl.OnlineLearner(citations.model, citations.query)
    for example in citations.examples[:20]:
        learner.learn_one(example)
    save_model(learner, tmp_path / "model", lines[0])
    expected = [prediction.line for prediction in learner.predict_many(citations.examples[20:40])]
    *answers, bad = fresh(str(tmp_path / "model"), [*lines[20:40], "{"])
    assert answers == [msgspec.json.encode(line).decode() for line in expected]
    assert "error" in json.loads(bad)
    described = (tmp_path / "model" / "MLmodel").read_text()
    assert "signature:" in described and "saved_input_example_info:" in described
    assert json.loads((tmp_path / "model" / "input_example.json").read_text()) == [lines[0]]


@pytest.mark.filterwarnings("ignore")
def test_what_a_run_has_learned_is_logged_and_predicts_in_a_fresh_process(
    job: Callable[..., Job], citations: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "tracked").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    run = job(citations[:20])
    assert run.run() == 0, run.said
    import mlflow

    lines = [line.decode().rstrip() for line in citations[20:30]]
    with mlflow.start_run():
        logged = log_model(srl.OnlineLearner.load(run.output), "citations", lines[0])
    assert logged.signature is not None
    asked = job(citations[20:30], "asked")
    assert asked.call("predict", run.output, asked.config) == 0
    done = fresh(logged.model_uri, lines)
    assert done == asked.printed.splitlines()


@pytest.mark.filterwarnings("ignore")
def test_metrics_are_logged_while_a_run_runs_and_go_on(
    job: Callable[..., Job], citations: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "tracked").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # mlflow-skinny has no database
    run = job(citations[:40], metrics={"mlflow": "citations"})
    assert run.run("--until", "20") == 0, run.said
    assert run.run() == 0, run.said
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("citations")
    [tracked] = client.search_runs([experiment.experiment_id])
    assert tracked.info.status == "FINISHED"
    logged = {
        metric.step: metric.value for metric in client.get_metric_history(tracked.info.run_id, "f1")
    }
    lines = run.lines("metrics.jsonl")
    assert logged == {line["examples"]: line["f1"] for line in lines}
    for nowhere in "file:///proc/nowhere", "http://ann:0pen-sesame@127.0.0.1:9":
        monkeypatch.setenv("MLFLOW_TRACKING_URI", nowhere)
        started = time.monotonic()
        assert run.run("--fresh") == 0
        assert run.said.count("metrics are not logged to MLflow: ") == 1
        assert "sesame" not in run.said
        assert run.lines("metrics.jsonl") == lines
    assert time.monotonic() - started < 60  # MLflow itself would try for four minutes
