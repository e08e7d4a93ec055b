from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.ground.model import validate
from tests.infer.models import Problem, clause_model, problems


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
    soft = model.weight_index >= 0
    counts = [int(state[model.group == g].sum()) for g in range(len(model.exactly))]

    assert model.satisfied(state).tolist() == true
    assert model.score(state, problem.weights) == pytest.approx(
        sum(
            model.sign[c] * problem.weights[model.weight_index[c]]
            for c in range(model.n_clauses)
            if soft[c] and true[c]
        ),
        abs=1e-12,
    )
    assert model.feasible(state) == (
        all(true[c] for c in range(model.n_clauses) if not soft[c])
        and all(n == 1 if e else n <= 1 for n, e in zip(counts, model.exactly, strict=True))
    )


@given(problems_with_state())
def test_the_score_is_the_weights_times_the_features(case):
    problem, state = case
    indices, values = problem.model.features(state)

    assert indices.dtype == np.int64
    assert values.dtype == np.float64
    assert np.all(np.diff(indices) > 0)
    assert np.all(indices >= 0)
    assert np.all(values != 0)
    assert problem.weights[indices] @ values == pytest.approx(
        problem.model.score(state, problem.weights), abs=1e-12
    )


@given(problems())
def test_generated_models_are_valid(problem: Problem):
    validate(problem.model)


def test_features_that_cancel_are_left_out():
    model = clause_model(2, [(3, 1.0, [1]), (3, -1.0, [2]), (5, 2.0, [1]), (-1, 1.0, [1])])

    indices, values = model.features(np.array([1, 1], np.uint8))

    assert (indices.tolist(), values.tolist()) == ([5], [2.0])


def test_a_model_without_atoms_has_one_state_and_an_empty_hard_clause_forbids_it():
    empty, forbidden = clause_model(0, []), clause_model(0, [(-1, 1.0, [])])
    state = np.zeros(0, np.uint8)

    assert empty.score(state, np.zeros(0)) == 0.0
    assert empty.feasible(state)
    assert not forbidden.feasible(state)


VALID = clause_model(2, [(0, 1.0, [1, -2]), (-1, 1.0, [2])], [(True, [0, 1])])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (clause_model(2, [(0, 1.0, [3])]), "a literal names no atom"),
        (clause_model(2, [(0, 1.0, [0])]), "a literal names no atom"),
        (clause_model(2, [(0, 1.0, [1, 1])]), "a clause has an atom twice"),
        (clause_model(2, [(0, 1.0, [1, -1])]), "a clause has an atom twice"),
        (clause_model(2, [(0, 1.0, [])]), "a soft clause has no literal"),
        (clause_model(2, [(-2, 1.0, [1])]), "a weight index is below -1"),
        (clause_model(2, [(0, np.nan, [1])]), "a sign is not finite"),
        (clause_model(2, [], [(True, [])]), "each with an atom"),
        (replace(VALID, exactly=np.zeros(0, np.bool_)), "each with an atom"),
        (replace(VALID, group=np.array([-2, 0], np.int32)), "a group number is below -1"),
        (replace(VALID, group=np.zeros(2, np.int64)), r"group is int64\[2\], expected int32\[2\]"),
        (replace(VALID, n_atoms=3), r"group is int32\[2\], expected int32\[3\]"),
        (replace(VALID, sign=np.ones(1)), r"sign is float64\[1\], expected float64\[2\]"),
        (replace(VALID, start=np.array([0, 4, 3])), "start must rise from 0"),
    ],
)
def test_validate_says_what_is_wrong(broken, message):
    validate(VALID)
    with pytest.raises(ValueError, match=message):
        validate(broken)
