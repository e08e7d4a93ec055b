"""Simulated search sessions: how they are made, and that the table of learners has its shape."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import onlinesrl as srl
from tests.support.stream_scripts import PAPERS, generator

STREAM = PAPERS / "clicks"


@pytest.fixture(scope="module")
def table_2() -> Iterator[Any]:
    sys.path.insert(0, str(STREAM))
    yield generator("papers/clicks", "table_2")
    sys.path.remove(str(STREAM))
    del sys.modules["sessions"]


@pytest.fixture
def sessions(table_2: Any) -> Any:
    return sys.modules["sessions"]


@pytest.mark.parametrize("model", ["mln1", "mln2", "mln3"])
def test_probabilities_are_exact_and_each_model_has_the_rules_of_the_one_before(
    table_2: Any, model: str
) -> None:
    seen, clicks = table_2.sessions(table_2.Simulation(0.0, 0))["train"]
    read = srl.Model.read(STREAM / f"{model}.mln")
    learner = srl.OnlineLearner(read, "Clicked")
    learner.learn_many(seen[:12], clicks[:12])
    found = learner.predict_many(seen[:12], marginals=True)
    assert [each.line.r_hat for each in found] == [None] * 12
    rules = [rule.text for rule in read.rules]
    before = [rule.text for rule in srl.Model.read(STREAM / "mln1.mln").rules]
    assert rules[: len(before)] == before


@pytest.mark.long
def test_the_table_has_its_shape(
    table_2: Any, sessions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PARTS", (("train", 12), ("validation", 6), ("test", 6)))
    monkeypatch.setattr(sessions, "BEFORE", 20)
    rows = ("CD", "1-best-MIRA", "CDA2-ML")
    scores = np.array([table_2.measured(rows, table_2.Simulation(0.0, seed)) for seed in (0, 1)])
    assert scores.shape == (2, 3, 3)
    assert np.all((scores > 0) & (scores <= 1))
    whole = np.random.default_rng(0).random((4, len(table_2.ROWS), 3))
    head, _, *lines = table_2.table(whole)
    assert head == "| | MLN1 | MLN2 | MLN3 |"
    assert [line.split(" | ")[0] for line in lines] == [f"| {name}" for name in table_2.ROWS]
    assert f" {whole[:, 3, 0].mean():.3f} ± {whole[:, 3, 0].std(ddof=1):.3f} " in lines[3]
    _, _, cda1, cda2 = table_2.losses(whole)
    assert f"| CDA1 | {(whole[:, 4] - whole[:, 3]).mean(axis=0)[0]:+.4f} (p " in cda1
    assert cda2.startswith("| CDA2 | ")
