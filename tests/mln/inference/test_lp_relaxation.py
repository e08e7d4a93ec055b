"""The LP relaxation: its bound, its rounding, and when it is the MPE."""

import numpy as np
import pytest

from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.lp_relaxation import Lp, round_up
from tests.support.ground_mrfs import clause_model

PAIRS = [(1, 2), (1, 3), (2, 3)]
TRIANGLE = [(1.0, [s * a, s * b]) for s in (1, -1) for a, b in PAIRS]
"""Each pair of three wants to differ: one half each satisfies all in the relaxation."""
NOTHING = [(None, [s, 2 * t, 3 * u]) for s in (1, -1) for t in (1, -1) for u in (1, -1)]
"""No state satisfies these, and nothing follows before two atoms are decided."""


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
    state = round_up(*clause_model(3, clauses), None, np.full(3, 0.5))

    assert state.tolist() == [0, 1, 1]


def test_rounding_keeps_what_is_integral():
    clauses = [(4.0, [3, 1]), (2.0, [-3, 2])]
    truth = np.array([0.0, 0.5, 0.0])

    assert round_up(*clause_model(3, clauses), None, truth).tolist() == [0, 0, 0]


def test_rounding_keeps_hard_clauses_and_groups():
    """The gains want 1 and 2 of a group and 4; the hard clause and the group allow one of the two."""
    clauses = [(5.0, [2]), (4.0, [1]), (3.0, [4]), (None, [-2, -4])]
    groups = [(True, [0, 1, 2])]
    state = round_up(*clause_model(4, clauses, groups), None, np.full(4, 0.5))

    assert state.tolist() == [1, 0, 0, 1]


def test_what_the_relaxation_does_not_show_rounding_does(monkeypatch):
    with pytest.raises(Infeasible):
        Lp().solve(*clause_model(3, NOTHING))
    monkeypatch.setattr("onlinesrl.mln.inference.maxwalksat.BACKTRACKS", 0)
    with pytest.raises(Unsolved, match="use the engine mpe"):
        Lp().solve(*clause_model(3, NOTHING))


def test_where_rounding_gives_up_walksat_goes_on(monkeypatch):
    monkeypatch.setattr("onlinesrl.mln.inference.maxwalksat.BACKTRACKS", 0)
    for place in range(8):  # of the state that is left
        model, weights = clause_model(3, [*NOTHING[:place], *NOTHING[place + 1 :]])
        assert model.feasible(round_up(model, weights, None, np.full(3, 0.5)))


def test_an_integral_optimum_is_the_mpe():
    model, weights = clause_model(3, [(2.0, [-1, 2]), (1.0, [-2, 3]), (1.5, [1])])
    found, best = Lp().solve(model, weights), Brute().solve(model, weights)

    assert found.certified
    assert found.score == best.score
    assert found.state.tolist() == [1, 1, 1]
