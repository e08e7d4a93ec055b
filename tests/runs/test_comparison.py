"""Comparing: the figures are those of plain passes, and a failure loses nothing else."""

import csv
import os
import re
import signal
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from conftest import command as call
from conftest import wait
from hypothesis import given
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.core.errors import UsageError
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.core.learner import Outcome, Prediction
from onlinesrl.runs.comparison.candidates import candidates, differences, grid
from onlinesrl.runs.comparison.folds import divided, last_tenth
from onlinesrl.runs.comparison.page import comparison_page
from onlinesrl.runs.comparison.scoring import mean_average_precision
from onlinesrl.runs.comparison.statistics import Line, paired_t
from tests.runs.test_report import EVIL, Page
from tests.support.paths import REPO
from tests.support.waiting import until

MODEL = REPO / "streams" / "citations" / "segmentation.mln"
GRID = ("--grid", "learner.update=cda1,cda2", "--grid", "learner.sigma=0.01,1")


def example(n: int, group: str | None = None) -> Example:
    return Example(id=n, evidence={}, truth={}, group=group)


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "comparison.csv").open() as file:
        return [*csv.DictReader(file)]


def scores(folder: Path) -> list[tuple[str, ...]]:
    return [(r["configuration"], r["fold"], r["f1"], r["chosen"]) for r in table(folder)]


# configurations ----------------------------------------------------------------------------------


def test_a_grid_is_every_combination_and_brackets_hold_commas():
    assert grid([]) == [()]
    assert grid(["a.b=1, 2", "c={x: y, z: 1},[3,4]"]) == [
        ("a.b=1", "c={x: y, z: 1}"),
        ("a.b=1", "c=[3,4]"),
        ("a.b=2", "c={x: y, z: 1}"),
        ("a.b=2", "c=[3,4]"),
    ]
    for wrong in ("a", "a=", "=1"):
        with pytest.raises(UsageError, match=r"expected KEY=v1,v2"):
            grid([wrong])


def test_the_keys_that_differ_are_those_of_the_grid():
    path = REPO / "configs" / "trust.yaml"
    compared = candidates([path], [], ["learner.sigma=1,2", "learner.loss=ml"])
    assert differences(compared) == [("learner.sigma", ["1.0", "2.0"])]
    other = candidates([path, REPO / "configs" / "citations.yaml"], [], [])
    keys = dict(differences(other))
    assert keys["query"] == ["['Trusts']", "['InField']"]
    assert keys["metrics.by"] == ["nothing", "'field'"]
    assert "output" not in keys


# folds -------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=12), st.none() | st.integers(2, 6))
def test_folds_test_every_example_once_and_never_learn_from_it(groups, k):
    examples = [example(n, group) for n, group in enumerate(groups)]
    names = {group for group in groups if group is not None}
    if len(names) < 2 if k is None else len(groups) < k:
        with pytest.raises(UsageError):
            divided(examples, k)
        return
    found = divided(examples, k)
    tested = sorted(e.id for fold in found for e in fold.test)
    assert tested == [e.id for e in examples if k or e.group]
    for fold in found:
        ids = [e.id for e in fold.training]
        assert sorted([*ids, *(e.id for e in fold.test)]) == [e.id for e in examples]
        assert ids == sorted(ids)
        assert k or {e.group for e in fold.test} == {fold.name}


def test_the_last_tenth_follows_what_is_learned_from():
    fold = last_tenth([example(n) for n in range(25)])
    assert [e.id for e in fold.test] == [23, 24]
    assert [e.id for e in fold.training] == [*range(23)]
    assert len(last_tenth([example(n) for n in range(2)]).test) == 1
    with pytest.raises(UsageError, match="1 examples: too few"):
        last_tenth([example(0)])


# figures -----------------------------------------------------------------------------------------


def test_the_paired_t_test_is_the_textbooks():
    one, other = [0.9, 0.8, 0.95, 0.7], [0.85, 0.82, 0.9, 0.6]
    d = np.subtract(one, other)
    t = d.mean() / (d.std(ddof=1) / 2)
    x = 3 / (3 + t * t)  # with 3 degrees of freedom
    tail = 1 - (2 / np.pi) * (np.arctan(abs(t) / np.sqrt(3)) + abs(t) / np.sqrt(3) * x)
    assert paired_t(one, other) == pytest.approx(tail)
    assert paired_t(one, one) is None
    assert paired_t([0.9], [0.8]) is None


