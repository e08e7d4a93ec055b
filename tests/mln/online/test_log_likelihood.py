"""The update on the log-likelihood: its gradient and its loss are those of all states, enumerated."""

import itertools

import numpy as np
import pytest
from hypothesis import given

import onlinesrl as srl
from onlinesrl.mln.ground.convert import network_of
from onlinesrl.mln.inference.elimination import build_structure
from onlinesrl.mln.kernels.sum_product import clause_probability, sum_product
from tests.mln.online.test_online_cd import FACTS, SMOKERS, TRUTH, counts
from tests.support.ground_mrfs import Problem, problems

WEIGHTS = np.array([0.7, 1.2, -0.5])
STATES = [
    (s, e)
    for s in itertools.product((0, 1), repeat=3)
    for e in itertools.product((0, 1), repeat=3)
    if not (s[2] and e[2])
]


@given(problems(6).filter(lambda problem: problem.model.n_atoms > 0))
def test_the_probability_of_each_clause_is_that_over_all_states(problem: Problem) -> None:
    model, weight = problem.model, problem.weights
    states = np.array([*itertools.product((0, 1), repeat=model.n_atoms)], np.uint8)
    states = states[[model.feasible(state) for state in states]]
    score = np.array([model.score(state, weight) for state in states])
    net = network_of(model)[0]
    memory = build_structure(net, model)
    unary, pairs = np.zeros(len(memory.unary)), np.zeros(len(memory.table))
    false = np.zeros(model.n_clauses)
    log_z = sum_product(net, memory, weight, unary, pairs, false)
    if not len(states):
        assert log_z == -np.inf
        return
    mass = np.exp(score - score.max())
    true = np.array([model.satisfied(state) for state in states])
    expected = mass @ true / mass.sum()
    found = [
        clause_probability(net, memory, g, 0, unary, pairs, false) for g in range(model.n_clauses)
    ]
    left_out = weight @ np.array([constant for _, constant in found])
    np.testing.assert_allclose([p for p, _ in found], expected, atol=1e-9)
    log_sum = score.max() + np.log(mass.sum())
    assert log_z + left_out == pytest.approx(log_sum, abs=1e-8 * max(1.0, np.abs(weight).sum()))


@pytest.mark.parametrize("engine", ["mpe", "mcsat"])
def test_a_step_is_along_the_gradient(engine: str) -> None:
    update = {"update": "log-likelihood", "sigma": 2.0, "delta": 0.5}
    learner = srl.OnlineLearner(SMOKERS, query=["Smokes", "Likes"], update=update, inference=engine)
    learner.learn_one(FACTS, TRUTH)
    features = np.array([counts(*state) for state in STATES])
    score = features @ WEIGHTS
    p = np.exp(score - score.max())
    p /= p.sum()
    truth = np.array(counts((1, 1, 0), (1, 0, 0)))
    delta = truth - p @ features
    moved = np.array([row.weight for row in learner.weights.rows])
    np.testing.assert_allclose(moved, WEIGHTS + delta / (2.0 * (0.5 + np.abs(delta))), atol=1e-12)
    log_likelihood = truth @ WEIGHTS - score.max() - np.log(np.exp(score - score.max()).sum())
    assert learner.certificate["loss"] == pytest.approx(-log_likelihood, abs=1e-9)
    assert learner.certificate["dual"] is None


def test_where_elimination_is_too_wide_samples_stand_for_the_marginals() -> None:
    people = [f"p{n}" for n in range(24)]
    pairs = [(a, b) for a in people for b in people if a < b]
    model = "Knows(person, person)\nTall(person)\n0 Knows(x, y) ^ Tall(x) => Tall(y)\n0 Tall(x)"
    update = {"update": "log-likelihood", "samples": 400, "delta": 10.0, "sigma": 1.0}
    learner = srl.OnlineLearner(model, query="Tall", update=update)
    learner.learn_one({"Knows": pairs}, {"Tall": people[:6]})
    rule, prior = (row.weight for row in learner.weights.rows)
    delta = 6 - 12.0
    assert prior == pytest.approx(delta / (10 + abs(delta)), abs=0.02)
    true = sum(a not in people[:6] or b in people[:6] for a, b in pairs)
    delta = true - 0.75 * len(pairs)
    assert rule == pytest.approx(delta / (10 + abs(delta)), abs=0.05)


def test_its_probabilities_are_calibrated_where_those_of_a_margin_are_not() -> None:
    """Mean log-loss of the truth by marginals, on citations that come after 150 others."""
    citations = srl.datasets.citations()
    examples = [*citations.examples]
    losses = {}
    for update in ("log-likelihood", "adagrad"):
        learner = srl.OnlineLearner(citations.model, citations.query, update=update)
        learner.learn_many(examples[:150])
        predictions = learner.predict_many(examples[150:180], marginals=True)
        atoms = [
            max(prediction.values["InField"].get(tuple(atom), 0.0), 1e-9)
            for prediction, example in zip(predictions, examples[150:180], strict=True)
            for atom in example.whole().truth["InField"]
        ]
        losses[update] = -np.mean(np.log(atoms))
    assert losses["log-likelihood"] < 0.7 * losses["adagrad"]


def test_label_costs_are_refused() -> None:
    citations = srl.datasets.citations()
    update = {"update": "log-likelihood", "costs": {"InField": 2.0}}
    with pytest.raises(srl.UsageError, match=r"learner\.costs"):
        srl.OnlineLearner(citations.model, citations.query, update=update)
