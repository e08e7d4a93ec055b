"""Expected counts and their variances are those of enumeration, or within their errors of them."""

from __future__ import annotations

from itertools import product
from math import lgamma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.core.errors import Infeasible, UsageError
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.exact_marginals import Exact
from onlinesrl.mln.inference.expected_counts import expected_counts
from onlinesrl.mln.inference.gate_marginals import GateModel
from onlinesrl.mln.inference.mcsat import McSat
from onlinesrl.mln.query.world import QueryError
from tests.support.ground_mrfs import Problem, problems


def by_enumeration(model: GroundMRF, weight: np.ndarray, atoms: np.ndarray) -> tuple[float, float]:
    states = [np.array(bits, np.uint8) for bits in product((0, 1), repeat=model.n_atoms)]
    states = [state for state in states if model.feasible(state)]
    scores = np.array([model.score(state, weight) for state in states])
    p = np.exp(scores - scores.max())
    numbers = np.array([state[atoms].sum() for state in states], float)
    mean = float(p @ numbers / p.sum())
    return mean, float(p @ (numbers - mean) ** 2 / p.sum())


@settings(deadline=None, max_examples=60)
@given(problems(), st.randoms(use_true_random=False))
def test_they_are_those_of_enumeration(problem: Problem, rng) -> None:
    """Of some atoms, and of all, with hard rules and groups."""
    n = problem.model.n_atoms
    atoms = {
        "all": np.arange(n),
        "some": np.array([a for a in range(n) if rng.random() < 0.5], int),
    }
    literals = {name: (some + 1) * rng.choice((-1, 1)) for name, some in atoms.items()}
    try:
        probability = Exact().marginals(problem.model, problem.weights).probability
    except Infeasible:
        return
    of = GateModel(problem.model, problem.weights, n)
    counts = expected_counts(of, probability, literals, McSat(), exact=True)
    for name, count in counts.items():
        mean, variance = by_enumeration(problem.model, problem.weights, atoms[name])
        mean = len(atoms[name]) - mean if np.any(literals[name] < 0) else mean
        assert count.standard_error is None
        assert count.expected == pytest.approx(mean, abs=1e-9)
        assert count.variance == pytest.approx(variance, abs=1e-8 * max(1, len(atoms[name])) ** 2)


@pytest.mark.parametrize("n", [2, 200])
def test_atoms_that_are_all_equal_or_independent(n: int) -> None:
    """The extremes of a variance: n^2 / 4, and a quarter of n."""
    links = "".join(f"S(P{k}) <=> S(P{k + 1}).\n" for k in range(n - 1))
    names = ", ".join(f"P{k}" for k in range(n))
    model = f"person = {{{names}}}\nS(person)\n"
    answers = [
        srl.infer(model + rules, (), "S", method="exact", counts=True) for rules in (links, "")
    ]
    variances = [answer.counts["S"]["variance"] for answer in answers]
    assert variances == pytest.approx([n * n / 4, n / 4], rel=1e-6)
    assert [answer.counts["S"]["expected"] for answer in answers] == pytest.approx([n / 2, n / 2])


def test_samples_of_what_is_too_wide_are_within_their_errors() -> None:
    """By the number of true atoms of a clique; each of the two clauses of <=> has half of the weight."""
    n = 60
    model = "Near(x, x)\nOn(x)\n-0.04 Near(x, y) => (On(x) <=> On(y))\n-0.2 On(x)"
    evidence = {"Near": [[i, j] for i in range(n) for j in range(i)]}
    choices = [lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) for k in range(n + 1)]
    scores = np.array([x - 0.2 * k + 0.02 * k * (n - k) for k, x in enumerate(choices)])
    p, k = np.exp(scores - scores.max()), np.arange(n + 1)
    mean = p @ k / p.sum()
    variance = p @ (k - mean) ** 2 / p.sum()
    for method in ("exact", "mcsat", "gibbs"):
        count = srl.infer(model, evidence, "On", method=method, counts=True).counts["On"]
        assert count["expected"] == pytest.approx(mean, abs=5 * count["standard_error"])
        assert count["variance"] == pytest.approx(variance, rel=0.3)


def test_counts_of_formulas_and_of_evidence() -> None:
    model = "person = {A, B, C}\nS(person)\nLikes(person, person)\n"
    evidence = {"S": ["A"], "Likes": [["A", "B"]]}
    pairs = "S(x) ^ S(y) ^ Likes(x, y)"
    answer = srl.infer(model, evidence, "S", formulas=pairs, method="exact", counts=True)
    assert answer.counts["S"] == {"expected": pytest.approx(2.0), "variance": pytest.approx(0.5)}
    assert answer.counts[pairs] == {"expected": pytest.approx(0.5), "variance": pytest.approx(0.25)}


def test_what_has_no_counts_is_refused() -> None:
    with pytest.raises(QueryError, match="--counts is for marginals"):
        srl.infer("S(x)\n1 S(x)", {"S": ["A"]}, "S", counts=True)
    with pytest.raises(UsageError, match="not for the best states"):
        srl.infer("S(x)\n1 S(x)", {"S": ["A"]}, "S", counts=True, best=2)
