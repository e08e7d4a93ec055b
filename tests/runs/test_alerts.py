"""Alerts of a run: each once, by the rule that the guide says, explained by the weights that predicted."""

import math
from typing import Any

import pytest

import onlinesrl as srl
from onlinesrl.stream.alerts import FIRST, AlertsSection
from tests.support.dated_mails import HOUR, MODEL, encoded, keys, late, mails


def asked(predictions: list[Any], examples: list[Any]) -> list[tuple[str, float, float]]:
    """The id, the time and the probability of each atom that was asked about."""
    times = {example["id"]: example["time"] for example in examples}
    return [
        (line["id"], times[line["id"]], atom["value"])
        for line in predictions
        for atom in line["marginals"]["Spam"]
        if atom["args"] == ["m"]
    ]


TAGS = """
Word(w, x)
Near(x, x)
Tag(x, tag!)
tag = {One, Two, Three}
Word(+w, x) => Tag(x, +t)
"""


@pytest.mark.parametrize("grouped", [False, True])
def test_by_entropy_asks_for_the_most_uncertain_units(job, tmp_path, grouped):
    examples, query = mails(60), "Spam"
    section: dict[str, Any] = keys(tmp_path, metrics={})
    if grouped:
        query, model = "Tag", tmp_path / "tags.mln"
        model.write_text(TAGS)
        section |= {"model": str(model), "query": query}
        for n, example in enumerate(examples):
            tag = "One" if example["truth"]["Spam"] else "Two"
            example["truth"] = {query: [["m", tag if n % 3 else "Three"]]}
            example["asked"] = {query: [["m", tag] for tag in ("One", "Two", "Three")]}
            example["unlabelled"] = {query: [["o", tag] for tag in ("One", "Two", "Three")]}
    section["alerts"] = {"top": 2, "per": "1h", "by": "entropy"}
    run = job(encoded(examples), **section)
    assert run.run() == 0, run.said
    units, best = [], {}
    for line, example in zip(run.predictions(), examples, strict=True):
        atoms = [atom for atom in line["marginals"][query] if atom["args"][0] == "m"]
        shares = [atom["value"] for atom in atoms]
        shares += [] if grouped else [1 - shares[0]]
        units.append((line["id"], example["time"], -sum(p * math.log2(p) for p in shares if p)))
        best[line["id"]] = max(shares[: len(atoms)])
    alerts = run.lines("alerts.jsonl")
    expected = by_hand(units, 2)
    assert [a["id"] for a in alerts] == [name for name, *_ in expected]
    assert [a["entropy"] for a in alerts] == pytest.approx([x for _, x, _ in expected], abs=2e-5)
    assert [a["probability"] for a in alerts] == [best[a["id"]] for a in alerts]
    assert len(alerts) > 5


def by_hand(atoms: list[tuple[str, float, float]], k: int) -> list[tuple[str, float, float]]:
    """Who is told of, how probable it was, and the threshold: the k-th of the last period with k atoms."""
    periods: dict[int, list[float]] = {}
    raised, told = dict[int, int](), []
    for name, time, probability in atoms:
        number = math.floor(time / HOUR)
        before = [sorted(p)[-k] for n, p in sorted(periods.items()) if n < number and len(p) >= k]
        threshold = (before or [FIRST])[-1]
        periods.setdefault(number, []).append(probability)
        if probability >= threshold and raised.get(number, 0) < k:
            raised[number] = raised.get(number, 0) + 1
            told.append((name, probability, threshold))
    return told


@pytest.mark.parametrize("apart", [False, True])
def test_top_raises_what_reaches_the_kth_of_the_period_before(job, tmp_path, apart):
    examples, states = mails(60), []
    lines = late(examples) if apart else examples
    more: dict[str, Any] = {"labels": {}} if apart else {}
    for batch in (1, 64):
        section = {"top": 2, "per": "1h"}
        run = job(
            encoded(lines),
            f"b{batch}",
            batch=batch,
            **keys(tmp_path, alerts=section, metrics={}, **more),
        )
        assert run.run() == 0, run.said
        alerts = run.lines("alerts.jsonl")
        expected = by_hand(asked(run.predictions(), examples), 2)
        assert [(a["id"], a["probability"], a["threshold"]) for a in alerts] == expected
        assert 10 <= len(expected) <= 20
        assert run.lines("metrics.jsonl")[-1]["alerts"] == len(alerts)
        states.append(run.results() | {"alerts": (run.output / "alerts.jsonl").read_bytes()})
    assert states[0] == states[1]
    without = job(encoded(lines), "without", **keys(tmp_path, metrics={}, **more))
    assert without.run() == 0, without.said
    assert without.results()["predictions.jsonl"] == states[0]["predictions.jsonl"]


