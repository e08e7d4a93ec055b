"""Runs with sets of labels: in predictions, metrics and report, the same after any interruption."""

import json
import math
from typing import Any

import pytest

import onlinesrl as srl
from onlinesrl.core.evaluation.label_sets import RATE, SPAN
from tests.support.dated_mails import encoded, keys, late, mails

SETS = {"engine": "mcsat", "coverage": 0.7}
SECTION = {"inference": SETS, "metrics": {"every": 20}}


def by_hand(lines: list[Any], predictions: list[Any], alpha: float) -> dict[str, Any]:
    """Sets by the equation from the lines of a run, and how many have the truth, in the order of labels."""
    by_id = {one["id"]: one for one in predictions}
    log, came, most, held = math.log(alpha), list[float](), 1, 0
    sizes = abstain = 0
    then: dict[str, int] = {}
    for line in lines:
        if "evidence" in line:
            n = len(came)
            k = math.ceil((1 - math.exp(log)) * (n + 1))
            least = 0.0 if k > n else math.inf if k < 1 else sorted(came)[-k]
            for atom, unit in zip(
                *(by_id[line["id"]][x]["Spam"] for x in ("marginals", "sets")), strict=True
            ):
                p = atom["value"]
                expected = [x for x, q in ((False, 1 - p), (True, p)) if q >= least]
                assert unit == {"args": atom["args"], "labels": expected}
            then[line["id"]] = n
        if "truth" in line:
            prediction = by_id[line["id"]]
            assert prediction["truths"] == then[line["id"]]
            (atom,) = (x for x in prediction["marginals"]["Spam"] if x["args"] == ["m"])
            (unit,) = (x for x in prediction["sets"]["Spam"] if x["args"] == ["m"])
            true = ["m"] in line["truth"]["Spam"]
            most = max(most, len(came) - then[line["id"]] + 1)
            came.append(atom["value"] if true else 1 - atom["value"])
            log += min(RATE, SPAN / (alpha * most)) * (alpha - (true not in unit["labels"]))
            held += true in unit["labels"]
            sizes += len(unit["labels"])
            abstain += len(unit["labels"]) in (0, 2)
    n = len(came)
    return {"units": n, "coverage": held / n, "size": sizes / n, "abstain": abstain}


@pytest.mark.parametrize("apart", [False, True])
def test_a_run_writes_sets_and_counts_them_whatever_its_batches(job, tmp_path, apart):
    examples, states = mails(80), []
    lines = late(examples) if apart else examples
    more: dict[str, Any] = {"labels": {}} if apart else {}
    for batch in (1, 64):
        run = job(encoded(lines), f"b{batch}", batch=batch, **keys(tmp_path, **SECTION, **more))
        assert run.run() == 0, run.said
        written = run.lines("metrics.jsonl")
        last = written[-1]["sets"]["Spam"]
        figures = {key: last[key] for key in ("units", "coverage", "size", "abstain")}
        assert figures == pytest.approx(by_hand(lines, run.predictions(), 0.3))
        assert sum(line["sets"]["Spam"]["window"]["units"] for line in written) == last["units"]
        assert sum(row["units"] for row in last["by"].values()) == last["units"]
        states.append(run.results())
        assert "Sets of Spam" in run.printed
        assert "Sets of labels" in (run.output / "report.html").read_text()
    assert states[0] == states[1]


def test_kills_leave_no_trace_in_sets(job, tmp_path):
    section = {"checkpoint": {"every": 7}, "labels": {}}
    run = job(encoded(late(mails(60))), **keys(tmp_path, **SECTION, **section))
    run.survives(2, "coverage")


def test_sets_of_classes_hold_for_each_label() -> None:
    """A rare label without its own threshold is missed more often."""
    data = srl.datasets.citations()
    inference = {"engine": "mcsat", "coverage": 0.9}
    shares = []
    for by in (None, "class"):
        learner = srl.OnlineLearner(
            data.model,
            data.query,
            update="log-likelihood",
            inference={**inference, "coverage_by": by},
        )
        predictions = learner.learn_many([*data.examples])
        rows = learner.metrics["sets"]["InField"]["by"]
        shares.append(min(row["coverage"] for row in rows.values()))
        assert predictions[0].line.sets["InField"][0].labels == ["author", "title", "venue", None]
    assert shares[0] < 0.6
    assert shares[1] > 0.75


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"inference": {"engine": "walksat", "coverage": 0.9}},
            "inference.coverage: not for engine walksat",
        ),
        ({"inference": {**SETS, "coverage": 1.0}}, "inference.coverage: expected at most 0.999"),
        ({"inference": {"engine": "mcsat", "coverage_by": "class"}}, "expected coverage too"),
        ({"distribute": {"shards": 2}}, "inference.coverage: shards have no order of truths"),
    ],
)
def test_what_has_no_sets_is_refused(job, tmp_path, change, said):
    run = job(encoded(mails(1)), **keys(tmp_path, **SECTION) | change)
    assert run.run() == 78
    assert said in run.said


def test_an_old_checkpoint_has_no_sets_and_is_refused_as_another_configuration(job, tmp_path):
    run = job(encoded(mails(12)), **keys(tmp_path, metrics={}))
    assert run.run("--until", "6") == 0, run.said
    assert run.run("--set", f"inference={json.dumps(SETS)}") == 78
    assert "inference.coverage" in run.said
