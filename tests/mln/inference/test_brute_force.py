from itertools import product

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.inference.brute_force import MAX_ATOMS, Brute
from tests.support.ground_mrfs import Problem, clause_model, problems


def ranked(problem: Problem):
    """All feasible states, best first, equal ones in lexicographic order."""
    states = [np.array(bits, np.uint8) for bits in product((0, 1), repeat=problem.model.n_atoms)]
    scored = [
        (round(problem.model.score(s, problem.weights, problem.bonus), 8), s)
        for s in states
        if problem.model.feasible(s)
    ]
    return sorted(scored, key=lambda pair: -pair[0])


@given(problems(max_atoms=6))
def test_brute_force_finds_the_first_of_all_states(problem):
    states = ranked(problem)
    if not states:
        with pytest.raises(Infeasible):
            Brute().solve(problem.model, problem.weights, bonus=problem.bonus)
        return

    best = Brute().solve(problem.model, problem.weights, bonus=problem.bonus)

    assert best.state.tolist() == states[0][1].tolist()
    assert best.score == problem.model.score(best.state, problem.weights, problem.bonus)
    assert best.certified
    assert best.bound == best.score


def test_of_equal_states_the_lexicographically_first_is_taken():
    model, ones = clause_model(3, [(1.0, [1, 2])], [(True, [1, 2])])

    assert Brute().solve(model, 0 * ones).state.tolist() == [0, 0, 1]
    assert Brute().solve(model, ones).state.tolist() == [0, 1, 0]


def test_too_many_atoms_are_refused():
    with pytest.raises(ValueError, match="too many for brute force"):
        Brute().solve(*clause_model(MAX_ATOMS + 1, []))
