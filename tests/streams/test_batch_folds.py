"""The scripts that compare batch learners on folds: theories that fit, and what the tables say."""

import json
import random
import sys
from pathlib import Path

import pytest
from conftest import REPO

import onlinesrl as srl
from tests.support.stream_scripts import converted

sys.path += [str(REPO / "streams" / each) for each in ("papers", "papers/batch", "trust")]
import by_rounds
import compare
import epinions
import smokers


def fold(path: Path, seed: int) -> Path:
    """Professors give courses and have projects; students do neither."""
    rng = random.Random(seed)
    lines = []
    for n in range(20):
        faculty = n < 6
        if faculty:
            lines += [f"Faculty(P{n})", f"Courseprof(C{n}, P{n})"]
            lines += [f"Project(J{rng.randrange(4)}, P{n})" for _ in range(2)]
        else:
            lines += [f"Student(P{n})", f"Courseta(C{rng.randrange(6)}, P{n})"]
    path.write_text("\n".join(dict.fromkeys(lines)))
    return path


def test_learners_are_compared_on_folds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in range(2):
        fold(tmp_path / f"{n}.db", n)
    examples = tmp_path / "webkb.jsonl"
    converted("webkb", tmp_path, examples)
    config = REPO / "configs" / "webkb.yaml"
    monkeypatch.setattr(compare, "LEARNERS", ("kind=mple,prior_sd=1",))
    monkeypatch.setattr(sys, "argv", ["compare", str(config), str(examples)])
    compare.main()
    rows = [line.rsplit(maxsplit=6) for line in capsys.readouterr().out.splitlines()[1:]]
    names = ("unit clauses", "kind=mple,prior_sd=1")
    assert [row[0].split(maxsplit=1) for row in rows] == [[n, name] for n in "01" for name in names]
    unit, learned, *_ = (float(row[1]) for row in rows)
    assert unit < -0.6 < -0.3 < learned
    source, test = {"path": str(examples), "without": "1"}, {"path": str(examples), "only": "1"}
    given = compare.settings(config, source, test, compare.UNIT, tmp_path)
    assert (given["source"], given["test"]) == (source, test)
    (rule,) = srl.Model.read(given["model"]).rules
    assert rule.text == "Faculty(p)"


@pytest.mark.long
def test_friends_and_smokers_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(smokers, "COUNTS", ("ijgp,i_bound=2",))
    given = ["--people", "16", "--kind", "mple", "--figure", str(tmp_path / "s.svg")]
    monkeypatch.setattr(sys, "argv", ["smokers", *given])
    smokers.main()
    row, path = capsys.readouterr().out.splitlines()[1:]
    assert "<svg" in Path(path).read_text()
    assert row.split()[:2] == ["16-1", "kind=mple,prior_sd=2,counting=ijgp,i_bound=2"]
    steps = smokers.learners("contrastive-divergence", "exact", ["5", "10"])
    assert [each.rpartition("=")[2] for each in steps] == ["5", "10"]


def test_learners_of_latent_variables_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(0)
    good = [rng.random() < 0.7 for _ in range(12)]
    pairs = {(rng.randrange(12), rng.randrange(12)) for _ in range(90)}
    opinions = sorted((a, b, int(good[b])) for a, b in pairs if a != b)
    for name in ("knows", "trusts"):
        (tmp_path / name).write_text("".join(f"{a}\t{b}\t{v}\n" for a, b, v in opinions))
    few = {n: each.model_copy(update={"updates": 3}) for n, each in epinions.LEARNERS.items()}
    monkeypatch.setattr(epinions, "LEARNERS", few)
    given = [str(tmp_path / "knows"), str(tmp_path / "trusts"), "--folds", "2"]
    monkeypatch.setattr(sys, "argv", ["epinions", *given, "--output", str(tmp_path / "out")])
    monkeypatch.setattr(by_rounds, "figure", lambda *given: None)
    epinions.main()
    curves = json.loads((tmp_path / "out" / "curves.json").read_text())
    assert curves["points"].keys() == few.keys()
    assert all(0.0 < p["score"] <= 1.0 for n in few for of in curves["points"][n] for p in of)
    assert len(curves["others"]["flat, mle"]) == 2
    table = capsys.readouterr().out.splitlines()[-5:]
    assert [line.split("|")[1].split()[0] for line in table] == [
        "flat,",
        "PDL,",
        "PDL,",
        "EM",
        "Primal",
    ]


def test_rounds_to_a_goal_are_those_of_the_first_point_as_good() -> None:
    score = by_rounds.Score("MSE", ".0f", greater=False)
    quick, slow = [[(5, 9.0), (10, 4.0), (15, 6.0)]], [[(20, 8.0), (40, 7.0), (60, 5.0)]]
    points = {
        name: [[{"rounds": r, "objective": 1.0, "score": s} for r, s in of] for of in folds]
        for name, folds in (("quick", quick), ("slow", slow))
    }
    curves = by_rounds.Curves(points, {"quick": [1.0], "slow": [2.0]}, {"mean": [9.5]})
    assert (
        by_rounds.reached(curves, score, "quick", "slow") == "10 (0.167); 1 of 1 folds in a fifth"
    )
    assert (
        by_rounds.reached(curves, score, "slow", "quick") == "60 (4.000); 0 of 1 folds in a fifth"
    )
    greater = by_rounds.Score("AUPR")
    assert by_rounds.reached(curves, greater, "slow", "quick").startswith("20 (")
    assert "| mean | 10 |" in by_rounds.table(curves, score, ("slow",)).replace("9.5", "10")
