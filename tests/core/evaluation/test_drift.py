"""A change of the concept is noticed soon, changes nothing else, and does not depend on how a run goes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REPO, Job, command, long, soaked
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.evaluation.drift import MOST, DriftDetector, DriftSection
from onlinesrl.core.io import config_section
from onlinesrl.core.io.restoring import Misfit
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.run import make_learner
from tests.support.stream_scripts import STREAMS, generator

generate = generator("tastes")
FIRST, SECOND = generate.CHANGES
MODEL = STREAMS / "tastes" / "tastes.mln"
LINES = (STREAMS / "tastes" / "tastes.jsonl").read_bytes().splitlines(keepends=True)
CONFIG = REPO / "configs" / "tastes.yaml"
KEYS: dict[str, Any] = {"model": str(MODEL), "query": "Read", "metrics": {}, "drift": {}}
RULES = "".join(
    f"1: About(A, 't{n}') -> Read(A) ^2\n1: About(A, 't{n}') -> !Read(A) ^2\n"
    for n in range(generate.TOPICS)
)
SOME = LINES[: FIRST + 120]


def signals(detector: DriftDetector, errors: Any) -> list[int]:
    """After how many errors there is a signal."""
    return [n for n, error in enumerate(errors, 1) if detector.add(float(error))]


def test_examples_that_grow_are_no_drift_and_a_change_is_one_signal() -> None:
    """A tenth of the atoms is wrong, of five and later of a hundred; then three tenths are."""
    false, changes = 0, []
    for seed in range(10):
        rng, detector = np.random.default_rng(seed), DriftDetector(DriftSection())
        sizes = np.repeat([5, 100], 1_000)
        false += len(signals(detector, rng.binomial(sizes, 0.1) / sizes))
        changes.append(len(signals(detector, rng.binomial(100, 0.3, 90) / 100)))
    assert false <= 1
    assert changes == [1] * 10


def test_fewer_errors_are_no_signal() -> None:
    rng = np.random.default_rng(0)
    assert (
        signals(DriftDetector(DriftSection()), rng.random(600) < np.repeat([0.6, 0.1], 300)) == []
    )


@given(st.integers(0, 99), st.lists(st.integers(1, 3 * MOST), max_size=4))
def test_a_detector_with_a_saved_window_is_the_same(seed: int, cuts: list[int]) -> None:
    """Also where errors have become fewer, and where its window has been full."""
    rng = np.random.default_rng(seed)
    errors = rng.random(3 * MOST) < np.repeat([0.5, 0.1, 0.1, 0.1, 0.4, 0.2], MOST // 2)
    section = DriftSection(delta=0.3)
    unbroken, broken = DriftDetector(section), DriftDetector(section)
    found = list[int]()
    for at in sorted({0, *cuts}):
        broken = DriftDetector(section, json.loads(json.dumps(broken.window)))
        stop = min([*(c for c in cuts if c > at), len(errors)])
        found += [at + n for n in signals(broken, errors[at:stop])]
        assert len(broken.window) <= MOST
    assert found == signals(unbroken, errors)
    assert broken.window == unbroken.window


@pytest.mark.parametrize("window", [[0.5] * (MOST + 1), [1.5], [-0.1], ["x"], None])
def test_a_window_that_no_detector_saves_is_refused(window: Any) -> None:
    with pytest.raises(Misfit):
        DriftDetector(DriftSection(), window)


@pytest.mark.parametrize("language", ["mln", "psl"])
def test_the_share_of_wrong_units_is_that_of_the_prediction(tmp_path: Path, language: str) -> None:
    model = MODEL
    if language == "psl":
        model = tmp_path / "tastes.psl"
        model.write_text(RULES)
    learner = make_learner(load(CONFIG, [f"model={model}", "learner.update=cda2"]))
    shares = set[float | None]()
    for line in LINES[:20]:
        values = json.loads(line)
        if language == "psl":
            articles = {article for article, _ in values["evidence"]["About"]}
            values["evidence"].pop("Follows", None)
            values["query"] = {"Read": [[article] for article in sorted(articles)]}
        unlabelled = learner.decode(json.dumps({**values, "truth": None}).encode())
        assert learner.predict([unlabelled])[0].wrong is None
        ((outcome,), tally) = learner.step([learner.decode(json.dumps(values).encode())])
        assert outcome.prediction is not None and outcome.prediction.hamming is not None
        _, _, _, units, right = tally.counts[:5].tolist()
        assert outcome.wrong == outcome.prediction.hamming / units == (units - right) / units
        shares.add(outcome.wrong)
    assert len(shares) > 3


# runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kills", [long(2), soaked(100)])
def test_kills_leave_no_trace(job: Callable[..., Job], kills: int) -> None:
    """Nor do they with checkpoints that fall between a change, its signal, and the metrics."""
    run = job([*SOME, b"{\n"], **KEYS, learner={"update": "cda2"}, checkpoint={"every": 7})
    run.survives(kills, "cda2")
    assert len(run.lines("metrics.jsonl")[-1]["drift"]["at"]) == 1


def test_a_run_that_is_stopped_at_any_place_goes_on_as_if_it_had_not_been(
    job: Callable[..., Job],
) -> None:
    """And micro-batches change no signal."""
    run = job(SOME, **KEYS, learner={"update": "cda1"})
    assert run.run() == 0, run.said
    expected = run.results()
    (at,) = run.lines("metrics.jsonl")[-1]["drift"]["at"]
    for until in (at - 1, at):
        assert run.run("--fresh", "--set", "batch=3", "--until", str(until)) == 0, run.said
        assert run.run() == 0, run.said
        assert run.results() == expected, f"stopped after {until}"


def test_signals_are_counted_in_examples_where_labels_are_late(job: Callable[..., Job]) -> None:
    lines = []
    for line in SOME:
        example = json.loads(line)
        label = {"id": example["id"], "truth": example.pop("truth")}
        lines += [json.dumps(each).encode() + b"\n" for each in (example, label)]
    run = job(lines, **KEYS, labels={})
    assert run.run() == 0, run.said
    (at,) = run.lines("metrics.jsonl")[-1]["drift"]["at"]
    assert FIRST < at < len(SOME)


# what is shown and refused ---------------------------------------------------------------------------


def test_signals_are_shown_and_change_nothing_else(job: Callable[..., Job]) -> None:
    run = job(SOME, **KEYS)
    without = job(SOME, "without", **KEYS | {"drift": None})
    assert (run.run(), without.run()) == (0, 0), run.said + without.said
    last, other = run.lines("metrics.jsonl")[-1], without.lines("metrics.jsonl")[-1]
    drift = last.pop("drift")
    (at,) = drift["at"]
    assert last == other
    for name in ("weights.mln", "predictions.jsonl"):
        assert run.results()[name] == without.results()[name]
    summary = json.loads((run.output / "summary.json").read_bytes())
    assert summary["drift"] == drift == {"signals": 1, "at": [at]}
    assert f"1 signal, the last at example {at}" in run.printed
    assert (run.output / "report.html").read_text().count('class="mark"') == 1
    assert "Drift" not in without.printed
    assert 'class="mark"' not in (without.output / "report.html").read_text()


def test_another_detector_needs_a_fresh_start(job: Callable[..., Job]) -> None:
    run = job(LINES[:20], **KEYS)
    assert run.run("--until", "10") == 0, run.said
    assert run.run("--set", "drift.delta=0.2") == 78
    assert "drift.delta: was 0.1, is 0.2" in run.said


def refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> str:
    (tmp_path / "source.jsonl").touch()
    config = tmp_path / "run.yaml"
    config.write_text(f"model: {MODEL}\nquery: Read\nsource:\n  path: source.jsonl\n{text}\n")
    assert command("run", str(config)) == 78
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("drift: {metric: f1}", "5:17: drift.metric: expected 'hamming' or 'exact', found 'f1'"),
        ("drift: {delta: 1}", "5:16: drift.delta: expected less than 1, found 1"),
        ("drift: {delta: 0}", "5:16: drift.delta: expected more than 0, found 0"),
        ("drift: {response: tell}", "5:9: drift.response: unknown key; known here: metric, delta"),
        (
            "drift: {}\ndistribute: {}",
            "drift: shards have no order in which to see it; leave it or distribute out",
        ),
    ],
)
def test_a_bad_section_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    assert complaint in refusal(tmp_path, capsys, text)


def test_without_river_there_is_no_detector(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_section, "installed", lambda module: module != "river")
    complaint = "drift.metric: hamming needs the extra drift: pip install 'onlinesrl[drift]'"
    assert complaint in refusal(tmp_path, capsys, "drift: {}")
