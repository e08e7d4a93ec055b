"""What a certificate promises: no state is better by more than a tolerance; weights beyond it are refused.

The reference is enumeration in rational numbers; weights are from 1e-12 to 1e17.
"""

import itertools
import math
import random
import re
from typing import Any

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError, Infeasible, Unsolved
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.lp_relaxation import Lp
from onlinesrl.mln.inference.protocols import MapEngine, Solution
from onlinesrl.mln.inference.registry import exact_engine, marginal_engine
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.inference.router import Router
from onlinesrl.mln.kernels.weight_magnitude import SAFE
from tests.support.ground_mrfs import BranchAndBound, Clause, clause_model

SPANS = [(-12, 17), (-12, -6), (-8, 1), (10, 17), (-3, 12), (-2, 1), (14, 17), (-12, 0)]
"""Exponents of the smallest and the largest weight of a model."""
ABSORBED = """t = {{A, B}}
P(t)
Q(t)
{} P(x) => Q(x)
2 !Q(A) v !Q(B)
3 Q(B)
"""
"""Given P(A), the best state has Q(A) and Q(B), and costs 2; Q(B) has the odds exp(1)."""
HARD = ABSORBED.replace("{{A, B}}", "{A, B}").replace("{} P(x) => Q(x)", "P(x) => Q(x).")


