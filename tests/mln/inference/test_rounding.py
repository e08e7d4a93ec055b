"""What a certificate promises: no state is better by more than the rounding that the answer states.

The reference is enumeration in rational numbers; weights are from 1e-12 to 1e17.
"""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError, Infeasible
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.elimination import Elimination
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.lp_relaxation import Lp
from onlinesrl.mln.inference.protocols import MapEngine
from onlinesrl.mln.inference.registry import exact_engine, marginal_engine
from onlinesrl.mln.inference.rounding import Magnitude
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
EQUIVALENT = """t = {{A, B}}
Q(t)
{0} Q(A) v !Q(B)
{0} !Q(A) v Q(B)
2 !Q(A)
3 Q(B)
"""
"""Q(A) <=> Q(B); what the small weights say of the two together must not be lost."""


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
    excess = Fraction(found.bound) - Fraction(found.score) + Fraction(found.rounding)
    better = max(case.scores.values()) - case.scores[tuple(found.state.tolist())]
    if found.certified:
        assert better <= excess
        assert excess <= max(size.least / 2, min(1e-6 * size.total, 1e-3))
    return found.certified


@pytest.mark.parametrize(
    ("engine", "cases", "certified"),
    [
        (exact_engine(Ilp(), None), 60, 60),
        (Elimination(), 40, 30),
        (BranchAndBound(), 40, 30),
        (Ilp(), 40, 30),
        (Lp(), 40, 30),
        (Ilp("cbc"), 8, 5),
    ],
    ids=["mpe", "elimination", "branch and bound", "ilp", "lp", "cbc"],
)
def test_a_certified_state_is_optimal_up_to_its_rounding(engine, cases, certified) -> None:
    assert sum(check(engine, Case(seed)) for seed in range(cases)) >= certified


def test_what_elimination_answers_where_weights_are_lost_is_the_best_state_exactly() -> None:
    """Integers take all that doubles lose, so that nothing is rounded."""
    lost = [c for c in map(Case, range(120)) if Magnitude.of(c.weights, c.bonus).lost and c.scores]
    assert len(lost) > 5
    for case in lost:
        found = exact_engine(Ilp(), None).solve(case.model, case.weights, bonus=case.bonus)
        best = max(case.scores.values())
        assert float(best - case.scores[tuple(found.state.tolist())]) <= found.rounding
        brute = Brute().solve(case.model, case.weights, bonus=case.bonus)
        assert case.scores[tuple(brute.state.tolist())] == best


