"""Branch and bound: dense problems, and searches that end early."""

import numpy as np
import pytest
from conftest import long

from onlinesrl.core.errors import Unsolved
from onlinesrl.mln.inference.branch_and_bound import BranchAndBound
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.protocols import Solution
from tests.support.ground_mrfs import Problem, Refuses, check, clause_model


def clique(n: int, seed: int = 0) -> Problem:
    """A frustrated clique: every pair of its atoms has a clause."""
    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in range(1, n + 1) for b in range(1, a)]
    weights = rng.normal(size=len(pairs))
    return Problem(
        *clause_model(n, [(w, [a, -b]) for w, (a, b) in zip(weights, pairs, strict=True)])
    )


@pytest.mark.parametrize("n", [20, long(25)])
def test_frustrated_cliques_agree_with_the_integer_program(n):
    problem = clique(n)

    found = BranchAndBound(Refuses()).solve(problem.model, problem.weights)

    check(found, problem, "branch-and-bound")
    assert found.score == pytest.approx(Ilp().solve(problem.model, problem.weights).score, abs=1e-6)


class Answers:
    """A core with an answer given beforehand; None: it found nothing."""

    def __init__(self, state, bound: float, certified: bool):
        self.given = state, bound, certified

    def solve(self, model, weights, *, bonus=None) -> Solution:
        state, bound, certified = self.given
        if state is None:
            raise Unsolved("no state was found")
        score = model.score(state, weights, np.zeros(model.n_atoms))
        return Solution(state, score, bound, "core", certified)


def test_what_a_short_search_does_not_prove_is_the_cores():
    problem = clique(20)
    best = Ilp().solve(problem.model, problem.weights)

    def found(core) -> Solution:
        return BranchAndBound(core, most_work=1).solve(problem.model, problem.weights)

    own = found(Answers(None, 0, certified=False))
    assert not own.certified
    assert own.score == problem.model.score(own.state, problem.weights)
    assert own.score - 1e-9 <= best.score <= own.bound + 1e-9
    assert found(Answers(best.state, best.score, certified=True)).route == "core"
    worse = found(Answers(np.zeros(20, np.uint8), best.score + 0.5, certified=False))
    assert (worse.score, worse.route, worse.certified) == (own.score, own.route, False)
    assert worse.bound == min(own.bound, best.score + 0.5)


def test_a_short_search_that_finds_no_state_leaves_the_question_open():
    """Ten pigeons in nine holes: no state is feasible, which one node does not prove."""
    holes, pigeons = range(9), range(10)
    rows = [(None, [9 * p + h + 1 for h in holes]) for p in pigeons]
    rows += [
        (None, [-(9 * p + h + 1), -(9 * q + h + 1)])
        for h in holes
        for p in pigeons
        for q in range(p)
    ]
    model, weights = clause_model(90, rows)

    with pytest.raises(Unsolved):
        BranchAndBound(Answers(None, 0, certified=False), most_work=1).solve(model, weights)
