"""Labels that come after the prediction, in Python: the bits of a run with a section labels."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import REPO

import onlinesrl as srl
from onlinesrl.stream import checkpoints
from tests.stream.test_late_labels import shuffled

MODEL = srl.Model.read(REPO / "streams" / "citations" / "segmentation.mln")
SMALL = "person = {Anna, Bob, Carl}\nSmokes(person)\nCancer(person)\n0 Smokes(x) => Cancer(x)\n"
UPDATE = {"update": "cda1", "sigma": 0.1}


def learner(pending: int = 1000) -> srl.OnlineLearner:
    return srl.OnlineLearner(MODEL, "InField", update=UPDATE, by="InField.2", pending=pending)


def take(learner: srl.OnlineLearner, lines: list[bytes]) -> None:
    """Predict examples and learn from labels, as they come."""
    for line in map(json.loads, lines):
        if "evidence" in line:
            learner.predict_one(srl.Example(**line))
        else:
            learner.label(line["id"], line["truth"])


def test_it_is_a_run_with_late_labels(job: Any, citations: list[bytes], tmp_path: Path) -> None:
    lines = shuffled(citations[:60], seed=4)
    run = job(lines, labels={"pending": 1000}, learner=UPDATE, metrics={"by": "InField.2"})
    assert run.run() == 0, run.said
    whole, half = learner(), learner()
    take(whole, lines)
    take(half, lines[:50])
    half.save(tmp_path / "half")
    for other in (srl.OnlineLearner.load(tmp_path / "half"), pickle.loads(pickle.dumps(half))):
        take(other, lines[50:])
        assert other.weights_text() == whole.weights_text()
        assert other.metrics == whole.metrics
    last = run.lines("metrics.jsonl")[-1]
    assert {name: last[name] for name in whole.metrics} == whole.metrics
    saved = srl.OnlineLearner.load(run.output)  # goes on where the run ended
    assert saved.weights_text() == whole.weights_text()
    assert saved.metrics == whole.metrics
    assert saved._labels.counts() == whole._labels.counts()


def test_a_run_that_has_ended_goes_on_with_its_waiting_examples(
    job: Any, citations: list[bytes]
) -> None:
    lines = shuffled(citations[:40], seed=5)
    first = job(lines[:31], "first", labels={"pending": 1000}, learner=UPDATE)
    assert first.run() == 0, first.said
    went_on, whole = srl.OnlineLearner.load(first.output), learner()
    assert went_on.metrics["pending"] > 0
    take(went_on, lines[31:])
    take(whole, lines)
    assert went_on.weights_text() == whole.weights_text()


def test_what_waits_and_what_does_not(tmp_path: Path) -> None:
    waiting = srl.OnlineLearner(SMALL, "Cancer", pending=2)
    prediction = waiting.predict_one({"Smokes": ["Anna"]})
    assert (prediction.hamming, prediction.truth) == (None, None)
    assert waiting.metrics["pending"] == 1
    before = waiting.weights_text()
    with pytest.raises(srl.ExampleError, match="Cancre"):
        waiting.label(prediction.id, {"Cancre": ["Anna"]})
    with pytest.raises(srl.ExampleError, match="truth: expected a mapping"):
        waiting.label(prediction.id, ["Anna"])
    assert waiting.weights_text() == before
    waiting.save(tmp_path / "learner")
    again = srl.OnlineLearner.load(tmp_path / "learner")
    scored = again.label(prediction.id, {"Cancer": ["Anna"]})
    assert scored is not None
    assert scored.truth == {"Cancer": [("Anna",)]}
    assert again.metrics["labelled"] == again.metrics["examples"] == 1
    assert again.label("never seen", {"Cancer": []}) is None
    assert again.metrics["early_labels"] == 1
    learned = again.predict_one(srl.Example(id="never seen", evidence={"Smokes": ["Bob"]}))
    assert learned.truth == {"Cancer": []}
    for name in ("Anna", "Bob", "Carl"):
        again.predict_one({"Smokes": [name]})
    assert (again.metrics["pending"], again.metrics["expired"]) == (2, 1)
    number = prediction.id
    numbers = {p.id for p in again.predict_many([{"Smokes": []}] * 50)}
    assert len(numbers) == 50
    assert number not in numbers


def test_wrong_use_says_what_to_do() -> None:
    plain = srl.OnlineLearner(SMALL, "Cancer")
    with pytest.raises(srl.UsageError, match="make the learner with pending=10_000"):
        plain.label(1, {"Cancer": []})
    waiting = srl.OnlineLearner(SMALL, "Cancer", pending=2)
    with pytest.raises(srl.UsageError, match="inference='mcsat'"):
        waiting.predict_one({}, marginals=True)
    for pending in (-1, 2.5, True):
        with pytest.raises(srl.UsageError, match="pending is"):
            srl.OnlineLearner(SMALL, "Cancer", pending=pending)  # type: ignore[arg-type]


def test_a_checkpoint_without_a_queue_is_what_it_was(tmp_path: Path) -> None:
    plain = srl.OnlineLearner(SMALL, "Cancer")
    plain.save(tmp_path / "plain")
    saved = checkpoints.named(tmp_path / "plain")
    assert "labels" not in saved.header
    assert "pending" not in saved.arrays


def test_learn_one_takes_the_targets() -> None:
    model = srl.Model("1: Knows(A, B) & Trusts(A, C) -> Trusts(B, C)\n1: !Trusts(A, B) ^2", "psl")
    evidence = {"Knows": [["a", "b"]], "Trusts": [{"args": ["a", "c"], "value": 0.9}]}
    truth, query = {"Trusts": {("b", "c"): 0.6}}, {"Trusts": [["b", "c"]]}
    one, other = (srl.OnlineLearner(model, "Trusts") for _ in range(2))
    one.learn_one(evidence, truth, query=query)
    other.learn_one(srl.Example(id=1, evidence=evidence, truth=truth, query=query))
    assert one.weights_text() == other.weights_text()
    assert one.weights_text() != srl.OnlineLearner(model, "Trusts").weights_text()
    with pytest.raises(srl.ExampleError, match="Trusts, row 0: expected constants, or an atom's"):
        one.learn_one({"Trusts": [{"arguments": ["a", "c"]}]}, truth, query=query)


def test_rules_with_other_atoms_are_left_out_of_an_answer() -> None:
    model = srl.Model("1: Knows(A, B) & Trusts(A, C) -> Trusts(B, C)\n1: !Trusts(A, B) ^2", "psl")
    evidence = {"Knows": [["a", "b"], ["a", "d"]], "Trusts": [["a", "c"]]}
    query = {"Trusts": [["b", "c"]]}
    with pytest.raises(srl.OnlinesrlError, match="--targets skip"):
        srl.infer(model, evidence, query)
    found = srl.infer(model, evidence, query, targets="skip")
    assert found["Trusts"]["b", "c"] == pytest.approx(0.5, abs=1e-3)
    for other in (model, SMALL):
        with pytest.raises(srl.UsageError, match="targets"):
            srl.infer(other, evidence, query, targets="none")
