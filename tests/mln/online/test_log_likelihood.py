"""The update on the log-likelihood: its gradient and its loss are those of all states, enumerated."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.optimize import minimize

import onlinesrl as srl
from onlinesrl.core.online.update_rules.log_likelihood import LogLikelihood
from onlinesrl.mln.ground import model_weights
from onlinesrl.mln.ground.ground_mrf import network_of
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.inference.router import build_structure
from onlinesrl.mln.kernels.sum_product import clause_probability, left_out, sum_product
from tests.mln.online.test_online_cd import SMOKERS
from tests.support.ground_mrfs import Problem, problems
from tests.support.naive_grounder import World, holds
from tests.support.random_programs import Case, cases, with_numbers
from tests.support.small_learners import online

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
    rows = range(model.n_clauses)
    found = [clause_probability(net, memory, g, 0, unary, pairs, false) for g in rows]
    constant = weight @ np.array([left_out(net, memory, g) for g in rows])
    np.testing.assert_allclose(found, expected, atol=1e-9)
    log_sum = score.max() + np.log(mass.sum())
    assert log_z + constant == pytest.approx(log_sum, abs=1e-8 * max(1.0, np.abs(weight).sum()))


@given(with_numbers(cases(weighted=True)), st.data())
def test_the_gradient_of_random_programs_is_that_over_all_states(
    case: Case, data: st.DataObject
) -> None:
    """With hard rules, marked predicates, observed query atoms and numbers; so is the loss."""
    (example,) = case.examples
    world = World(case.program, case.query, example)
    atoms = [atom for atom, value in world.atoms.items() if value is None]
    assume(0 < len(atoms) <= 8)
    observed, hard = {atom for atom, value in world.atoms.items() if value}, world.hard()
    subsets = itertools.product((False, True), repeat=len(atoms))
    states = [observed | {*itertools.compress(atoms, subset)} for subset in subsets]
    states = [state for state in states if all(holds(literals, state) for literals in hard)]
    assume(states)
    true = data.draw(st.integers(0, len(states) - 1))
    truth = {
        name: [[*args] for other, args in states[true] - observed if other == name]
        for name in case.query
    }
    sigma, delta = 0.5, 0.25
    learner = online(
        compile_program(case.program, case.query),
        LogLikelihood(sigma=sigma, delta=delta, calibrated=True),
    )
    soft = world.soft()
    named = {(feature.clause.text, feature.key) for feature in soft}
    weight = {clause.text: clause.weight or 0.0 for clause in learner.weights.clauses}
    assume(len(weight) == len(learner.weights.clauses))
    features = {name: np.zeros(len(states)) for name in named}
    for feature, count in soft.items():
        true_in = [holds(feature.literals, state) for state in states]
        features[feature.clause.text, feature.key] += count * np.array(true_in, np.float64)
    score = sum(
        (weight[name[0]] * column for name, column in features.items()), np.zeros(len(states))
    )
    mass = np.exp(score - score.max())
    (outcome,), _ = learner.step([replace(example, truth=truth)])
    assert outcome.prediction is not None, outcome.error
    loss = np.log(mass.sum()) + score.max() - score[true]
    assert learner.certificate()["loss"] == pytest.approx(loss, abs=1e-9)
    slope = score[true] - mass @ score / mass.sum()
    assert learner.temperature.save()["squares"] == pytest.approx(slope**2, abs=1e-9)
    entries = {(entry.clause.text, entry.key): entry.weight for entry in learner.weights.entries()}
    for name, column in features.items():
        gradient = column[true] - mass @ column / mass.sum()
        expected = weight[name[0]] + gradient / (sigma * (delta + abs(gradient)))
        assert entries.get(name, weight[name[0]]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "keys",
    [
        {"sigma": 0.3, "delta": 0.1},
        {"sigma": 2.0, "delta": 1.0},
        {"sigma": 8.0, "rates": "constant"},
    ],
)
def test_the_bound_is_above_the_regret_against_the_best_fixed_weights(keys: dict[str, Any]) -> None:
    """The least summed log-loss, regularised or not, is what batch optimisation comes to.

    The bound is at most that of Duchi, Hazan & Singer (2011), proposition 2.
    """
    rng, people = np.random.default_rng(7), "abc"
    update = {"update": "log-likelihood", **keys}
    model = 'person = {"a", "b", "c"}\n' + SMOKERS
    learner = srl.OnlineLearner(model, query=["Smokes", "Likes"], update=update)
    tables, true = [], []
    for _ in range(80):
        friends = [(x, y) for x, y in itertools.permutations(range(3), 2) if rng.random() < 0.4]
        table = np.array(
            [[sum(s), sum(not s[x] or s[y] for x, y in friends), np.dot(s, e)] for s, e in STATES],
            np.float64,
        )
        mass = np.exp(table @ [-0.5, 1.0, 2.0])
        n = int(rng.choice(len(STATES), p=mass / mass.sum()))
        smokes, likes = ([x for x, one in zip(people, of, strict=True) if one] for of in STATES[n])
        facts = {"Friends": [(people[x], people[y]) for x, y in friends]}
        learner.learn_one(facts, {"Smokes": smokes, "Likes": likes})
        tables.append(table)
        true.append(n)

    def log_loss(w: np.ndarray) -> float:
        scores = [(table @ w, n) for table, n in zip(tables, true, strict=True)]
        return float(sum(np.logaddexp.reduce(score) - score[n] for score, n in scores))

    def metric(square: np.ndarray) -> np.ndarray:
        return keys["delta"] + np.sqrt(square) if "delta" in keys else np.ones(3)

    pull, square, w, most = np.zeros(3), np.zeros(3), WEIGHTS, 0.0
    for table, n in zip(tables, true, strict=True):
        score = table @ w
        delta = table[n] - np.exp(score - np.logaddexp.reduce(score)) @ table
        most += np.sum(delta**2 / metric(square)) / (2 * keys["sigma"])
        pull, square = pull + delta, square + delta**2
        w = WEIGHTS + pull / (keys["sigma"] * metric(square))

    def penalty(w: np.ndarray) -> float:
        return float(keys["sigma"] / 2 * metric(square) @ (w - WEIGHTS) ** 2)

    found = learner.certificate
    loss, bound = found["loss"] * len(true), found["regret_bound"]
    regularised = minimize(lambda w: log_loss(w) + penalty(w), WEIGHTS).fun
    best = minimize(log_loss, WEIGHTS)
    assert found["dual"] == pytest.approx(loss - bound)
    assert found["dual"] <= regularised
    assert 0 < loss - best.fun <= bound + penalty(best.x)
    assert bound <= most * (1.0 + 1e-9)


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
    assert learner.certificate["sampled"] == 1
    assert learner.certificate["regret_bound"] is None
    resumed = pickle.loads(pickle.dumps(learner))
    assert resumed.certificate == learner.certificate
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


def test_engines_learn_what_the_kernel_learns_while_the_table_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_weights, "ROOM", 64)
    citations = srl.datasets.citations()
    learned = []
    for presolve in ("exact", "none"):
        learner = srl.OnlineLearner(
            citations.model,
            citations.query,
            update="log-likelihood",
            inference={"engine": "mpe", "presolve": presolve},
        )
        learner.learn_many([*citations.examples][:20])
        learned.append(learner.weights_text())
        assert "sampled" not in learner.certificate
    assert len(learner.weights.rows) > 1_000
    assert learned[0] == learned[1]


def test_constant_rates_have_no_delta() -> None:
    with pytest.raises(srl.UsageError, match="delta: not for constant rates"):
        srl.SequenceTagger({"update": "log-likelihood", "rates": "constant", "delta": 2.0}).fit(
            [[["a"]]], [["x"]]
        )


@pytest.mark.parametrize("name", ["log-likelihood", "cd"])
def test_label_costs_are_refused(name: str) -> None:
    citations = srl.datasets.citations()
    update = {"update": name, "costs": {"InField": 2.0}}
    with pytest.raises(srl.UsageError, match=r"learner\.costs"):
        srl.OnlineLearner(citations.model, citations.query, update=update)
