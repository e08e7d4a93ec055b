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

pytestmark = pytest.mark.usefixtures("counting")


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


@pytest.mark.usefixtures("kernels")
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
    assert run.lines("predictions.jsonl")[0].keys() == {
        "id",
        "group",
        "predicted",
        "score",
        "certified",
    }


@pytest.mark.usefixtures("kernels")
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


@pytest.mark.usefixtures("kernels")
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


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(
    "truth",
    [
        {"Title": [[1, "title"]]},
        {"InField": [[999, "title"]]},
        long({"InField": [[1]]}),
        long({"InField": [[1, "title"], [1, "author"]]}),
    ],
)
def test_a_bad_label_is_the_bad_record_and_its_example_waits_for_another(
    job, citations, truth, early
):
    """In either order, all else is as if the bad label had never come, whatever the batches and stops."""
    pairs = [apart(line) for line in citations[:6]]
    examples, labels = [e for e, _ in pairs], [t for _, t in pairs]
    bad = json.dumps({"id": json.loads(labels[2])["id"], "truth": truth}).encode()
    place = 2 if early else 4
    lines = [*examples[:place], bad + b"\n", *examples[place:], *labels]
    good = job([*examples, *labels], "good", labels={})
    assert good.run() == 0, good.said
    for batch, until in ((1, None), (64, None), (64, "3")):
        keys: dict[str, Any] = {"labels": {}, "batch": batch, "limits": {"bad_share": 1}}
        run = job(lines, f"b{batch}-{until}", **keys)
        assert until is None or run.run("--until", until) == 0, run.said
        assert run.run() == 0, run.said
        (letter,) = run.lines("deadletter.jsonl")
        assert (letter["line"], letter["text"]) == (place + 1, bad.decode())
        last = json.loads((run.output / "summary.json").read_bytes())
        counts = {"examples": 6, "bad": 1, "labelled": 6, "pending": 0, "early_labels": 0}
        assert {name: last[name] for name in counts} == counts
        for name in ("weights.mln", "predictions.jsonl"):
            assert run.results()[name] == good.results()[name]
        assert "warning" not in run.said, run.said
    strict = job(lines, "strict", labels={}, batch=1)
    assert strict.run("--strict") == 65
    assert f"source.jsonl:{place + 1}: " in strict.said
    assert strict.run("--set", "limits.bad_share=1") == 0, strict.said
    assert strict.results()["weights.mln"] == good.results()["weights.mln"]
    assert len(strict.lines("deadletter.jsonl")) == 1


def test_what_waits_has_the_same_bound_whatever_the_batches(job, citations):
    """An example whose label was bad takes its place again as the newest, at the same step."""
    rng, lines = random.Random(3), []
    pairs = [apart(line) for line in citations[:60]]
    for n, (example, label) in enumerate(pairs):
        bad = json.dumps({"id": json.loads(label)["id"], "truth": {"No": []}}).encode() + b"\n"
        lines += [(n, 0, example), (n + rng.randrange(-2, 4), 1, bad)]
        lines += [(n + rng.randrange(2, 40), 2, label)]
    stream = [line for *_, line in sorted(lines, key=lambda placed: placed[:2])]
    results = []
    for batch, until in ((1, None), (64, None), (64, "40")):
        keys: dict[str, Any] = {"batch": batch, "limits": {"bad_share": 1}}
        run = job(stream, f"b{batch}-{until}", labels={"pending": 7}, **keys)
        assert until is None or run.run("--until", until) == 0, run.said
        assert run.run() == 0, run.said
        last = run.lines("metrics.jsonl")[-1]
        assert min(last["expired"], last["labelled"], last["errors"]["schema"]) > 5
        letters = [(letter["line"], letter["text"]) for letter in run.lines("deadletter.jsonl")]
        results.append((run.results()["weights.mln"], letters, last))
    assert results[0] == results[1] == results[2]


def test_what_is_replaced_while_it_waits_is_told_with_its_count(job, citations):
    """A second row with the id of one that waits, and a second label; what came twice is no other."""
    pairs = [apart(line) for line in citations[:4]]
    name = {"id": json.loads(pairs[0][0])["id"]}
    other = json.dumps(json.loads(pairs[1][0]) | name).encode() + b"\n"
    label = json.dumps(json.loads(pairs[1][1]) | name).encode() + b"\n"
    repeated = [pairs[2][0], pairs[2][0], pairs[3][1], pairs[3][1], pairs[3][0], pairs[2][1]]
    lines = [pairs[0][0], other, label, pairs[1][1], label, pairs[0][1], *repeated]
    run = job([*lines, pairs[1][0]], labels={})
    assert run.run("--until", "2") == 0, run.said
    assert run.run() == 0, run.said
    for kind in ("examples", "labels"):
        said = f"warning: 1 {kind} that waited were replaced by others with the same id"
        assert said in run.said, run.said
