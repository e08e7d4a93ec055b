"""Simplification keeps the feasible states and, up to a constant, their scores."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.inference.presolve import reduced
from onlinesrl.mln.kernels.clause_merging import NONE, distinct, distinguish
from tests.support import plain_clauses
from tests.support.ground_mrfs import Clause, Problem, clause_model, problems


@given(problems(max_atoms=7))
def test_the_states_and_their_scores_stay(problem: Problem):
    model = problem.model
    every = (np.array(x, np.uint8) for x in itertools.product((0, 1), repeat=model.n_atoms))
    expected = {tuple(state.tolist()) for state in every if model.feasible(state)}
    try:
        found = reduced(model, problem.weights, problem.bonus)
    except Infeasible:
        assert not expected
        return
    left = [
        s for s in plain_clauses.states(found.clauses) if plain_clauses.feasible(found.clauses, s)
    ]

    assert {tuple(found.expand(s).tolist()) for s in left} == expected
    assert all(np.array_equal(found.expand(s)[found.atoms], s) for s in left)
    shift = [
        model.score(found.expand(s), problem.weights, problem.bonus)
        - plain_clauses.score(found.clauses, s)
        for s in left
    ]
    assert np.ptp(shift or [0.0]) == pytest.approx(0, abs=1e-6)


def chain(n: int) -> list[Clause]:
    """Each atom equal to the next, but the first opposite to the second."""
    ends = [(None, [1, 2]), (None, [-1, -2])]
    return ends + [(None, [s * a, -s * (a + 1)]) for a in range(2, n) for s in (1, -1)]


def test_hard_clauses_run_through_long_chains():
    found = reduced(*clause_model(400, [*chain(400), (1.0, [399]), (1.0, [1])]))
    assert found.n_atoms == 1
    assert len(found.clauses.weight) == 0  # w a + w !a
    assert found.expand(np.array([0.25])).tolist() in ([0.75] + [0.25] * 399, [0.25] + [0.75] * 399)

    implications: list[Clause] = [(None, [-a, a + 1]) for a in range(2_999, 0, -1)]
    found = reduced(*clause_model(3_000, [*implications, (None, [1])]))
    assert found.n_atoms == 0
    assert found.expand(np.zeros(0)).tolist() == [1.0] * 3_000


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_what_follows_from_either_value_of_an_atom_is_fixed(signs):
    """x v y and x v !y, in either order and sign: x holds, and y is free."""
    first, second = signs
    for a, b in ((1, 2), (2, 1)):
        rows = [[first * a, second * b], [first * a, -second * b]]
        found = reduced(*clause_model(2, [(None, row) for row in rows]))
        assert found.atoms.tolist() == [b - 1]
        assert found.expand(np.array([0.25]))[a - 1] == (first > 0)


def test_groups_propagate_and_keep_their_places():
    """Two of three values excluded: the third holds; it excludes those of the next group."""
    rows: list[Clause] = [(None, [-1]), (None, [-2]), (None, [-3, 4])]
    found = reduced(*clause_model(5, rows, [(True, [0, 1, 2]), (False, [3, 4])]))
    assert found.expand(np.zeros(0, np.uint8)).tolist() == [0, 0, 1, 1, 0]

    equal: list[Clause] = [(None, [1, -3]), (None, [-1, 3]), (1.0, [1])]
    found = reduced(*clause_model(4, equal, [(True, [0, 1]), (False, [2, 3])]))
    assert found.n_atoms == 4
    assert found.clauses.hard == 2


ATOMS = 5
LITERALS = st.integers(1, ATOMS).flatmap(lambda a: st.sampled_from([a, -a]))
CLAUSES = st.lists(st.lists(LITERALS, max_size=5), max_size=12)
NAMES = st.lists(
    st.integers(1, ATOMS + 1).flatmap(lambda a: st.sampled_from([a, -a])),
    min_size=ATOMS,
    max_size=ATOMS,
)


def plain(clauses, names):
    """The clauses that differ, and of each of all the one that it became, with its sign."""
    true, rows, found = ATOMS + 1, dict[tuple[int, ...], int](), list[tuple[int, int]]()
    for clause in clauses:
        named = {names[abs(x) - 1] * (1 if x > 0 else -1) for x in clause} - {-true}
        if true in named or not named or any(-x in named for x in named):
            found.append((NONE, 1))
            continue
        key, sign = tuple(sorted(named)), 1
        if len(key) == 1 and key[0] < 0:
            key, sign = (-key[0],), -1
        found.append((rows.setdefault(key, len(rows)), sign))
    return [*rows], found


@given(CLAUSES, NAMES)
def test_equal_clauses_are_one(clauses, names):
    start = np.cumsum([0, *map(len, clauses)])
    literal = np.array([x for clause in clauses for x in clause], np.int32)
    of = distinct(len(clauses), len(literal))
    n = distinguish(start, literal, np.array([0, *names, ATOMS + 1]), of)

    rows, found = plain(clauses, names)
    each = zip(of.start[:n].tolist(), of.start[1 : n + 1].tolist(), strict=True)
    assert [tuple(of.literal[i:j].tolist()) for i, j in each] == rows
    assert [*zip(of.row.tolist(), of.sign.tolist(), strict=True)] == found
