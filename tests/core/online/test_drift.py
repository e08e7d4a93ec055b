"""A change of the concept is noticed soon, learning responds to it, and neither depends on how a run goes."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import REPO, Job, command, long, soaked
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Example
from onlinesrl.core.learner import Answered, Item, Learner, Outcome
from onlinesrl.core.online.drift import DriftSection, Monitor
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.run import make_learner
from tests.support.small_learners import state
from tests.support.stream_scripts import STREAMS, generator

generate = generator("tastes")
FIRST, SECOND = generate.CHANGES
MODEL = STREAMS / "tastes" / "tastes.mln"
LINES = (STREAMS / "tastes" / "tastes.jsonl").read_bytes().splitlines(keepends=True)
CONFIG = REPO / "configs" / "tastes.yaml"
RESTART = {"response": "restart"}
KEYS: dict[str, Any] = {"model": str(MODEL), "query": "Read", "metrics": {}, "drift": RESTART}
RULES = "".join(
    f"1: About(A, 't{n}') -> Read(A) ^2\n1: About(A, 't{n}') -> !Read(A) ^2\n"
    for n in range(generate.TOPICS)
)
SOME = LINES[: FIRST + 120]
PAGES, CHANGE = 60, 25


def pages(psl: bool) -> list[Example]:
    """A few pages of which a topic tells what is read; after CHANGE of them, and again, what is not."""
    found, rng = [], Random(0)
    for number in range(PAGES):
        topics = [rng.randrange(4) for _ in range(3)]
        read = [[f"a{n}"] for n, t in enumerate(topics) if (t + number // CHANGE) % 2]
        about = [[f"a{n}", f"t{t}"] for n, t in enumerate(topics)]
        query = {"Read": [["a0"], ["a1"], ["a2"]]} if psl else None
        found.append(
            Example(id=number, evidence={"About": about}, truth={"Read": read}, query=query)
        )
    return found


def learner(model: Path, drift: DriftSection, update: str = "cda2") -> Learner:
    made = make_learner(load(CONFIG, [f"model={model}", f"learner.update={update}"]))
    made.monitor = Monitor(drift, made.weights)
    return made


def taken(by: Learner, items: Sequence[Item], cuts: Sequence[int] = ()) -> list[Outcome]:
    """The outcomes of the items, in micro-batches that begin at some places."""
    places = [0, *sorted({*cuts}), len(items)]
    return [each for a, b in pairwise(places) if b > a for each in by.step(items[a:b])[0]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("psl") / "tastes.psl"
    path.write_text(RULES)
    return path


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[str], list[int]]:
    """What becomes of each page: mostly it stays, and where micro-batches begin."""
    kinds = st.sampled_from(["good"] * 12 + ["bad", "unlabelled", "late"])
    what = draw(st.lists(kinds, min_size=PAGES, max_size=PAGES))
    return what, draw(st.lists(st.integers(1, PAGES - 1), max_size=PAGES))


def test_examples_that_grow_are_no_drift_and_a_change_is_one_signal():
    """A tenth of the atoms is wrong, of five and later of a hundred; then three tenths are."""
    signals, changes = 0, []
    for seed in range(10):
        rng, monitor = np.random.default_rng(seed), Monitor(DriftSection(), Weights())
        for number in range(2_000):
            atoms = 5 if number < 1_000 else 100
            signals += monitor.heed(int(rng.binomial(atoms, 0.1)), atoms)
        later = (monitor.heed(int(rng.binomial(100, 0.3)), 100) for _ in range(90))
        changes.append(sum(later))
    assert signals <= 1
    assert changes == [1] * 10


class Weights:
    """Weights that nobody learns."""

    def restart(self):
        pass


@pytest.mark.parametrize(("language", "metric"), [("mln", "exact"), long("psl", "hamming")])
@given(streams())
def test_micro_batches_change_no_bit(
    program: Path, language: str, metric: Any, drawn: tuple[list[str], list[int]]
) -> None:
    """With several signals, and bad, unlabelled and late examples among the others."""
    what, cuts = drawn
    model = program if language == "psl" else MODEL
    drift = DriftSection(metric=metric, response="restart", delta=0.999)
    by_one, by_some = learner(model, drift), learner(model, drift)
    items: list[Item] = []
    for kind, page in zip(what, pages(language == "psl"), strict=True):
        items += {
            "good": [page],
            "bad": [ExampleError("bad", "json")],
            "unlabelled": [replace(page, truth=None)],
        }.get(kind, [])
        if kind == "late":
            given_out = by_one.predict([replace(page, truth=None)])[0].prediction
            assert given_out is not None
            items.append(Answered(page, given_out))
    one, some = taken(by_one, items, range(len(items))), taken(by_some, items, cuts)
    assert one == some
    assert state(by_one) == state(by_some)  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["mln", "psl"])
def test_both_languages_respond(program: Path, language: str) -> None:
    model, found = (program, pages(True)) if language == "psl" else (MODEL, pages(False))
    responds = learner(model, DriftSection(response="restart", delta=0.9))
    tells = learner(model, DriftSection(delta=0.9))
    places = [n for n, each in enumerate(taken(responds, found)) if each.drift]
    assert places
    assert CHANGE < places[0] < PAGES
    assert responds.certificate()["restarted"] == places[-1] + 1
    assert next(n for n, each in enumerate(taken(tells, found)) if each.drift) == places[0]
    assert "restarted" not in tells.certificate()
    assert responds.weights.updates == tells.weights.updates == PAGES


@pytest.mark.parametrize("kills", [long(2), soaked(100)])
@pytest.mark.parametrize("update", ["cda2", long("adagrad")])
def test_kills_leave_no_trace(job: Callable[..., Job], update: str, kills: int) -> None:
    """Nor do they with checkpoints that fall between a change, its signal, and the metrics."""
    lines = [*SOME, b"{\n"]
    run = job(lines, **KEYS, learner={"update": update}, checkpoint={"every": 7})
    run.survives(kills, update)
    assert len(run.lines("metrics.jsonl")[-1]["drift"]["at"]) == 1


def test_a_run_that_is_stopped_at_any_place_goes_on_as_if_it_had_not_been(
    job: Callable[..., Job],
) -> None:
    run = job(SOME, **KEYS, learner={"update": "cda1"})
    assert run.run() == 0, run.said
    expected = run.results()
    (at,) = run.lines("metrics.jsonl")[-1]["drift"]["at"]
    for until in (at - 1, at):
        assert run.run("--fresh", "--until", str(until)) == 0, run.said
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


def test_telling_changes_nothing_else(job: Callable[..., Job]) -> None:
    told = job(SOME, **KEYS | {"drift": {"response": "tell"}})
    without = job(SOME, "without", **KEYS | {"drift": None})
    assert (told.run(), without.run()) == (0, 0), told.said + without.said
    (last,), other = told.lines("metrics.jsonl")[-1:], without.lines("metrics.jsonl")[-1]
    assert last.pop("drift")["signals"] >= 1
    assert last == other
    for name in ("weights.mln", "predictions.jsonl"):
        assert told.results()[name] == without.results()[name]
    assert "Drift" not in without.printed


def test_signals_are_shown(job: Callable[..., Job]) -> None:
    run = job(SOME, **KEYS)
    assert run.run() == 0, run.said
    last, summary = (
        run.lines("metrics.jsonl")[-1],
        json.loads((run.output / "summary.json").read_bytes()),
    )
    (at,) = last["drift"]["at"]
    assert summary["drift"] == {"signals": 1, "at": [at]}
    assert summary["restarted"] == last["restarted"] == at
    assert f"1 signal, the last at example {at}" in run.printed
    assert f"since the restart after update {at}" in run.printed
    page = (run.output / "report.html").read_text()
    assert page.count('class="mark"') == 1
    assert f"after update {at}" in page
    quiet = job(LINES[:100], "quiet", **KEYS)
    assert quiet.run() == 0, quiet.said
    assert "Drift         none" in quiet.printed
    assert 'class="mark"' not in (quiet.output / "report.html").read_text()


def test_another_response_needs_a_fresh_start(job: Callable[..., Job]) -> None:
    run = job(LINES[:20], **KEYS)
    assert run.run("--until", "10") == 0, run.said
    assert run.run("--set", "drift.response=tell") == 78
    assert "drift.response: was 'restart', is 'tell'" in run.said


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("drift: {metric: f1}", "5:17: drift.metric: expected 'hamming' or 'exact', found 'f1'"),
        ("drift: {response: x}", "5:19: drift.response: expected 'tell' or 'restart', found 'x'"),
        ("drift: {delta: 1}", "5:16: drift.delta: expected less than 1, found 1"),
        ("drift: {delta: 0}", "5:16: drift.delta: expected more than 0, found 0"),
        (
            "drift: {sigma: 1}",
            "5:9: drift.sigma: unknown key; did you mean learner.sigma? known here: metric, response, delta",
        ),
        (
            "drift: {}\ndistribute: {}",
            "drift: shards have no order in which to see it; leave it or distribute out",
        ),
    ],
)
def test_a_bad_section_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    (tmp_path / "source.jsonl").touch()
    config = tmp_path / "run.yaml"
    config.write_text(f"model: {MODEL}\nquery: Read\nsource:\n  path: source.jsonl\n{text}\n")
    assert command("run", str(config)) == 78
    assert complaint in capsys.readouterr().err
