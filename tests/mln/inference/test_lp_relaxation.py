"""The LP relaxation: its bound, its rounding, and when it is the MPE."""

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.library.testing import check_map_engine
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.lp_relaxation import Lp, rounded
from tests.support import recorded_networks
from tests.support.ground_mrfs import Problem, clause_model, instance, problems

TRIANGLE = [(1.0, [a, b]) for a, b in ((1, 2), (1, 3), (2, 3))] + [
    (1.0, [-a, -b]) for a, b in ((1, 2), (1, 3), (2, 3))
]
"""Each pair of three wants to differ: one half each satisfies all in the relaxation."""


@given(problems())
def test_the_contract(problem: Problem):
    check_map_engine(Lp(), problem.model, problem.weights, problem.bonus)


def test_a_fractional_optimum_is_rounded_and_not_certified():
    found = Lp().solve(*clause_model(3, TRIANGLE))

    assert found.bound == pytest.approx(6.0)
    assert found.score == 5.0
    assert (found.route, found.certified) == ("lp", False)


def test_rounding_goes_from_the_last_atom_by_the_weight_not_satisfied_yet():
    """Algorithm 1 by hand: 3 wins by 4 > 2; then 2 by 3 > 0 (``2 v 3`` is satisfied); then 1 loses."""
    clauses = [
        (4.0, [3, 1]),
        (2.0, [-3, 2]),
        (3.0, [2, -1]),
        (9.0, [-2, 3]),
        (1.0, [-1, 2]),
        (0.5, [-1, -3]),
    ]
    state = rounded(*clause_model(3, clauses), None, np.full(3, 0.5))

    assert state.tolist() == [0, 1, 1]


def test_rounding_keeps_what_is_integral():
    clauses = [(4.0, [3, 1]), (2.0, [-3, 2])]
    truth = np.array([0.0, 0.5, 0.0])

    assert rounded(*clause_model(3, clauses), None, truth).tolist() == [0, 0, 0]


def test_rounding_keeps_hard_clauses_and_groups():
    """The gains want 1 and 2 of a group and 4; the hard clause and the group allow one of the two."""
    clauses = [(5.0, [2]), (4.0, [1]), (3.0, [4]), (None, [-2, -4])]
    groups = [(True, [0, 1, 2])]
    state = rounded(*clause_model(4, clauses, groups), None, np.full(4, 0.5))

    assert state.tolist() == [1, 0, 0, 1]


def test_rounding_says_when_it_gives_up(monkeypatch):
    monkeypatch.setattr("onlinesrl.mln.inference.maxwalksat.BACKTRACKS", 0)
    signs = [(s, t, u) for s in (1, -1) for t in (1, -1) for u in (1, -1)]
    problem = clause_model(3, [(None, [s, 2 * t, 3 * u]) for s, t, u in signs])
    with pytest.raises(Unsolved, match="use the ILP engine"):
        Lp().solve(*problem)


def test_the_relaxation_alone_does_not_show_infeasibility():
    signs = [(s, t, u) for s in (1, -1) for t in (1, -1) for u in (1, -1)]
    problem = clause_model(3, [(None, [s, 2 * t, 3 * u]) for s, t, u in signs])
    with pytest.raises(Infeasible):
        Lp().solve(*problem)


@pytest.mark.parametrize("name", ["W1-0", "W1-1", "W2-0", "W2-1", "W3-100-weak-0"])
def test_recorded_instances(name):
    problem = instance(name)
    found = Lp().solve(problem.model, problem.weights)

    assert found.bound >= problem.optimum - 1e-6
    assert found.score <= problem.optimum + 1e-6
    assert found.certified == (found.score >= problem.optimum - 1e-6 and found.certified)
    assert found.score >= 0.9 * problem.optimum - 0.1 * abs(problem.optimum)


@pytest.mark.parametrize("n", [10, 50, 100])
def test_friends_and_smokers_is_integral(n):
    world = recorded_networks.friends_smokers(n)
    comment, _ = recorded_networks.answer(recorded_networks.WORLDS / f"fs{n}.map.exact")
    found = Lp().solve(world.model, world.weights)

    assert found.certified
    assert world.cost(found.score) == pytest.approx(float(comment.split()[-1]), abs=1e-6)


@pytest.mark.parametrize(
    ("fold", "pair"), [(3, "19-Meet_WalkTogether1.id1_id2"), (4, "02-Walk2.id1_id2")]
)
def test_caviar(fold, pair):
    """Within 3 % of the optimum, the relaxation below it."""
    case = recorded_networks.caviar("MM_SI", fold, pair)
    comment, _ = recorded_networks.exact("MM_SI", fold, pair, "map")
    optimum = float(comment.split()[-1])
    found = Lp().solve(case.model, case.weights)

    assert not found.certified
    assert optimum - 1e-3 <= case.cost(found.score) <= 1.03 * optimum
    assert case.cost(found.bound) <= optimum + 1e-3


def test_an_integral_optimum_is_the_mpe():
    model, weights = clause_model(3, [(2.0, [-1, 2]), (1.0, [-2, 3]), (1.5, [1])])
    found, best = Lp().solve(model, weights), Brute().solve(model, weights)

    assert found.certified
    assert found.score == best.score
    assert found.state.tolist() == [1, 1, 1]
