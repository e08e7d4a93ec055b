"""A run judged by the most probable atoms of each period, and the alerts that it raises."""

import json
from typing import Any

import pytest

from tests.core.evaluation.test_precision_at_k import naive
from tests.support.dated_mails import HOUR, encoded, keys, late, mails

TOP = {"top": {"k": 2, "per": "1h"}}


def figures(predictions: list[Any], examples: list[Any], labelled: set[str]) -> dict[str, Any]:
    """The figures by the file of predictions, and the truths of the examples that have a label."""
    by_id = {example["id"]: example for example in examples}
    atoms = []
    for prediction in predictions:
        example = by_id[prediction["id"]]
        (probability,) = (
            atom["value"] for atom in prediction["marginals"]["Spam"] if atom["args"] == ["m"]
        )
        true = ["m"] in example["truth"]["Spam"] if example["id"] in labelled else None
        atoms.append((example["time"], probability, true))
    return naive(atoms, 2, HOUR)


@pytest.mark.parametrize("apart", [False, True])
def test_a_run_counts_the_most_probable_atoms_whatever_its_batches(job, tmp_path, apart):
    examples, states = mails(60), []
    lines = late(examples) if apart else examples
    labelled = {line["id"] for line in lines if "truth" in line}
    more: dict[str, Any] = {"labels": {}} if apart else {}
    for batch in (1, 64):
        run = job(encoded(lines), f"b{batch}", batch=batch, **keys(tmp_path, metrics=TOP, **more))
        assert run.run() == 0, run.said
        last = run.lines("metrics.jsonl")[-1]["top"]["Spam"]
        assert last.pop("last")["start"] == 8 * HOUR
        assert last == figures(run.predictions(), examples, labelled)
        assert last["periods"] == 9
        assert last["alerts"] == 18
        states.append(run.results())
        assert "Top 2 of Spam per 1h" in run.printed
    assert states[0] == states[1]


def test_kills_leave_no_trace_in_the_figures(job, tmp_path):
    section = {"checkpoint": {"every": 7}, "labels": {}}
    run = job(encoded(late(mails(60))), **keys(tmp_path, metrics=TOP, **section))
    run.survives(2, "top")


def test_shards_count_together(job, tmp_path):
    examples = mails(60)
    rounds = {"shards": 3, "round": 8, "workers": 1}
    run = job(encoded(examples), **keys(tmp_path, metrics=TOP, distribute=rounds))
    assert run.run() == 0, run.said
    last = run.lines("metrics.jsonl")[-1]["top"]["Spam"]
    last.pop("last")
    assert last == figures(run.predictions(), examples, {x["id"] for x in examples})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inference": {"engine": "mpe"}}, "predictions by mpe have no probabilities"),
        ({"metrics": {"top": {"k": 2, "per": "1 day"}}}, "expected a time such as 1d, 8h or 30m"),
        ({"metrics": {"top": {"k": 0}}}, "metrics.top.k"),
    ],
)
def test_what_cannot_be_counted_is_refused(job, tmp_path, change, said):
    run = job(encoded(mails(1)), **keys(tmp_path, metrics=TOP) | change)
    assert run.run() == 78
    assert said in run.said


def test_an_old_checkpoint_has_no_top_and_is_refused_as_another_configuration(job, tmp_path):
    run = job(encoded(mails(12)), **keys(tmp_path, metrics={}))
    assert run.run("--until", "6") == 0, run.said
    settings = json.dumps(TOP["top"])
    assert run.run("--set", f"metrics.top={settings}") == 78
    assert "metrics.top" in run.said
