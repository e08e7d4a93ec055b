"""Labels that come after the prediction, in Python: the bits of a run with a section labels."""

import csv
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import REPO

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError, OnlinesrlWarning
from onlinesrl.core.example import Label
from onlinesrl.stream import checkpoints
from onlinesrl.stream.late_labels import with_labels
from onlinesrl.stream.records import Record
from tests.stream.test_late_labels import shuffled
from tests.support.late_labels import apart

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


def test_read_joins_them_as_the_run_does(job: Any, citations: list[bytes]) -> None:
    """A learner taught what is read has the weights of the run, whose predictions alone came before."""
    lines = shuffled(citations[:40], seed=6)
    extra, bad = b'{"id": "none", "evidence": {}}\n', b"{\n"
    run = job([extra, *lines, bad], labels={}, learner=UPDATE)
    assert run.run() == 0, run.said
    refused = list[str]()
    examples = [*srl.read(run.config, bad=refused.append)]
    assert [":82: not an example" in said for said in refused] == [True]
    assert len(examples) == 41
    assert (examples[-1].id, examples[-1].truth) == ("none", None)
    taught = learner(pending=0)
    taught.learn_many(examples)
    weights = srl.OnlineLearner.load(run.output).weights_text()
    assert taught.weights_text() == weights
    with pytest.raises(srl.DataError, match=r"source\.jsonl:82"):
        list(srl.read(run.config))


@pytest.mark.parametrize("early", [False, True])
def test_a_bad_label_takes_no_example_with_it(
    job: Any, citations: list[bytes], early: bool
) -> None:
    """In what is read and compared as in a run: it is the bad record, and its example waits for another."""
    pairs = [apart(line) for line in citations[:20]]
    examples, labels = [e for e, _ in pairs], [t for _, t in pairs]
    bad = json.dumps(json.loads(labels[3]) | {"truth": {"InField": [[999, "title"]]}}).encode()
    place = 3 if early else 20
    lines = [*examples[:place], bad + b"\n", *examples[place:], *labels]
    run, good = job(lines, "bad", labels={}), job([*examples, *labels], "good", labels={})
    refused = list[str]()
    assert [*srl.read(run.config, bad=refused.append)] == [*srl.read(good.config)]
    (told,) = refused
    assert f"source.jsonl:{place + 1}: " in told and "999" in told
    tables = []
    for each in (run, good):
        folder = each.output.parent / "compared"
        assert each.call("compare", each.config, "--folds", "2", "--output", folder) == 0, each.said
        rows = csv.DictReader((folder / "comparison.csv").read_text().splitlines())
        tables.append([row["f1"] for row in rows])
    assert tables[0] == tables[1] and len(tables[0]) >= 2


def joined(contents: list[Any]) -> list[srl.Example]:
    record = Record(b"", "source.jsonl", 1, 0, 0)
    return [x for _, x in with_labels([(record, x) for x in contents], 2, lambda *_: True)]


def test_few_may_wait() -> None:
    examples = [srl.Example(id=n, evidence={}) for n in range(6)]
    labels = [Label(id=n, truth={"P": [[n]]}) for n in range(6)]
    contents = [labels[5], *examples[:4], labels[3], labels[0], *examples[4:], labels[4]]
    found = [(x.id, x.truth is not None) for x in joined(contents)]
    assert found == [(0, False), (1, False), (3, True), (5, True), (4, True), (2, False)]


def test_what_a_label_leaves_open_stays_open() -> None:
    """In streams that are read to their end, and in Python."""
    examples = [srl.Example(id=n, evidence={}, unlabelled=["P"]) for n in range(2)]
    labels = [Label(id=0, truth={}, unlabelled=["Q"]), Label(id=1, truth={})]
    for contents in ([*examples, *labels], [*labels, *examples]):
        assert [x.unlabelled for x in joined(contents)] == [["Q"], ["P"]]
    late, whole = (srl.OnlineLearner(SMALL, "Cancer", pending=2) for _ in range(2))
    prediction = late.predict_one({"Smokes": ["Anna", "Bob"]})
    late.label(prediction.id, {"Cancer": ["Anna"]}, unlabelled=["Cancer"])
    whole.learn_one({"Smokes": ["Anna", "Bob"]}, {"Cancer": ["Anna"]}, unlabelled=["Cancer"])
    assert late.weights_text() == whole.weights_text()
    assert late.metrics["predicates"] == whole.metrics["predicates"]


def test_compare_learns_in_the_order_of_labels(job: Any, citations: list[bytes]) -> None:
    late = job([line for each in citations[:60] for line in apart(each)], "late", labels={})
    plain = job(citations[:60], "plain")
    tables = []
    for each in (late, plain):
        folder = each.output.parent / "compared"
        grid = ("--grid", "learner.sigma=0.01,1", "--output", folder)
        assert each.call("compare", each.config, *grid) == 0, each.said
        rows = csv.DictReader((folder / "comparison.csv").read_text().splitlines())
        tables.append([row["f1"] for row in rows])
    assert tables[0] == tables[1]
    assert len(tables[0]) > 2


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
        for wrong in ("none", query):
            with pytest.raises(srl.UsageError, match="targets"):
                srl.infer(other, evidence, query, targets=wrong)  # type: ignore[arg-type]


def test_a_bad_label_that_comes_first_is_dropped_with_a_warning() -> None:
    """Its example is predicted and waits; where the example is bad, the label waits for another."""
    late = srl.OnlineLearner(srl.Model(SMALL), "Cancer", pending=10)
    assert late.label("e", {"Cancre": []}) is None
    with pytest.raises(ExampleError, match="Smoke"):
        late.predict_one(srl.Example(id="e", evidence={"Smoke": [["Anna"]]}))
    assert late._labels.counts()["early_labels"] == 1
    with pytest.warns(OnlinesrlWarning, match="label of e .* is bad, and dropped: .*Cancre"):
        late.predict_one(srl.Example(id="e", evidence={"Smokes": [["Anna"]]}))
    assert late.label("e", {"Cancer": ["Anna"]}) is not None
    assert late.metrics["labelled"] == 1