def test_map_is_the_mean_over_examples():
    def ranked(true, **values):
        atoms = [ValuedAtom([name], value) for name, value in values.items()]
        truth = {"Clicked": [[name] for name in true]}
        said = Prediction(len(atoms), {}, 0.0, True, marginals={"Clicked": atoms})
        return Example(id=str(values), evidence={}, truth=truth), Outcome(said)

    pairs = [
        ranked(["b", "c"], a=0.9, b=0.8, c=0.1, d=0.5),  # (1/2 + 2/4) / 2
        ranked(["a"], a=0.9, b=0.8),  # 1
        ranked([], a=0.9),  # not defined
    ]
    examples, outcomes = zip(*pairs, strict=True)
    assert mean_average_precision(examples, outcomes) == pytest.approx((0.5 + 1) / 2)


# the commands ------------------------------------------------------------------------------------


@pytest.fixture
def run(job, citations):
    """A job with 46 citations of two groups."""
    return job([*citations[:26], *citations[30:50]])


def test_the_figures_are_those_of_passes_over_the_folds(run, tmp_path, capsys):
    assert call("compare", str(run.config), *GRID, "--output", str(tmp_path / "c")) == 0
    rows = table(tmp_path / "c")
    examples = [*srl.read(run.source)]
    groups = sorted({str(e.group) for e in examples})
    assert len(groups) == 2
    expected = {}
    for update in ("cda1", "cda2"):
        for sigma in ("0.01", "1"):
            for group in groups:
                learner = srl.OnlineLearner(
                    srl.Model.read(MODEL), "InField", update=update, sigma=float(sigma)
                )
                learner.learn_many([e for e in examples if e.group != group])
                score = learner.evaluate([e for e in examples if e.group == group])["f1"]
                expected[f"update={update}, sigma={sigma}", group] = score
    assert [(r["configuration"], r["fold"]) for r in rows] == [*expected]
    assert [float(r["f1"]) for r in rows] == [*expected.values()]
    lines = capsys.readouterr().out.splitlines()
    first = [*expected.values()][:2]
    said = re.split(r"  +", lines[1].replace(" *", "  "))
    assert said[:3] == ["update=cda1, sigma=0.01", f"{mean(first):.4f}", f"{stdev(first):.4f}"]
    [best] = [line.split(" *")[0] for line in lines if " *" in line]
    keys = " ".join(f"--set learner.{each}" for each in best.split(", "))
    assert f"onlinesrl run {run.config} {keys}" in lines


def test_the_number_of_processes_changes_nothing(run, tmp_path):
    kept = []
    for workers in ("1", "3"):
        folder = tmp_path / workers
        tuned = ("--tune", "learner.sigma=0.001,1", "--folds", "3", "--workers", workers)
        assert call("compare", str(run.config), *GRID[:2], *tuned, "--output", str(folder)) == 0
        kept.append(scores(folder))
    assert kept[0] == kept[1]
    assert {chosen for *_, chosen in kept[0]} <= {"sigma=0.001", "sigma=1"}


def test_what_is_tuned_is_left_out_where_an_update_has_no_such_key(run, tmp_path, capsys):
    """In a grid it is refused, since there it was asked for."""
    tuned = ("--grid", "learner={update: mira},{update: cda1}", "--tune", "learner.sigma=0.001,1")
    assert call("compare", str(run.config), *tuned, "--output", str(tmp_path / "c")) == 0
    assert {(name, chosen[:6]) for name, *_, chosen in scores(tmp_path / "c")} == {
        ("update: mira", ""),
        ("update: cda1", "sigma="),
    }
    capsys.readouterr()
    grid = ("--grid", "learner.update=cda1,mira", "--grid", "learner.sigma=1")
    assert call("compare", str(run.config), *grid, "--output", str(tmp_path / "d")) == 65
    assert "learner.sigma: not for update mira, but for" in capsys.readouterr().out


def test_a_failing_configuration_does_not_lose_the_others(run, tmp_path, capsys):
    other = tmp_path / "wrong.mln"
    other.write_text("field = {A}\nInField(t, field)\nWord(t)\n1 Word(t) => InField(t, +f)\n")
    given = ("--grid", f"model={MODEL},{other},{tmp_path}/none.mln", "--output", f"{tmp_path}/c")
    assert call("compare", str(run.config), *given) == 65
    good, _, *bad = table(tmp_path / "c")
    assert float(good["f1"]) > 0
    assert not good["error"]
    assert "examples are bad" in bad[0]["error"]
    assert "none.mln" in bad[-1]["error"]
    said = capsys.readouterr().out
    assert "examples are bad, such as" in said
    assert "Failures" in (tmp_path / "c" / "comparison.html").read_text()


