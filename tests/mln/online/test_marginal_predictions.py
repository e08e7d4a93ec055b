"""Predictions by exact marginals: one kernel has those of engines, whatever is predicted together."""

from dataclasses import replace

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.online.example_step import ExampleProcessor

CITATIONS = srl.datasets.citations()
EXAMPLES = [*CITATIONS.examples]


def learner_of(**inference) -> srl.OnlineLearner:
    learner = srl.OnlineLearner(
        CITATIONS.model, CITATIONS.query, calibrated=True, inference={"engine": "mpe", **inference}
    )
    learner.learn_many(EXAMPLES[:40])
    return learner


def test_a_kernel_predicts_what_engines_do(monkeypatch) -> None:
    """Also from little room, and one by one; no world of these needs an engine."""
    learner, seen = learner_of(), EXAMPLES[40:100]
    ranking = Inference.ranking
    with monkeypatch.context() as patch:
        patch.setattr(Inference, "ranking", lambda self: replace(ranking(self), presolve=False))
        expected = learner.predict_many(seen, marginals=True)
    learner.learned.worlds.allocate(tables=64, output=8)
    monkeypatch.setattr(ExampleProcessor, "_take", None)
    together = learner.predict_many(seen, marginals=True)
    alone = [learner.predict_one(example, marginals=True) for example in seen]
    for one, two, three in zip(expected, together, alone, strict=True):
        assert two.line == three.line
        assert two.line.predicted == one.line.predicted
        assert (two.line.hamming, two.line.certified) == (one.line.hamming, None)
        assert two.line.score == pytest.approx(one.line.score)
        (rows,), (others,) = two.line.marginals.values(), one.line.marginals.values()
        assert [row.args for row in rows] == [row.args for row in others]
        values = [[row.value for row in part] for part in (rows, others)]
        np.testing.assert_allclose(*values, atol=1.5e-6)


def test_worlds_that_are_too_wide_are_sampled_among_the_others() -> None:
    people = [f"p{n}" for n in range(24)]
    model = "Knows(person, person)\nTall(person)\n0.02 Knows(x, y) ^ Tall(x) => Tall(y)\n-1 Tall(x)"
    learner = srl.OnlineLearner(model, query="Tall")
    narrow = {"Knows": [("p0", "p1")]}
    wide = {"Knows": [(a, b) for a in people for b in people if a < b]}
    one, two, three = learner.predict_many([narrow, wide, narrow], marginals=True)
    assert one.values == three.values
    assert one.line.ess is None and two.line.ess is not None
    assert [p.probabilities for p in (one, two, three)] == ["exact", "sampled", "exact"]
    assert len(two.values["Tall"]) == 24


def test_predictions_by_marginals_are_not_audited() -> None:
    """The most probable values of atoms need not be a best state."""
    for presolve in ("exact", "none"):
        learner = learner_of(presolve=presolve, audit_every=1)
        assert len(learner.predict_many(EXAMPLES[40:60], marginals=True)) == 20