def test_exact_marginals_are_exact_to_a_billionth() -> None:
    """Differences of exact scores are exponentiated."""
    for seed in range(40):
        case = Case(seed)
        if case.bonus is not None or not case.scores:
            continue
        top = max(case.scores.values())
        share = [(state, math.exp(max(-1e3, float(s - top)))) for state, s in case.scores.items()]
        total = math.fsum(p for _, p in share)
        expected = [
            math.fsum(p for state, p in share if state[atom]) / total
            for atom in range(case.model.n_atoms)
        ]
        found = marginal_engine("exact").marginals(case.model, case.weights)
        assert found.probability == pytest.approx(expected, abs=1e-9)
        assert found.log_z == pytest.approx(float(top) + math.log(total), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("weight", ["1e12", "1e300"])
def test_large_weights_do_not_absorb_small_ones(weight: str) -> None:
    model = ABSORBED.format(weight)
    for method in ("mpe", "lp"):
        found = srl.infer(model, {"P": ["A"]}, "Q", method=method)
        assert found["Q"] == {("A",): 1.0, ("B",): 1.0}
        assert found.stats["cost"] == 2.0
        assert found.stats["certified"] or method == "lp"
    found = srl.infer(model, {"P": ["A"]}, "Q", method="exact")
    assert found["Q"][("B",)] == pytest.approx(math.e / (1 + math.e), abs=1e-12)
    assert found.stats["rounding"] == 0.0


@pytest.mark.parametrize("loss", ["ml", "pl"])
def test_a_learner_predicts_and_learns_with_large_weights(loss: str) -> None:
    """The rival of the first example has Q(B) too, so that the update moves both small weights by 1."""
    learner = srl.OnlineLearner(ABSORBED.format("1e17"), "Q", loss=loss)
    found = learner.learn_one({"P": ["A"]}, {"Q": ["A"]})

    assert found["Q"] == [("A",), ("B",)]
    assert found.certified
    assert learner.weights["Q(B)"] == 2.0
    assert learner.weights["!Q(A) v !Q(B)"] == 3.0
    assert learner.predict_one({"P": ["A"]})["Q"] == [("A",)]
    for engine in ("mpe", "lp"):
        inference = {"presolve": "none", "engine": engine}
        whole = srl.OnlineLearner(ABSORBED.format("1e17"), "Q", inference=inference)
        found = whole.predict_one({"P": ["A"]})
        assert not found.certified or found["Q"] == [("A",), ("B",)]


@pytest.mark.parametrize("weight", [1e-6, 1e-12])
def test_small_weights_are_not_below_a_solvers_tolerance(weight: float) -> None:
    model = f"t = {{A}}\nP0(t)\nP1(t)\n{weight!r} P0(A)\n{-weight!r} !P0(A)\n"
    for method in ("mpe", "lp"):
        found = srl.infer(model, {}, ["P0", "P1"], method=method)
        assert found["P0"] == {("A",): 1.0}
        assert found.stats["certified"]
        assert found.stats["rounding"] < weight / 2
    inference = {"engine": "lp", "presolve": "none"}
    rules = f"t = {{A}}\nP0(t)\nE(t)\n{weight!r} P0(A)\n{-weight!r} !P0(A)\n"
    prediction = srl.OnlineLearner(rules, "P0", inference=inference).predict_one({"E": ["A"]})
    assert (prediction["P0"], prediction.certified) == ([("A",)], True)


@pytest.mark.parametrize("method", ["mpe", "lp", "walksat", "exact", "mcsat", "gibbs"])
def test_sums_beyond_doubles_are_refused(method: str) -> None:
    with pytest.raises(ExampleError, match=r"1e\+300.* P\(x\) => Q\(x\) \(line 4\)"):
        srl.infer(ABSORBED.format("1e308"), {"P": ["A", "B"]}, "Q", method=method)


@pytest.mark.parametrize(
    ("engine", "presolve"), [("mpe", "exact"), ("mpe", "none"), ("lp", "none"), ("mcsat", "exact")]
)
def test_a_learner_refuses_sums_beyond_doubles(engine: str, presolve: str) -> None:
    learner = srl.OnlineLearner(
        ABSORBED.format("1e308"), "Q", inference={"engine": engine, "presolve": presolve}
    )
    with pytest.raises(ExampleError, match=r"1e\+300.* P\(x\) => Q\(x\) \(line 4\)"):
        learner.learn_one({"P": ["A", "B"]}, {"Q": ["A"]})
    assert learner.weights["Q(B)"] == 3.0


@pytest.mark.parametrize("kind", ["mple", "max-margin"])
def test_weights_are_not_learned_from_beyond_doubles(kind: str) -> None:
    world = {"P": ["A", "B"], "Q": ["A"]}
    with pytest.raises(srl.LearningError, match=r":4: the weight 1e\+308 of the rule P\(x\) => Q"):
        srl.learn(ABSORBED.format("1e308"), world, "Q", learner=kind)


@pytest.mark.parametrize("weight", ["1e12", "1e250"])
@pytest.mark.parametrize("method", ["mpe", "lp", "walksat", "exact", "mcsat", "gibbs"])
def test_large_weights_that_can_all_be_satisfied_act_as_hard(method: str, weight: str) -> None:
    found = srl.infer(EQUIVALENT.format(weight), {}, "Q", method=method)

    if method in {"mpe", "lp", "walksat"}:
        assert found["Q"] == {("A",): 1.0, ("B",): 1.0}
        assert found.stats["cost"] == 2.0
        assert found.stats["certified"] == (method != "walksat")
    else:
        expected, close = math.e / (1 + math.e), 1e-12 if method == "exact" else 0.02
        assert [*found["Q"].values()] == pytest.approx([expected, expected], abs=close)
        assert not found.stats["warnings"]


def test_a_wide_network_with_large_weights_is_certified() -> None:
    """Of 14 atoms that are all connected, each weight beyond the others; integers would be too slow."""
    random_ = random.Random(3)
    pairs = itertools.combinations(range(1, 15), 2)
    clauses: list[Clause] = [(random_.uniform(1, 2), [-a, -b]) for a, b in pairs]
    clauses += [(1e17, [a, a + 1]) for a in range(1, 14, 2)]
    model, weights = clause_model(14, clauses)
    found = exact_engine(Ilp(), None).solve(model, weights)
    hard, small = clause_model(14, [(None if w > 1e9 else w, of) for w, of in clauses])

    assert found.certified
    assert found.state.sum() == 7
    assert model.score(found.state, small) == pytest.approx(Brute().solve(hard, small).score)


@pytest.mark.parametrize("method", ["mcsat", "gibbs"])
def test_samplers_say_that_weights_are_lost(method: str) -> None:
    """Here one of two large weights is broken in every state."""
    broken = EQUIVALENT.format("1e17") + "1e17 Q(A)\n1e17 !Q(A) v !Q(B)"
    found = srl.infer(broken, {}, "Q", method=method)

    assert any("rounding hides" in warning for warning in found.stats["warnings"])
