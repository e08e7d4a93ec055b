"""Answers that follow rows which come and go: as good as those from a cold start, with the same proof."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HARD, HINGE, PLAIN, validate
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.dual import lower_bound
from onlinesrl.psl.inference.incremental_admm import HingeRow, IncrementalAdmm

WEIGHTS = np.array([1.0, 0.3, 5.0])


@st.composite
def rows(draw, variables):
    kind = draw(st.sampled_from([HINGE, HINGE, HINGE, PLAIN, AT_MOST, EQUAL]))
    names = draw(st.lists(st.sampled_from(variables), min_size=1, max_size=3, unique=True))
    numbers = st.sampled_from([-1.0, 1.0, 0.5, -2.0])
    coefficients = np.array([draw(numbers) for _ in names])
    if kind >= AT_MOST:  # 1/2 everywhere satisfies it, and so do others
        constant = -0.5 * coefficients.sum()
        return HingeRow(tuple(names), coefficients, constant, HARD, 1, kind)
    weight_index = draw(st.integers(0, len(WEIGHTS) - 1))
    constant = draw(st.sampled_from([-1.0, -0.3, 0.0, 0.5, 1.0]))
    return HingeRow(
        tuple(names), coefficients, constant, weight_index, draw(st.sampled_from([1, 2])), kind
    )


def check(incremental):
    """The answer has the least energy, and its certificate is what the whole model says."""
    _, model, solution = incremental.whole()
    validate(model)
    cold = Admm().solve(model, WEIGHTS)
    scale = max(1.0, abs(cold.energy))
    assert solution.certified
    assert solution.energy == pytest.approx(model.energy(solution.y, WEIGHTS), abs=1e-9 * scale)
    assert solution.violation == pytest.approx(model.violation(solution.y), abs=1e-9)
    bound = lower_bound(model, WEIGHTS, solution.dual)
    slack = float(np.abs(solution.dual * model.forms(solution.y))[model.kind >= AT_MOST].sum())
    gap = solution.energy - solution.bound
    assert gap == pytest.approx(solution.energy + slack - bound, abs=1e-9 * scale)
    assert (
        abs(solution.energy - cold.energy)
        <= 1e-4 * scale + 1e-3 * np.abs(solution.dual).sum() * 0.1
    )


@given(st.data())
def test_after_every_step_the_answer_of_a_cold_start(data):
    incremental, present, variables = IncrementalAdmm(WEIGHTS), {}, []
    for step in range(6):
        added = [(step, n) for n in range(data.draw(st.integers(0 if variables else 1, 3)))]
        gone = (
            data.draw(st.lists(st.sampled_from(variables), max_size=2, unique=True))
            if variables
            else []
        )
        variables = [name for name in variables if name not in gone] + added
        changed = {name: None for name, row in present.items() if {*row.variables} & {*gone}}
        names = st.lists(st.sampled_from(range(12)), max_size=4, unique=True)
        for name in data.draw(names) if variables else ():
            keeps = data.draw(st.booleans())
            changed[name] = data.draw(rows(variables)) if keeps else None
        present = {name: row for name, row in (present | changed).items() if row}
        before = {name: incremental.value(name) for name in variables if name not in added}
        moved = incremental.step(changed, added, gone)
        check(incremental)
        assert {*added, *gone} <= moved.keys()
        for name, (old, new) in moved.items():
            assert name in gone or incremental.value(name) == new
            assert name not in before or before[name] == old
        assert all(
            incremental.value(name) == old for name, old in before.items() if name not in moved
        )


def chain(n, incremental):
    """A long chain of likes: the first is 1, and each next at least the last, which costs its own value."""
    names = list(range(n))
    rows = {("prior", j): HingeRow((j,), np.ones(1), 0.0, 1, 2, HINGE) for j in names}
    pair = np.array([1.0, -1.0])
    rows |= {("link", j): HingeRow((j, j + 1), pair, 0.0, 0, 2, HINGE) for j in names[:-1]}
    incremental.step(rows, names)


def test_a_change_in_a_chain_is_solved_near_it():
    incremental = IncrementalAdmm(WEIGHTS)
    chain(5_000, incremental)
    fact = HingeRow((2_500,), -np.ones(1), 1.0, 2, 2, HINGE)
    moved = incremental.step({"fact": fact})
    assert 5 < len(moved) < 200
    assert incremental.largest_part < 200
    check(incremental)
    moved = incremental.step({"fact": None})
    assert incremental.largest_part < 200
    check(incremental)
    assert incremental.value(2_500) < 1e-3


def test_a_step_without_a_solution_changes_nothing():
    incremental = IncrementalAdmm(WEIGHTS)
    chain(50, incremental)
    pull = HingeRow((7,), -np.ones(1), 1.0, 2, 1, HINGE)
    incremental.step({"pull": pull, "at most": HingeRow((9,), np.ones(1), -0.2, HARD, 1, AT_MOST)})
    before = {n: incremental.value(n) for n in range(50)}, incremental.certificate
    changes = {
        "pull": None,
        ("prior", 3): HingeRow((3,), np.ones(1), 0.5, 0, 1, HINGE),
        ("prior", 49): None,
        ("link", 48): None,
        "new": HingeRow(("new", 8), np.ones(2), -1.0, 0, 2, HINGE),
        "equal": HingeRow((9,), np.ones(1), -0.9, HARD, 1, EQUAL),
    }
    with pytest.raises(Infeasible):
        incremental.step(changes, ["new"], [49])
    assert {n: incremental.value(n) for n in range(50)} == before[0]
    assert incremental.certificate == pytest.approx(before[1], abs=1e-12)
    check(incremental)
    changes["at most"] = None
    incremental.step(changes, ["new"], [49])
    check(incremental)
    assert incremental.value(9) == pytest.approx(0.9, abs=1e-4)
