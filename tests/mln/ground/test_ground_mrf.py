from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.mln.ground.ground_mrf import validate
from tests.support.ground_mrfs import Problem, clause_model, problems


@st.composite
def problems_with_state(draw):
    problem = draw(problems())
    bits = st.lists(
        st.integers(0, 1), min_size=problem.model.n_atoms, max_size=problem.model.n_atoms
    )
    return problem, np.array(draw(bits), np.uint8)


def literals_of(model, c):
    return model.literals[model.start[c] : model.start[c + 1]].tolist()


@given(problems_with_state())
def test_the_arrays_mean_what_the_clauses_say(case):
    (problem, state), model = case, case[0].model
    true = [
        any(bool(state[abs(x) - 1]) == (x > 0) for x in literals_of(model, c))
        for c in range(model.n_clauses)
    ]
    soft = ~model.hard
    counts = [int(state[model.group == g].sum()) for g in range(len(model.exactly))]

    assert model.satisfied(state).tolist() == true
    assert model.score(state, problem.weights) == pytest.approx(
        sum(problem.weights[c] for c in range(model.n_clauses) if soft[c] and true[c]), abs=1e-12
    )
    assert model.feasible(state) == (
        all(true[c] for c in range(model.n_clauses) if not soft[c])
        and all(n == 1 if e else n <= 1 for n, e in zip(counts, model.exactly, strict=True))
    )


@given(problems())
def test_generated_models_are_valid(problem: Problem):
    validate(problem.model)


def test_a_model_without_atoms_has_one_state_and_an_empty_hard_clause_forbids_it():
    (empty, _), (forbidden, _) = clause_model(0, []), clause_model(0, [(None, [])])
    state = np.zeros(0, np.uint8)

    assert empty.score(state, np.zeros(0)) == 0.0
    assert empty.feasible(state)
    assert not forbidden.feasible(state)


VALID, _ = clause_model(2, [(1.0, [1, -2]), (None, [2])], [(True, [0, 1])])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (clause_model(2, [(1.0, [3])])[0], "a literal names no atom"),
        (clause_model(2, [(1.0, [0])])[0], "a literal names no atom"),
        (clause_model(2, [(1.0, [1, 1])])[0], "a clause has an atom twice"),
        (clause_model(2, [(1.0, [1, -1])])[0], "a clause has an atom twice"),
        (clause_model(2, [(1.0, [])])[0], "a soft clause has no literal"),
        (clause_model(2, [], [(True, [])])[0], "each with an atom"),
        (replace(VALID, exactly=np.zeros(0, np.bool_)), "each with an atom"),
        (replace(VALID, group=np.array([-2, 0], np.int32)), "a group number is below -1"),
        (replace(VALID, group=np.zeros(2, np.int64)), r"group is int64\[2\], expected int32\[2\]"),
        (replace(VALID, n_atoms=3), r"group is int32\[2\], expected int32\[3\]"),
        (replace(VALID, hard=np.ones(2)), r"hard is float64\[2\], expected bool\[2\]"),
        (replace(VALID, start=np.array([0, 4, 3])), "start must rise from 0"),
    ],
)
def test_validate_says_what_is_wrong(broken, message):
    validate(VALID)
    with pytest.raises(ValueError, match=message):
        validate(broken)
