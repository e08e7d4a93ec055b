"""Predictions by exact marginals: one kernel has those of engines, whatever is predicted together."""

import onlinesrl as srl

CITATIONS = srl.datasets.citations()
EXAMPLES = [*CITATIONS.examples]


def learner_of(**inference) -> srl.OnlineLearner:
    learner = srl.OnlineLearner(
        CITATIONS.model, CITATIONS.query, calibrated=True, inference={"engine": "mpe", **inference}
    )
    learner.learn_many(EXAMPLES[:10])
    return learner


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
        assert len(learner.predict_many(EXAMPLES[10:14], marginals=True)) == 4
