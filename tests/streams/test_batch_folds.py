"""The scripts that compare batch learners on folds: theories that fit, and what the tables say."""

import json
import random
import sys
from pathlib import Path

import pytest

import onlinesrl as srl
from tests.conftest import REPO

sys.path += [str(REPO / "streams" / "batch"), str(REPO / "streams" / "trust")]
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


def treewidth_2(rule: str) -> bool:
    """Tell whether the variables of a rule have a cycle: in its graph, after removing leaves."""
    atoms = [part.split(")")[0].split(",") for part in rule.split("(")[1:]]
    edges = {frozenset({x.strip(), y.strip()}) for atom in atoms for x in atom for y in atom}
    left = {edge for edge in edges if len(edge) == 2}
    while leaves := [e for e in left if any(sum(v in f for f in left) == 1 for v in e)]:
        left -= {leaves[0]}
    return bool(left)


@pytest.mark.parametrize("name", ["webkb", "yeast", "cora"])
def test_theories_have_rules_of_treewidth_2(name: str) -> None:
    model = srl.Model.read(REPO / "streams" / "batch" / f"{name}.mln")
    assert len(model.rules) >= 8
    assert sum(treewidth_2(rule.text) for rule in model.rules) >= 2


def test_learners_are_compared_on_folds(tmp_path: Path) -> None:
    folds = [fold(tmp_path / f"{n}.db", n) for n in range(2)]
    config = REPO / "configs" / "webkb.yaml"
    row = compare.tested(config, folds, folds[1], "kind=mple,prior_sd=1")
    assert str(row).split()[:3] == ["1", "kind=mple,prior_sd=1", f"{row.cll:.4f}"]
    assert row.cll > -0.3  # that of the unit clause is -0.61
    given = compare.settings(config, folds, folds[1], compare.UNIT, tmp_path)
    assert given["source"] == {"path": [str(folds[0])]}
    (rule,) = srl.Model.read(given["model"]).rules
    assert rule.text == "Faculty(p)"


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
    few = {name: {**learner, "updates": 3} for name, learner in epinions.LEARNERS.items()}
    monkeypatch.setattr(epinions, "LEARNERS", few)
    given = [str(tmp_path / "knows"), str(tmp_path / "trusts"), "--folds", "1"]
    monkeypatch.setattr(sys, "argv", ["epinions", *given, "--output", str(tmp_path / "out")])
    monkeypatch.setattr(epinions, "figure", lambda *given: None)
    epinions.main()
    curves = json.loads((tmp_path / "out" / "curves.json").read_text())
    assert curves.keys() == {"flat", *few}
    assert all(0.0 < point["aupr"] <= 1.0 for name in few for point in curves[name][0])
    table = capsys.readouterr().out.splitlines()[-5:]
    assert [line.split()[0] for line in table] == ["flat", "PDL,", "PDL,", "EM", "Primal"]
