"""Truth that comes later scores the prediction that was given out, and is no example of its own."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from conftest import Job, long

from onlinesrl.core.evaluation.prequential import f1
from onlinesrl.stream import checkpoints as checkpoints_module
from tests.support.late_labels import apart


def shuffled(lines: Sequence[bytes], seed: int) -> list[bytes]:
    """Examples in their order, each truth at a random place, mostly after its example."""
    rng = random.Random(seed)
    placed = []
    for n, line in enumerate(lines):
        example, label = apart(line)
        placed += [(n, 0, example), (n + rng.choice((0, 0, 1, 3, 9, 20, -2)), 1, label)]
    return [line for *_, line in sorted(placed, key=lambda each: each[:2])]


def scores(run: Job, lines: Sequence[bytes]) -> dict[str, Any]:
    """What the predictions in the file come to, by the truths of the lines."""
    truths = {e["id"]: e["truth"] for e in map(json.loads, lines)}
    hits = alarms = misses = units = right = 0
    for said in run.lines("predictions.jsonl"):
        found, true = (
            {tuple(atom) for atom in atoms["InField"]}
            for atoms in (said["predicted"], truths[said["id"]])
        )
        hits, alarms, misses = (
            hits + len(found & true),
            alarms + len(found - true),
            misses + len(true - found),
        )
        evidence = next(e for e in map(json.loads, lines) if e["id"] == said["id"])["evidence"]
        tokens = {at for _, at in evidence["Token"]}
        wrong = {at for at, _ in found ^ true}
        units, right = units + len(tokens), right + len(tokens - wrong)
    n = len(lines)
    return {
        "examples": n,
        "labelled": n,
        "f1": f1(hits, alarms, misses),
        "accuracy": right / units,
        "hamming": (alarms + misses) / n,
    }


def test_what_was_given_out_is_scored(job, citations):
    """All labels last: everything was predicted by weights that knew nothing."""
    pairs = [apart(line) for line in citations[:40]]
    run = job([*(e for e, _ in pairs), *(t for _, t in pairs)], labels={})
    assert run.run() == 0, run.said
    last = run.lines("metrics.jsonl")[-1]
    assert last["f1"] == 0.0
    assert {name: by["f1"] for name, by in last["by"].items()} == dict.fromkeys(last["by"], 0.0)
    assert sum(by["support"] for by in last["by"].values()) > 100
    assert last["updates"] == 40
    assert last["routes"] == {"elimination": 40}
    assert last["certified"] == 40
    expected = scores(run, citations[:40])
    assert {name: last[name] for name in expected} == expected
    summary = json.loads((run.output / "summary.json").read_bytes())
    assert {name: summary[name] for name in expected} == expected
    assert "Examples      40, 40 learned from" in run.printed
    assert run.lines("predictions.jsonl")[0].keys() == {
        "id",
        "group",
        "predicted",
        "score",
        "certified",
    }


@pytest.mark.parametrize("presolve", ["exact", long("none")])
def test_scores_are_those_of_the_file_whatever_the_batches(job, citations, presolve):
    count = 30 if presolve == "exact" else 12
    found = []
    for batch in (1, 3, 64):
        lines = shuffled(citations[:count], 1)
        keys: dict[str, Any] = {"batch": batch, "inference": {"presolve": presolve}}
        run = job(lines, f"b{batch}", labels={}, checkpoint={"every": 1000}, **keys)
        assert run.run() == 0, run.said
        last = run.lines("metrics.jsonl")[-1]
        expected = scores(run, citations[:count])
        assert {name: last[name] for name in expected} == expected
        assert (last["pending"], last["early_labels"], last["bad"]) == (0, 0, 0)
        shown = checkpoints_module.load(run.checkpoints()[-1]).header["shown"]
        found.append((run.results(), shown))
    assert found[0] == found[1] == found[2]


def test_labels_at_once_are_the_same_as_whole_examples(job, citations):
    late = job([part for line in citations[:30] for part in apart(line)], "late", labels={})
    whole = job(citations[:30], "whole")
    assert (late.run(), whole.run()) == (0, 0)
    assert late.results()["weights.mln"] == whole.results()["weights.mln"]
    ours, theirs = late.lines("metrics.jsonl")[-1], whole.lines("metrics.jsonl")[-1]
    assert {name: ours[name] for name in theirs} == theirs


def test_a_refused_example_has_nothing_to_score(job, citations):
    """Its label waits as one of an example that has not come, and joins it once it has."""
    example, label = apart(citations[0])
    broken = json.loads(example)
    broken["evidence"]["Nonsense"] = []
    bad = json.dumps(broken).encode() + b"\n"
    for batch in (1, 64):
        for lines, labelled in (([bad, label], 0), ([bad, label, example], 1)):
            run = job(
                lines, f"b{batch}-{labelled}", labels={}, batch=batch, limits={"bad_share": 1}
            )
            assert run.run() == 0, run.said
            last = json.loads((run.output / "summary.json").read_bytes())
            assert (last["examples"], last["bad"], last["labelled"]) == (1 + labelled, 1, labelled)
            assert last["early_labels"] == 1 - labelled
            assert len(run.lines("deadletter.jsonl")) == 1


def test_truths_that_no_example_waits_for_are_told(job, citations):
    """Of an id misspelt, of an example met before; and nothing is said where all met."""
    pairs = [apart(line) for line in citations[:6]]
    lines = [each for pair in pairs for each in pair]
    misspelt = json.dumps({"id": "c\x1b1", "truth": {}}).encode() + b"\n"
    run = job([*lines, misspelt, pairs[0][1]], labels={})
    assert run.run() == 0, run.said
    said = "warning: 2 labels met no example without truth; the first is of c\\x1b1"
    assert said in run.said.splitlines(), run.said
    whole = job(lines, "whole", labels={})
    assert whole.run() == 0
    assert "met no example" not in whole.said


def test_a_label_that_cannot_be_is_bad_and_its_example_still_counted_once(job, citations):
    pairs = [apart(line) for line in citations[:6]]
    wrong = json.loads(pairs[2][1])
    wrong["truth"] = {"InField": [[1, "title"], [1, "author"]]}
    pairs[2] = pairs[2][0], json.dumps(wrong).encode() + b"\n"
    lines = [*(e for e, _ in pairs), *(t for _, t in pairs)]
    run = job(lines, labels={}, limits={"bad_share": 1.0})
    assert run.run() == 0, run.said
    last = run.lines("metrics.jsonl")[-1]
    assert (last["examples"], last["labelled"], last["bad"], last["updates"]) == (6, 5, 1, 5)
    assert [letter["line"] for letter in run.lines("deadletter.jsonl")] == [9]
    strict = job(lines, "strict", labels={})
    assert strict.run("--strict") == 65
    assert "source.jsonl:9: " in strict.said
    assert strict.run("--set", "limits.bad_share=1.0") == 0, strict.said
    for name in ("weights.mln", "predictions.jsonl", "metrics.jsonl"):
        assert strict.results()[name] == run.results()[name]
    assert len(strict.lines("deadletter.jsonl")) == 1


def test_what_waits_is_bounded_and_counted(job, citations):
    """Examples that wait for too long expire, and so do truths of examples that never came."""
    pairs = [apart(line) for line in citations[:30]]
    strangers = [json.dumps({"id": f"x{n}", "truth": {}}).encode() + b"\n" for n in range(8)]
    lines = [*(e for e, _ in pairs), *(t for _, t in pairs), *strangers]
    run = job(lines, labels={"pending": 10})
    assert run.run("--until", "25") == 0, run.said
    assert run.run() == 0, run.said
    summary = json.loads((run.output / "summary.json").read_bytes())
    counts = {"expired": 20, "labelled": 10, "pending": 0, "early_labels": 10}
    assert {name: summary[name] for name in counts} == counts
    assert summary["unmatched_labels"] == 20 + 8 - 10
    assert [p["id"] for p in run.predictions()] == [json.loads(e)["id"] for e, _ in pairs]