def test_what_cannot_be_compared_is_told(run, job, tmp_path, capsys):
    other = job([b'{"id": 1, "evidence": {}, "truth": {}}\n'] * 3, "other")
    for expected, *arguments in (
        ("--metric f2: expected one of f1,", run.config, "--metric", "f2"),
        ("the examples have no groups", other.config),
        ("--folds 9: expected from 2 to 3", other.config, "--folds", "9"),
        ("different examples", run.config, other.config, "--folds", "2"),
    ):
        given = [*map(str, arguments), "--output", str(tmp_path / "c")]
        assert call("compare", *given) == 64
        assert expected in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_an_earlier_comparison_is_replaced_only_if_asked(run, tmp_path, capsys):
    line = ("compare", str(run.config), "--output", str(tmp_path))
    assert [call(*line), call(*line), call(*line, "--fresh")] == [0, 78, 0]
    assert "there is a comparison already; --fresh replaces it" in capsys.readouterr().err


def test_an_interrupt_ends_all_processes_and_writes_no_table(run, tmp_path):
    sigmas = ",".join(f"0.{n}" for n in range(1, 30))
    process = run.fork(
        *("compare", str(run.config), "--folds", "20", "--grid", f"learner.sigma={sigmas}"),
        *("--output", str(tmp_path / "c")),
        first=lambda: os.setpgid(0, 0),
    )
    until(lambda: "folds of all" in run.said)
    os.kill(process, signal.SIGINT)
    assert wait(process) == 130
    assert [file.name for file in (tmp_path / "c").iterdir()] == ["comparison.jsonl"]
    with pytest.raises(ProcessLookupError):
        os.killpg(process, 0)


def test_what_a_journal_knows_of_other_settings_does_not_count(run, tmp_path):
    line = ("compare", str(run.config), "--output", str(tmp_path / "c"))
    journal, kept = tmp_path / "c" / "comparison.jsonl", []
    for more in ((), ("--set", "learner.sigma=7"), ("--metric", "hamming"), ("--folds", "2")):
        (tmp_path / "c" / "comparison.csv").unlink(missing_ok=True)
        assert call(*line, *more) == 0
        kept.append(len(journal.read_text().splitlines()))
    with run.source.open("ab") as source:
        first, *_ = run.source.read_bytes().splitlines(keepends=True)
        source.write(first.replace(b'"id": "', b'"id": "x'))
    (tmp_path / "c" / "comparison.csv").unlink()
    assert call(*line) == 0
    kept.append(len(journal.read_text().splitlines()))
    assert kept == [2, 4, 6, 8, 10]
    assert call(*line, "--fresh") == 0
    assert len(journal.read_text().splitlines()) == 2


# the page ----------------------------------------------------------------------------------------


def test_the_page_shows_every_configuration_and_nothing_breaks_out_of_it():
    of: dict[str, Any] = {"cpu_seconds": 0.5, "peak_bytes": 10**8}
    lines = [
        Line(EVIL, (("x", 0.5), (EVIL, 0.9)), 0.7, 0.28, None, best=True, **of),
        Line("b", (("x", 0.4), (EVIL, 0.8)), 0.6, 0.28, 0.03, chosen=("sigma=3",) * 2, **of),
        Line("c", error=EVIL),
    ]
    keys = [("learner.sigma", ["1", EVIL, ""])]
    page = Page(comparison_page(lines, "f1", [("grid", EVIL)], keys))
    assert "learner.sigma 1" in page.text
    for word in ("0.7", "0.03", "best", "Failures", "100", "What tuning chose", "sigma=3 sigma=3"):
        assert word in page.text
    dots = [found for name, found in page.elements if name == "b"]
    assert len(dots) == 4
    places = [float(re.sub(r"left:|%", "", str(found["style"]))) for found in dots]
    assert np.argsort(places).tolist() == [2, 0, 3, 1]
    assert all(0 <= at <= 100 for at in places)


def test_a_comparison_that_was_ended_goes_on(run, tmp_path, capsys):
    """What a kill leaves is the journal, and half of its last line."""
    tuned = ("compare", str(run.config), *GRID[:2], "--tune", "learner.sigma=0.001,1", "--workers")
    line = (*tuned, "1", "--output", str(tmp_path))
    assert call(*line) == 0
    whole, journal = scores(tmp_path), tmp_path / "comparison.jsonl"
    first = journal.read_bytes().splitlines(keepends=True)[:2]
    for path in tmp_path.glob("comparison.*"):
        path.unlink()
    journal.write_bytes(b"".join(first) + b'["torn')
    assert call(*line) == 0
    assert "going on: 2 of 4 folds are known" in capsys.readouterr().err
    assert scores(tmp_path) == whole
    assert len(journal.read_text().splitlines()) == 4