def test_reasons_are_by_the_weights_before_the_label(job, tmp_path):
    """Beside a learner in Python that explains each example before it learns from it."""
    examples = mails(20)
    run = job(encoded(examples), **keys(tmp_path, alerts={"threshold": 0.3}, metrics={}))
    assert run.run() == 0, run.said
    learner = srl.OnlineLearner(
        srl.Model(MODEL), "Spam", update="log-likelihood", inference={"engine": "mcsat"}
    )
    reasons = {}
    for line in examples:
        fields = {k: v for k, v in line.items() if k not in {"truth", "unlabelled", "time"}}
        told = srl.explain(learner, srl.Example(**fields), "Spam(m)")
        sign = 1 if told.value else -1
        reasons[line["id"]] = [
            {"rule": r.rule, "effect": sign * r.effect} for r in told.reasons[:3]
        ]
        learner.learn_one(srl.Example(**line))
    alerts = run.lines("alerts.jsonl")
    assert [a["reasons"] for a in alerts] == [reasons[a["id"]] for a in alerts]
    assert {a["id"] for a in alerts} == {
        name for name, _, p in asked(run.predictions(), examples) if p >= 0.3
    }
    assert any(reason["effect"] > 0 for alert in alerts for reason in alert["reasons"])


def test_kills_leave_each_alert_once(job, tmp_path):
    section = {"alerts": {"top": 2, "per": "1h"}, "checkpoint": {"every": 7}, "labels": {}}
    run = job(encoded(late(mails(60))), **keys(tmp_path, metrics={}, **section))
    assert run.run() == 0, run.said
    expected = (run.output / "alerts.jsonl").read_bytes()
    for until in ("9", "23", "40", "59"):
        options = ("--fresh",) if until == "9" else ()
        assert run.run(*options, "--until", until) == 0, run.said
    with (run.output / "alerts.jsonl").open("ab") as file:
        file.write(b'{"id": "of a process that died"}\n')
    assert run.run() == 0, run.said
    assert (run.output / "alerts.jsonl").read_bytes() == expected
    run.survives(2, "alerts")
    assert (run.output / "alerts.jsonl").read_bytes() == expected


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({}, "expected either top or threshold"),
        ({"top": 2, "threshold": 0.5}, "expected either top or threshold"),
        ({"threshold": {"Ham": 0.5}}, "alerts.threshold.Ham: expected a predicate of the query"),
        ({"threshold": 1.5}, "alerts.threshold: expected a probability, at most 1"),
        ({"top": 2, "sink": {"kind": "parquet"}}, "alerts are lines"),
        ({"top": 2, "per": "day"}, "alerts.per: expected a time such as 1d"),
    ],
)
def test_what_cannot_be_told_is_refused(job, tmp_path, section, said):
    run = job(encoded(mails(1)), **keys(tmp_path, alerts=section, metrics={}))
    assert run.run() == 78
    assert said in run.said


def test_shards_and_states_raise_no_alerts(job, tmp_path):
    section = {"alerts": {"top": 2}, "metrics": {}}
    run = job(encoded(mails(1)), **keys(tmp_path, **section, distribute={"shards": 2}))
    assert run.run() == 78
    assert "shards have no order in which to raise them" in run.said
    other = job(encoded(mails(1)), "mpe", **keys(tmp_path, **section) | {"inference": {}})
    assert other.run() == 78
    assert "alerts: predictions by mpe have no probabilities" in other.said


def test_an_entropy_may_be_above_one_bit():
    section = AlertsSection.model_validate({"by": "entropy", "threshold": 1.5})
    assert section.thresholds(["Tag"]) == {"Tag": 1.5}