class Case:
    """A random model of up to 6 atoms, and the exact score of each of its feasible states."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        n = self.random.randint(1, 6)
        self.span = self.random.choice(SPANS)
        clauses: list[Clause] = []
        for _ in range(self.random.randint(1, 10)):
            some = self.random.sample(range(1, n + 1), self.random.randint(1, min(n, 3)))
            literals = [self.random.choice((1, -1)) * atom for atom in some]
            clauses.append((None if self.random.random() < 0.08 else self.weight(), literals))
        groups = [(self.random.random() < 0.5, [0, 1])] if n > 2 and seed % 3 == 0 else []
        self.bonus = np.array([self.weight() for _ in range(n)]) if seed % 3 == 1 else None
        self.model, self.weights = clause_model(n, clauses, groups)
        self.scores = {
            state: self.model.exact_score(y, self.weights, self.bonus)
            for state in itertools.product((0, 1), repeat=n)
            if self.model.feasible(y := np.array(state, np.uint8))
        }

    def weight(self) -> float:
        """Return a weight of any digits, or a power of ten, of which sums may be equal."""
        exponent = self.random.uniform(*self.span)
        if self.random.random() < 0.3:
            exponent = round(exponent)
        return float(self.random.choice((1, -1)) * 10.0**exponent)


def check(engine: MapEngine, case: Case) -> bool:
    """Check the answer of an engine; returns whether it is certified."""
    try:
        found = engine.solve(case.model, case.weights, bonus=case.bonus)
    except Infeasible:
        assert not case.scores
        return True
    size = Magnitude.of(case.weights, case.bonus)
    better = max(case.scores.values()) - case.scores[tuple(found.state.tolist())]
    if found.certified:
        assert better <= max(size.least / 2, min(1e-6 * size.total, 1e-3))
    return found.certified


@pytest.mark.parametrize(
    ("engine", "cases", "certified"),
    [
        (exact_engine(Ilp(), None), 60, 50),
        (Router(), 40, 30),
        (BranchAndBound(), 40, 30),
        (Ilp(), 40, 30),
        (Lp(), 40, 30),
        (Ilp("cbc"), 8, 5),
    ],
    ids=["mpe", "elimination", "branch and bound", "ilp", "lp", "cbc"],
)
def test_a_certified_state_is_optimal_up_to_a_tolerance(engine, cases, certified) -> None:
    assert sum(check(engine, Case(seed)) for seed in range(cases)) >= certified


def test_exact_marginals_are_exact_where_weights_are_not_refused() -> None:
    """Differences of exact scores are exponentiated."""
    compared = 0
    for case in map(Case, range(60)):
        total = np.abs(case.weights).sum()
        if case.bonus is not None or not case.scores or total > SAFE:
            continue
        top = max(case.scores.values())
        share = [(state, math.exp(max(-1e3, float(s - top)))) for state, s in case.scores.items()]
        z = math.fsum(p for _, p in share)
        expected = [
            math.fsum(p for state, p in share if state[atom]) / z
            for atom in range(case.model.n_atoms)
        ]
        found = marginal_engine("exact").marginals(case.model, case.weights)
        assert found.probability == pytest.approx(expected, abs=1e-8)
        assert found.log_z == pytest.approx(float(top) + math.log(z), rel=1e-12, abs=1e-9)
        compared += 1
    assert compared > 15


@pytest.mark.parametrize("weight", ["1e14", "1e300", "1e308"])
@pytest.mark.parametrize("method", ["mpe", "lp", "walksat", "exact", "mcsat", "gibbs"])
def test_weights_beyond_certificates_are_refused(method: str, weight: str) -> None:
    """With the rule, its weight, the bound, and what to do."""
    message = (
        rf"the weight {re.escape(f'{float(weight):g}')} of the rule P\(x\) => Q\(x\) \(line 4\)"
    )
    with pytest.raises(ExampleError, match=rf"{message}.* at most 1,048,576.* full stop"):
        srl.infer(ABSORBED.format(weight), {"P": ["A"]}, "Q", method=method)
    answer = srl.infer(HARD, {"P": ["A"]}, "Q", method=method)
    assert answer["Q"][("A",)] == 1.0


def test_a_large_weight_is_fine_where_sums_of_doubles_are() -> None:
    answer = srl.infer(ABSORBED.format("1e9"), {"P": ["A"]}, "Q")
    assert answer.stats["certified"]
    assert answer["Q"] == {("A",): 1.0, ("B",): 1.0}


@pytest.mark.parametrize(
    "options",
    [
        {"inference": {"engine": engine, "presolve": presolve}}
        for engine in ("mpe", "lp", "mcsat")
        for presolve in ("exact", "none")
    ]
    + [{"loss": "pl"}, {"update": "cd"}],
    ids=str,
)
def test_a_learner_refuses_examples_beyond_certificates_and_goes_on(
    options: dict[str, Any],
) -> None:
    """Where the rule does not matter, examples are learned from before and after."""
    learner = srl.OnlineLearner(ABSORBED.format("1e14"), "Q", **options)
    learner.learn_one({"P": []}, {"Q": ["B"]})
    before = learner.weights
    with pytest.raises(ExampleError, match=r"P\(x\) => Q\(x\) \(line 4\).* full stop"):
        learner.learn_one({"P": ["A", "B"]}, {"Q": ["A"]})
    assert learner.weights == before
    learner.learn_one({"P": []}, {"Q": ["A"]})


def test_weights_that_grow_beyond_certificates_in_a_stream_make_bad_examples() -> None:
    """The first step is one of 1e17; what comes after it is refused, and the learner goes on."""
    rules = "t = {A, B}\nP(t)\nQ(t)\n0 P(x) => Q(x)\n"
    learner = srl.OnlineLearner(rules, "Q", update="subgradient", sigma=1e-17)
    learner.learn_one({"P": ["A"]}, {"Q": []})
    for truth in ([], ["A"]):
        with pytest.raises(ExampleError, match="make this rule hard"):
            learner.learn_one({"P": ["A"]}, {"Q": truth})
    assert learner.predict_one({"P": []})["Q"] == []


@pytest.mark.parametrize("weight", [1e-6, 1e-12])
def test_small_weights_are_not_below_a_solvers_tolerance(weight: float) -> None:
    model = f"t = {{A}}\nP0(t)\nP1(t)\n{weight!r} P0(A)\n{-weight!r} !P0(A)\n"
    for method in ("mpe", "lp"):
        found = srl.infer(model, {}, ["P0", "P1"], method=method)
        assert found["P0"] == {("A",): 1.0}
        assert found.stats["certified"]
    inference = {"engine": "lp", "presolve": "none"}
    rules = f"t = {{A}}\nP0(t)\nE(t)\n{weight!r} P0(A)\n{-weight!r} !P0(A)\n"
    prediction = srl.OnlineLearner(rules, "P0", inference=inference).predict_one({"E": ["A"]})
    assert (prediction["P0"], prediction.certified) == ([("A",)], True)


@pytest.mark.parametrize("kind", ["mple", "max-margin"])
def test_weights_are_not_learned_from_beyond_doubles(kind: str) -> None:
    world = {"P": ["A", "B"], "Q": ["A"]}
    with pytest.raises(srl.LearningError, match=r":4: the weight 1e\+308 of the rule P\(x\) => Q"):
        srl.learn(ABSORBED.format("1e308"), world, "Q", learner=kind)


def test_a_living_world_refuses_a_step_whose_weights_no_sum_holds() -> None:
    model = "P(t)\nQ(t)\n1e308 P(x) ^ P(y) => Q(x)\n1e308 Q(x) v Q(y)\n-1e308 !Q(x)\n"
    world = srl.World(srl.Model(model), "Q")
    before = world.answer()
    with pytest.raises(Unsolved, match="make the rule of a large weight hard"):
        world.apply(add={"P": ["a", "b"]})
    assert world.answer() == before


@pytest.mark.parametrize(
    ("weights", "gap", "certified"),
    [
        ([0.233, 0.41], 0.07, False),
        ([0.233, 0.41], 1e-12, True),
        ([0.5, 2.0], 0.2, True),  # scores differ by halves
        ([0.5, 2.0], 0.3, False),
    ],
)
def test_the_bound_of_one_search_proves_the_state_of_another_where_no_score_lies_between(
    weights: list[float], gap: float, certified: bool
) -> None:
    state = np.zeros(2, np.uint8)
    searched = Solution(state, -np.inf, 1.0 + gap, "branch-and-bound", False)
    local = Solution(state, 1.0, np.inf, "walksat", False)
    answer = Magnitude.of(np.array(weights)).better(local, searched, columns=4)
    assert (answer.score, answer.certified) == (1.0, certified)
