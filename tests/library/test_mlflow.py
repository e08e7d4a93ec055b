"""A learner as a model of MLflow: in a fresh process it predicts the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from conftest import CITATIONS, REPO

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
