"""Answers that follow rows which come and go: as good as those from a cold start, with the same proof."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground.hinge_loss_mrf import (
    AT_MOST,
    EQUAL,
    HARD,
    HINGE,
    PLAIN,
    HingeLossMRF,
    validate,
)
from onlinesrl.psl.inference import incremental_admm
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.dual import lower_bound
from onlinesrl.psl.inference.incremental_admm import IncrementalAdmm

WEIGHTS = np.array([1.0, 0.3, 5.0])


class HingeRow(NamedTuple):
    """A row: its variables by name, and the other columns of ``HingeLossMRF``."""

    variables: tuple
    coefficients: np.ndarray
    constant: float
    weight_index: int
    power: int
    kind: int


class Named(IncrementalAdmm):
    """Rows and variables have names; the number of one that went is the next to be used."""

    def __init__(self, weights):
        super().__init__(weights)
        self.row, self.variable = {}, {}

    @staticmethod
    def numbered(numbers, names):
        for name in names:
            if name not in numbers:
                numbers[name] = min({*range(len(numbers) + 1)} - {*numbers.values()})
        return np.array([numbers[name] for name in names], np.int64)

    def value(self, name):
        return float(self.values[self.variable[name]])

    def change(self, rows, added=(), removed=()):
        before = dict(self.row), dict(self.variable)
        new = {name: row for name, row in rows.items() if row is not None}
        lost = [self.row[name] for name in rows if rows[name] is None and name in self.row]
        gone = np.array(lost, np.int64)
        less = np.array([self.variable[name] for name in removed], np.int64)
        more = self.numbered(self.variable, added)
        columns = [*zip(*new.values(), strict=True)] or [()] * 6
        model = HingeLossMRF(
            0,
            np.cumsum([0, *map(len, columns[0])], dtype=np.int64),
            self.numbered(self.variable, [v for row in columns[0] for v in row]).astype(np.int32),
            np.concatenate([np.empty(0), *columns[1]]),
            np.array(columns[2], float),
            np.array(columns[3], np.int64),
            np.array(columns[4], np.uint8),
            np.array(columns[5], np.uint8),
        )
        try:
            moved = self.step(self.numbered(self.row, [*new]), model, gone, more, less)
        except Infeasible:
            self.row, self.variable = before
            raise
        names = {number: name for name, number in self.variable.items()}
        self.row = {n: k for n, k in self.row.items() if rows.get(n, 0) is not None}
        self.variable = {n: k for n, k in self.variable.items() if n not in removed}
        return {names[k] for k in moved.tolist()}


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
    variables = np.sort(np.array([*incremental.variable.values()], np.int64))
    _, model, solution = incremental.around(variables)
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
    incremental, present, variables = Named(WEIGHTS), {}, []
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
        moved = incremental.change(changed, added, gone)
        check(incremental)
        assert {*added, *gone} <= moved
        for name, old in before.items():
            assert (incremental.value(name) != old) == (name in moved)


def chain(n, incremental):
    """A long chain of likes: the first is 1, and each next at least the last, which costs its own value."""
    names = list(range(n))
    rows = {("prior", j): HingeRow((j,), np.ones(1), 0.0, 1, 2, HINGE) for j in names}
    pair = np.array([1.0, -1.0])
    rows |= {("link", j): HingeRow((j, j + 1), pair, 0.0, 0, 2, HINGE) for j in names[:-1]}
    incremental.change(rows, names)


def test_a_change_in_a_chain_is_solved_near_it():
    incremental = Named(WEIGHTS)
    chain(1_000, incremental)
    fact = HingeRow((500,), -np.ones(1), 1.0, 2, 2, HINGE)
    moved = incremental.change({"fact": fact})
    assert 5 < len(moved) < 200
    assert incremental.largest_part < 200
    check(incremental)
    moved = incremental.change({"fact": None})
    assert incremental.largest_part < 200
    check(incremental)
    assert incremental.value(500) < 1e-3


def test_where_the_energy_is_smooth_descent_needs_no_admm(monkeypatch):
    """Every variable has a prior, so that single variables decide most of their energy."""
    rng, incremental, names = np.random.default_rng(0), Named(WEIGHTS), range(300)

    def row(variables):
        signs = rng.choice([-1.0, 1.0, 0.5], len(variables))
        kind, at = rng.choice([HINGE, PLAIN]), rng.uniform(-1.0, 1.0)
        return HingeRow(variables, signs, at, int(rng.integers(2)), 2, kind)

    rows = {("prior", n): HingeRow((n,), np.ones(1), -rng.random(), 2, 2, PLAIN) for n in names}
    pairs = [tuple(rng.choice(300, 2, replace=False).tolist()) for _ in range(600)]
    incremental.change(rows | {("pair", k): row(pair) for k, pair in enumerate(pairs)}, names)
    monkeypatch.setattr(incremental_admm, "Admm", None)
    for count in (1, 10, 50) * 5:
        chosen = rng.choice(600, count, replace=False).tolist()
        moved = incremental.change({("pair", k): row(pairs[k]) for k in chosen})
        assert len(moved) >= count / 4
    check(incremental)


def test_a_step_without_a_solution_changes_nothing():
    incremental = Named(WEIGHTS)
    chain(50, incremental)
    pull = HingeRow((7,), -np.ones(1), 1.0, 2, 1, HINGE)
    incremental.change(
        {"pull": pull, "at most": HingeRow((9,), np.ones(1), -0.2, HARD, 1, AT_MOST)}
    )
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
        incremental.change(changes, ["new"], [49])
    assert {n: incremental.value(n) for n in range(50)} == before[0]
    assert incremental.certificate == pytest.approx(before[1], abs=1e-12)
    check(incremental)
    changes["at most"] = None
    incremental.change(changes, ["new"], [49])
    check(incremental)
    assert incremental.value(9) == pytest.approx(0.9, abs=1e-4)
