"""Comparing: the figures are those of plain passes, and a failure loses nothing else."""

import csv
import os
import re
import signal
from pathlib import Path
from statistics import mean, stdev

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
from onlinesrl.runs.comparison.candidates import grid
from onlinesrl.runs.comparison.folds import divided, last_tenth
from onlinesrl.runs.comparison.scoring import mean_average_precision
from onlinesrl.runs.comparison.statistics import paired_t
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
    assert not (tmp_path / "c").exists()

    def ended() -> bool:
        try:
            os.killpg(process, 0)
        except ProcessLookupError:
            return True
        return False

    until(ended)
