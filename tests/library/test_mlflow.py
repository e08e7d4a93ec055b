"""A learner as a model of MLflow: in a fresh process it predicts the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from conftest import CITATIONS, REPO, Job

import onlinesrl as srl
from onlinesrl.library.mlflow_model import save_model

FRESH = """
import json, sys
import mlflow.pyfunc
model = mlflow.pyfunc.load_model(sys.argv[1])
print(json.dumps(model.predict(json.load(sys.stdin))))
"""


@pytest.mark.filterwarnings("ignore")  # MLflow warns of its own code when it is imported
def test_a_model_predicts_in_a_fresh_process_the_same_bits(tmp_path: Path) -> None:
    lines = CITATIONS.read_text().splitlines()[:40]
    citations = srl.datasets.citations()
    learner = srl.OnlineLearner(citations.model, citations.query)
    for example in citations.examples[:20]:
        learner.learn_one(example)
    save_model(learner, tmp_path / "model", lines[0])
    expected = [prediction.line for prediction in learner.predict_many(citations.examples[20:40])]
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(tmp_path / "model")],
        input=json.dumps([*lines[20:40], "{"]),
        env=os.environ | {"PYTHONPATH": str(REPO), "MLFLOW_DISABLE_TELEMETRY": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *answers, bad = json.loads(done.stdout)
    assert answers == [msgspec.json.encode(line).decode() for line in expected]
    assert "error" in json.loads(bad)
    described = (tmp_path / "model" / "MLmodel").read_text()
    assert "signature:" in described and "saved_input_example_info:" in described
    assert json.loads((tmp_path / "model" / "input_example.json").read_text()) == [lines[0]]


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
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:///proc/nowhere")
    assert run.run("--fresh") == 0
    assert run.said.count("metrics are not logged to MLflow: ") == 1
    assert run.lines("metrics.jsonl") == lines
