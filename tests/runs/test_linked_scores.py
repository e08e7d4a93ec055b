"""Linked rows are predicted, scored and compared by what was known at their time."""

import json
import re
from collections import Counter
from itertools import accumulate

import numpy as np
import pytest

from onlinesrl.core.evaluation.decision_threshold import Thresholds
from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.example import Example
from onlinesrl.runs.comparison.scoring import folds_of
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.evaluation import predictions
from onlinesrl.runs.inputs import make_reader
from onlinesrl.runs.run import trained_learner
from tests.support.payments import cut, generate, linked_job, plain

pytestmark = pytest.mark.usefixtures("counting", "job")


def test_trained_weights_predict_and_score_each_row_once(tmp_path):
    paths = generate(tmp_path, 7, honest=150, days=12)
    run = linked_job(tmp_path, "run", paths)
    assert run.run() == 0, run.said
    lines = cut(tmp_path)
    asked = [line["id"] for line in lines if "evidence" in line]
    labelled = {line["id"] for line in lines if "truth" in line}
    assert run.call("predict", run.output, run.config) == 0, run.said
    assert [json.loads(line)["id"] for line in run.printed.splitlines()] == asked
    assert run.call("evaluate", run.output, run.config) == 0, run.said
    scores = json.loads(run.printed)
    assert (scores["examples"], scores["labelled"]) == (len(asked), len(labelled))
    config, metrics = load(run.config), Metrics()
    learner = trained_learner(config, run.output)
    results = [*predictions(learner, config, metrics, labelled=True)]
    truths = {line["id"]: line["truth"] for line in lines if "truth" in line}
    assert {x.name: x.item.truth for x in results if x and x.item.labelled} == truths


@pytest.mark.parametrize("k", [2, 5])
def test_folds_learn_from_what_was_labelled_before_the_tested_part(tmp_path, k):
    paths = generate(tmp_path, 8, honest=150, days=12)
    config = load(linked_job(tmp_path, "run", paths).config)
    lines = [line["id"] for line in map(plain, cut(tmp_path))]
    contents = [content for _, content in make_reader(config).good(print)]
    assert [str(content.id) for content in contents] == lines
    asked = {str(x.id): n for n, x in enumerate(contents) if isinstance(x, Example)}
    labelled = {str(x.id): n for n, x in enumerate(contents) if not isinstance(x, Example)}
    begins = [len(lines) * n // (k + 1) for n in range(1, k + 2)]
    for n, fold in enumerate(folds_of(config, k)):
        begin, end = begins[n : n + 2]
        training = [*map(str, (x.id for x in fold.training))]
        assert sorted(training, key=labelled.__getitem__) == training
        assert set(training) == {name for name, at in labelled.items() if at < begin}
        tested = {str(x.id) for x in fold.test}
        assert tested == {name for name in labelled if begin <= asked[name] < end}
        assert all(x.labelled for x in [*fold.training, *fold.test])
    assert begins[-1] == len(lines)


@pytest.mark.usefixtures("kernels")
def test_configurations_of_linked_rows_are_compared(tmp_path):
    paths = generate(tmp_path, 9, honest=150, days=12)
    run = linked_job(tmp_path, "run", paths)
    folder = tmp_path / "compared"
    grid = ["--grid", "source.linked.digits=1,3", "--folds", 3, "--workers", 1, "--output", folder]
    assert run.call("compare", run.config, *grid) == 0, run.said
    assert len((folder / "comparison.csv").read_text().splitlines()) == 1 + 2 * 3
    assert run.call("compare", run.config, "--output", tmp_path / "none") == 64, run.said
    assert "the examples have no groups" in run.said


PROBABLE = {
    "learner": {"update": "second-order"},
    "inference": {"engine": "mcsat", "threshold": {"Fraud": "f1"}},
}


@pytest.mark.usefixtures("kernels")
def test_a_prediction_has_the_threshold_that_it_was_made_by(tmp_path):
    """That of the best F1 of the predictions whose labels came before; the report shows it."""
    paths = generate(tmp_path, 10, honest=150, days=12)
    run = linked_job(tmp_path, "run", paths, **PROBABLE)
    assert run.run() == 0, run.said
    thresholds, predictions = Thresholds({"Fraud": "f1"}), {x["id"]: x for x in run.predictions()}
    made = set()
    for line in cut(tmp_path):
        prediction, name = predictions[line["id"]], [line["id"]]
        probability = {tuple(x["args"]): x["value"] for x in prediction["marginals"]["Fraud"]}
        if "truth" in line:
            true = np.array([name in line["truth"]["Fraud"]])
            thresholds.add("Fraud", np.array([probability[*name,]]), true)
            continue
        least = thresholds.of("Fraud")
        assert prediction["threshold"] == {"Fraud": least}
        likely = {atom for atom, value in probability.items() if value >= least}
        assert {*map(tuple, prediction["predicted"]["Fraud"])} == likely
        made.add(f"{least:.3g}")
    assert len(made) > 2
    said = re.findall(
        "Fraud is predicted from the probability ([0-9.]+) on",
        (run.output / "report.html").read_text(),
    )
    assert len(said) == 8
    assert {*said} <= made


def test_metrics_by_time_do_not_depend_on_batches_or_stops(tmp_path):
    paths = generate(tmp_path, 11, honest=150, days=12)
    keys = {"metrics": {"every": "1d"}}
    whole = linked_job(tmp_path, "whole", paths, **keys)
    assert whole.run() == 0, whole.said
    day, labels = 0, Counter[int]()
    for line in cut(tmp_path):
        day = max(day, line.get("time", 0) // 86400)
        labels[day] += "truth" in line
    *lines, last = whole.lines("metrics.jsonl")
    assert [line["until"] for line in lines] == [(day + 1) * 86400 for day in [*labels][:-1]]
    assert "until" not in last
    labelled = [line["labelled"] for line in [*lines, last]]
    assert labelled == [*accumulate(labels.values())]
    again = linked_job(tmp_path, "again", paths, batch=7, checkpoint={"every": 13}, **keys)
    for until in (1, 40, 100, 200):
        assert again.run("--until", str(until)) == 0, again.said
    assert again.run() == 0, again.said
    assert again.results() == whole.results()
