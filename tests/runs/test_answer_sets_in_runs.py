"""Runs with sets of whole answers: in predictions, metrics and report, the same after any interruption."""

import math
import re
from typing import Any

import pytest

import onlinesrl as srl
from onlinesrl.core.evaluation.label_sets import ANSWERS, SPAN
from onlinesrl.core.example import named_atoms
from onlinesrl.mln.online.answer_sets import RATE
from tests.support.best_states import best_states
from tests.support.dated_mails import encoded, keys, late, mails

SETS = {"engine": "mpe", "best": 3, "coverage": 0.7}
SECTION = {"inference": SETS, "metrics": {"every": 20}}
TOLD = {
    (): "the set is empty, without even the prediction",
    (1,): "the set has the prediction alone",
    (1, 2): "the set has the prediction and the next 1",
    (1, 2, None): "the set has every answer",
}
"""What the report says of sets of three places."""


def labelled(count: int) -> list[dict[str, Any]]:
    """Mails of which all is known, but for every tenth."""
    return [
        {key: x for key, x in mail.items() if n % 10 == 9 or key not in {"asked", "unlabelled"}}
        for n, mail in enumerate(mails(count))
    ]


def place_of(line: Any, prediction: Any) -> int:
    """The place of the truth among the answers, 0 is the best one."""
    states, truth = best_states(prediction), named_atoms(line["truth"])
    return min(states.index(truth) if truth in states else 2, 2)


def by_hand(lines: list[Any], predictions: list[Any], alpha: float) -> dict[str, Any]:
    """Sets by the equation from the lines of a run, and how many have the truth, in the order of labels."""
    by_id = {one["id"]: one for one in predictions}
    log, came, most, held = math.log(alpha), list[float](), 1, 0
    sizes = abstain = 0
    then: dict[str, int] = {}
    for line in lines:
        prediction = by_id[line["id"]]
        p = [1 / (1 + math.exp(-one["difference"])) for one in prediction["best"]]
        p = [p[0], *(1 - x for x in p)]
        if "evidence" in line:
            n = len(came)
            k = math.ceil((1 - math.exp(log)) * (n + 1))
            least = 0.0 if k > n else math.inf if k < 1 else sorted(came)[-k] - 1e-12
            labels = [x for x, q in zip((1, 2, None), p, strict=True) if q >= least]
            assert prediction["sets"] == {ANSWERS: [{"args": [], "labels": labels}]}
            assert prediction.get("abstains", False) == (len(labels) in {0, 3})
            assert prediction.get("truths", 0) == n
            then[line["id"]] = n
        if "truth" in line and "unlabelled" not in line:
            labels = prediction["sets"][ANSWERS][0]["labels"]
            place = place_of(line, prediction)
            missed = place >= len(labels)
            most = max(most, len(came) - then[line["id"]] + 1)
            came.append(p[place])
            log += min(RATE, SPAN / (alpha * most)) * (alpha - missed)
            held += not missed
            sizes += len(labels)
            abstain += len(labels) in (0, 3)
    n = len(came)
    return {"units": n, "coverage": held / n, "size": sizes / n, "abstain": abstain}


@pytest.mark.parametrize("apart", [False, True])
def test_a_run_writes_sets_and_counts_them_whatever_its_batches(job, tmp_path, apart):
    examples, states = labelled(80), []
    lines = late(examples) if apart else examples
    more: dict[str, Any] = {"labels": {}} if apart else {}
    for batch in (1, 64):
        run = job(encoded(lines), f"b{batch}", batch=batch, **keys(tmp_path, **SECTION, **more))
        assert run.run() == 0, run.said
        last = run.lines("metrics.jsonl")[-1]["sets"][ANSWERS]
        figures = {key: last[key] for key in ("units", "coverage", "size", "abstain")}
        assert figures == pytest.approx(by_hand(lines, run.predictions(), 0.3))
        assert {*last["by"]} == {"1", "2", "(none)"}
        states.append(run.results())
        report = (run.output / "report.html").read_text()
        assert "Sets of answers" in report
        assert "Sets of labels" not in report
        shown = re.findall(
            r"<b>(e\d+)</b>(?:(?!<b>).)*?2 next best states; (.+?)</summary>", report, re.S
        )
        chosen = {one["id"]: one["sets"][ANSWERS][0]["labels"] for one in run.predictions()}
        assert len(shown) > 4 and len({told for _, told in shown}) > 1
        assert all(told == TOLD[tuple(chosen[name])] for name, told in shown)
    assert states[0] == states[1]


def test_shards_count_sets_together_and_kills_leave_no_trace(job, tmp_path):
    lines = labelled(60)
    section = SECTION | {"distribute": {"shards": 3, "round": 4, "workers": 2}}
    run = job(encoded(lines), **keys(tmp_path, **section))
    run.survives(2, "shards")
    last = run.lines("metrics.jsonl")[-1]["sets"][ANSWERS]
    known = {one["id"]: one for one in lines if "unlabelled" not in one}
    made = [one for one in run.predictions() if one["id"] in known]
    sizes = [len(one["sets"][ANSWERS][0]["labels"]) for one in made]
    held = sum(place_of(known[one["id"]], one) < n for one, n in zip(made, sizes, strict=True))
    assert (last["units"], last["abstain"]) == (54, sum(n in {0, 3} for n in sizes))
    assert (last["coverage"], last["size"]) == pytest.approx((held / 54, sum(sizes) / 54))
    assert sum(row["units"] for row in last["by"].values()) == 54
    assert "Sets of answers" in (run.output / "report.html").read_text()
    assert srl.OnlineLearner.load(run.output).learned.save()[0]["sets"]["truths"] == 54


def test_kills_leave_no_trace_in_sets(job, tmp_path):
    section = {"checkpoint": {"every": 7}, "labels": {}}
    run = job(encoded(late(labelled(60))), **keys(tmp_path, **SECTION, **section))
    run.survives(2, "answers")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"inference": {"engine": "mpe", "coverage": 0.9}},
            "inference.coverage: sets have some of the best answers; expected best too",
        ),
        ({"inference": {**SETS, "coverage": 1.0}}, "inference.coverage: expected at most 0.999"),
        ({"world": True, "metrics": {}}, "inference.coverage: not for a world"),
    ],
)
def test_what_has_no_sets_is_refused(job, tmp_path, change, said):
    run = job(encoded(mails(1)), **keys(tmp_path, **SECTION) | change)
    assert run.run() == 78
    assert said in run.said
