"""Runs with sets of labels: in predictions, metrics and report, the same after any interruption."""

import json
import math
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.evaluation.label_sets import RATE, SPAN
from tests.support.dated_mails import encoded, keys, late, mails

SETS = {"engine": "mcsat", "coverage": 0.7}
SECTION = {"inference": SETS, "metrics": {"every": 20}}
ROUND = 4


class ByHand(NamedTuple):
    """The state after some truths: ln a, their probabilities; units with the truth, labels, abstentions."""

    log: float
    came: list[float]
    counts: Any = np.zeros(3, int)

    def figures(self) -> dict[str, Any]:
        (held, size, abstain), n = self.counts.tolist(), len(self.came)
        return {"units": n, "coverage": held / n, "size": size / n, "abstain": abstain}


def by_hand(
    lines: list[Any], predictions: list[Any], alpha: float, start: ByHand | None = None
) -> ByHand:
    """Sets by the equation from the lines of a run, in the order of labels."""
    by_id = {one["id"]: one for one in predictions}
    log, came, counts = start or ByHand(math.log(alpha), [])
    came, most = [*came], 1
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
            size = len(unit["labels"])
            counts = np.add(counts, [true in unit["labels"], size, size in (0, 2)])
    return ByHand(log, came, counts)


def rounds_by_hand(lines: list[Any], predictions: list[Any], alpha: float) -> ByHand:
    """The same of shards with a truth an example: each begins with the truths before its round."""
    by_id, whole = {one["id"]: one for one in lines}, ByHand(math.log(alpha), [])
    left = [*predictions]
    while left:
        shards = list[ByHand]()
        while left and left[0]["truths"] == len(whole.came):
            n = 1
            while n < min(ROUND, len(left)) and left[n]["truths"] == len(whole.came) + n:
                n += 1
            part, left = left[:n], left[n:]
            shards.append(by_hand([by_id[one["id"]] for one in part], part, alpha, whole))
        more = [p for one in shards for p in one.came[len(whole.came) :]]
        added = sum(one.counts - whole.counts for one in shards)
        log = sum(one.log for one in shards) / len(shards)
        whole = ByHand(log, whole.came + more, whole.counts + added)
    return whole


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
        assert figures == pytest.approx(by_hand(lines, run.predictions(), 0.3).figures())
        assert sum(line["sets"]["Spam"]["window"]["units"] for line in written) == last["units"]
        assert sum(row["units"] for row in last["by"].values()) == last["units"]
        states.append(run.results())
        assert "Sets of Spam" in run.printed
        assert "Sets of labels" in (run.output / "report.html").read_text()
    assert states[0] == states[1]


def test_shards_have_the_mean_threshold_after_each_round_and_their_figures_add_up(job, tmp_path):
    """Whatever the workers; then one process goes on from it, and predictions have its sets."""
    lines, more, found = mails(130), mails(30, seed=1), []
    for workers in (1, 2):
        shards = {"shards": 3, "round": ROUND, "workers": workers}
        run = job(encoded(lines), f"w{workers}", **keys(tmp_path, **SECTION, distribute=shards))
        assert run.run() == 0, run.said
        whole = rounds_by_hand(lines, run.predictions(), 0.3)
        found.append(run.results())
        written = run.lines("metrics.jsonl")
        last = written[-1]["sets"]["Spam"]
        assert {key: last[key] for key in whole.figures()} == pytest.approx(whole.figures())
        assert last["units"] == 130
        assert sum(line["sets"]["Spam"]["window"]["units"] for line in written) == 130
        assert sum(row["units"] for row in last["by"].values()) == 130
        summary = json.loads((run.output / "summary.json").read_text())
        assert summary["sets"]["Spam"] | {"window": last["window"]} == last
        assert "Sets of labels" in (run.output / "report.html").read_text()
    assert found[0] == found[1]
    learner = {"update": "log-likelihood", "start": str(run.output)}
    single = job(encoded(more), "single", **keys(tmp_path, **SECTION) | {"learner": learner})
    assert single.run() == 0, single.said
    by_hand(more, single.predictions(), 0.3, whole)
    loaded = srl.OnlineLearner.load(run.output)
    blind = {"id": "new", "evidence": more[0]["evidence"]}
    answer = json.loads(msgspec.json.encode(loaded.predict_one(srl.Example(**blind)).line))
    by_hand([blind], [answer], 0.3, whole)


def test_kills_leave_no_trace_in_sets_of_shards(job, tmp_path):
    shards = {"distribute": {"shards": 3, "round": ROUND, "workers": 2}}
    sets = {"inference": {**SETS, "coverage_by": "class"}}
    job(encoded(mails(60)), **keys(tmp_path, **SECTION | sets, **shards)).survives(2, "shards")


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
