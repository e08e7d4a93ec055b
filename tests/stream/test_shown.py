"""Runs whose labels the model does not declare: refused, or learned as the stream shows them."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import MODEL, Job

UNDECLARED = MODEL.read_text().replace('field = {"author", "title", "venue"}', "")
OPEN = f"field = {{...}}\n{UNDECLARED}"


@pytest.fixture
def model(tmp_path):
    def write(text):
        path = tmp_path / f"model{len(text)}.mln"
        path.write_text(text)
        return str(path)

    return write


def summary(job: Job, *overrides: str) -> dict[str, Any]:
    """Run from the start, and return the summary."""
    options = [part for override in overrides for part in ("--set", override)]
    assert job.run("--fresh", *options) == 0, job.said
    found: dict[str, Any] = json.loads((job.output / "summary.json").read_bytes())
    return found


def check(job: Job) -> tuple[list[str], bool]:
    """What `check` says of the first examples, and whether all are good."""
    code = job.call("check", job.config, "--examples", "20")
    assert code in {0, 65}, job.said
    return job.printed.splitlines(), code == 0


def evaluate(job: Job, trained: Path) -> dict[str, Any]:
    assert job.call("evaluate", trained, job.config) == 0, job.said
    found: dict[str, Any] = json.loads(job.printed)
    return found


def test_labels_that_only_the_truth_names_are_refused(job, citations, model):
    """The run ends, says why and what to do; `check` names type, predicate and argument."""
    refused = job(citations[:40], model=model(UNDECLARED))
    assert refused.run() == 65
    first = refused.lines("deadletter.jsonl")[0]
    assert "only the truth names the field author; declare it in the model" in first["reason"]
    found, good = check(refused)
    assert not good
    assert (
        "type field: in 20 examples only the truth of InField (argument 2) names its constants, so that "
        'they cannot be predicted; declare them, `field = {"author", "title", "venue"}`, or, if '
        "the stream adds constants, `field = {...}`" in found
    )
    found, good = check(job(citations[:40], "open", model=model(OPEN)))
    assert good
    assert not any("type field" in line for line in found)


@pytest.mark.parametrize("early", [False, True])
def test_check_looks_at_truth_that_comes_later(job, citations, model, early):
    """It is bad at its own line, and of the examples that are looked at alone."""
    apart = []
    for line in citations[:40]:
        example = json.loads(line)
        label = {"id": example["id"], "truth": example.pop("truth")}
        apart.append([json.dumps(each).encode() + b"\n" for each in (example, label)])
    examples, truths = map(list, zip(*apart, strict=True))
    lines = [*truths, *examples] if early else [*examples, *truths]
    refused = job(lines, model=model(UNDECLARED), labels={})
    found, good = check(refused)
    assert not good
    assert "examples: 0 of the first 20 are good" in found
    assert any(line.startswith("type field: in 20 examples only the truth") for line in found)
    place = f"{refused.source}:{1 if early else 41}: "
    assert any(line.startswith(place) and "20 in all" in line for line in found), found
    assert check(job(lines, "declared", labels={}))[1]


def test_an_open_type_is_learned_as_the_stream_shows_it(job, citations, model):
    """The first citation's fields are missed, whatever the batch; later ones are found."""
    opened = job(citations[:60], model=model(OPEN))
    results = []
    for batch in (1, 7, 64):
        found = summary(opened, f"batch={batch}")
        results.append(opened.results())
        assert found["f1"] > 0.6
        assert found["labelled"] == found["examples"] == 60
    assert results[0] == results[1] == results[2]
    first = opened.lines("predictions.jsonl")[0]
    truth = json.loads(citations[0])["truth"]["InField"]
    assert first["predicted"] == {"InField": []}
    assert first["hamming"] == len(truth)
    weights = (opened.output / "weights.mln").read_text()
    assert 'field = { "author", "title", "venue", ... }' in weights


def test_what_was_shown_is_used_where_nothing_is_learned(job, citations, model):
    """From a checkpoint, a run folder and a weights file; a model without any has no label to give."""
    opened = job(citations[:60], model=model(OPEN))
    summary(opened)
    later = job(citations[60:90], "later", model=model(OPEN))
    expected = evaluate(later, opened.output)
    assert expected["f1"] > 0.6
    assert evaluate(later, opened.checkpoints()[-1]) == expected
    assert evaluate(later, opened.output / "weights.mln") == expected


def test_labels_that_come_late_are_shown_when_they_come(job, citations, model):
    """Predicted without, missed, and then known."""
    examples = [json.loads(line) for line in citations[:12]]
    labels = [{"id": e["id"], "truth": e.pop("truth")} for e in examples]
    lines = [*examples[:5], labels[0], *labels[1:5], *examples[5:], *labels[5:]]
    late = job([json.dumps(line).encode() + b"\n" for line in lines], model=model(OPEN), labels={})
    results = []
    for batch in (1, 5, 64):
        found = summary(late, f"batch={batch}")
        results.append(late.results())
    assert results[0] == results[1] == results[2]
    assert found["labelled"] == 12
    predicted = [line["predicted"]["InField"] for line in late.lines("predictions.jsonl")]
    assert not any(predicted[:5])
    assert all(predicted[5:])


def test_a_database_whose_labels_only_its_query_atoms_name_says_what_to_do(job, tmp_path, model):
    """Declared, or shown by the worlds before, they are used."""
    worlds = tmp_path / "worlds"
    worlds.mkdir()
    for n in range(8):
        label = "Ham" if n % 2 else "Spam"
        (worlds / f"{n}.db").write_text(
            f"Word(D, {'Hello' if n % 2 else 'Prize'})\nClass(D, {label})\n"
        )
    rules = "Word(doc, word)\nClass(doc, cls!)\nWord(d, +w) => Class(d, +c)\n"
    keys = {"query": "Class", "metrics": {}, "source": {"path": str(worlds)}}
    refused = job([], "refused", model=model(rules), **keys)
    assert refused.run() == 65
    reason = refused.lines("deadletter.jsonl")[0]["reason"]
    assert (
        "only the truth names the cls Spam; declare it in the model, `cls = {Spam, ...}`" in reason
    )
    opened = job([], "opened", model=model(f"cls = {{...}}\n{rules}"), **keys)
    declared = job([], "declared", model=model(f"cls = {{Ham, Spam}}\n{rules}"), **keys)
    assert summary(opened)["bad"] == summary(declared)["bad"] == 0
    assert opened.lines("predictions.jsonl")[-1]["hamming"] == 0
