"""Hinge-loss models for the tests: random ones, friendship and smokers, and cases of PSL's data."""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from hypothesis import strategies as st

from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.ground.hinge_loss_mrf import (
    AT_MOST,
    EQUAL,
    HARD,
    HINGE,
    PLAIN,
    HingeLossMRF,
    validate,
)
from onlinesrl.psl.lang.model import load_json
from tests.support.paths import SHARED

PSL = SHARED / "peers" / "psl"


@dataclass
class Rows:
    """Rows collected block by block: all rows of a block have as many variables as each other."""

    lengths: list = field(default_factory=list)
    variable: list = field(default_factory=list)
    coefficient: list = field(default_factory=list)
    constant: list = field(default_factory=list)
    weight_index: list = field(default_factory=list)
    power: list = field(default_factory=list)
    kind: list = field(default_factory=list)

    def add(self, weight, variables, coefficients, constant=0.0, power=1, kind=HINGE):
        """Add a row per row of ``variables`` [rows, k]."""
        variables = np.atleast_2d(variables)
        rows, k = variables.shape
        self.lengths.append(np.full(rows, k))
        self.variable.append(variables.ravel())
        self.coefficient.append(np.broadcast_to(coefficients, (rows, k)).ravel())
        self.constant.append(np.broadcast_to(constant, rows))
        for values, value in ((self.weight_index, weight), (self.power, power), (self.kind, kind)):
            values.append(np.full(rows, value))

    def model(self, n_variables) -> HingeLossMRF:
        def joined(blocks, kind):
            return np.concatenate([*blocks, []]).astype(kind)

        lengths = joined(self.lengths, np.int64)
        model = HingeLossMRF(
            n_variables=n_variables,
            start=np.concatenate(([0], np.cumsum(lengths))),
            variable=joined(self.variable, np.int32),
            coefficient=joined(self.coefficient, np.float64),
            constant=joined(self.constant, np.float64),
            weight_index=joined(self.weight_index, np.int64),
            power=joined(self.power, np.uint8),
            kind=joined(self.kind, np.uint8),
        )
        validate(model)
        return model


def model_of(n_variables, *rows) -> HingeLossMRF:
    """A model of rows, each as the arguments of ``Rows.add``."""
    collected = Rows()
    for row in rows:
        collected.add(*row)
    return collected.model(n_variables)


def friendship(block, similar, power=2):
    """The rules of PSL's friendship example; ``block`` int[people], ``similar`` float[people, people].

    Variables are the ordered pairs of different people. Weights (10, 10, 10, 1)/10.
    """
    n = len(block)
    number = np.full((n, n), -1)
    number[~np.eye(n, dtype=bool)] = np.arange(n * (n - 1))
    same = (block[:, None] == block[None, :]) & ~np.eye(n, dtype=bool)
    a, b = np.nonzero(same)
    rows = Rows()
    held = similar[a, b] > 0
    rows.add(0, number[a, b][held][:, None], -1, similar[a, b][held], power)
    triples = [np.nonzero(same[i][:, None] & same & same[i][None, :]) for i in range(n)]
    i = np.repeat(np.arange(n), [len(j) for j, _ in triples])
    j, k = np.concatenate([t[0] for t in triples]), np.concatenate([t[1] for t in triples])
    forms = np.stack((number[i, j], number[j, k], number[i, k]), axis=1)
    rows.add(1, forms, [1, 1, -1], -1, power)
    rows.add(2, np.stack((number[a, b], number[b, a]), axis=1), [1, -1], 0, power)
    rows.add(3, np.arange(n * (n - 1))[:, None], 1, 0, power)
    return rows.model(n * (n - 1)), np.array([1.0, 1.0, 1.0, 0.1])


def smokers(friend, observed, power=2):
    """Friends smoke alike; ``friend`` int[pairs, 2], ``observed`` float[people], nan: a variable."""
    free = np.isnan(observed)
    number = np.cumsum(free) - 1
    rows = Rows()
    a, b = friend.T
    truth = np.nan_to_num(observed)
    for weight, sign in ((0, 1.0), (1, -1.0)):  # sign * (y_a - y_b)
        both = free[a] & free[b]
        rows.add(weight, np.stack((number[a], number[b]), 1)[both], [sign, -sign], 0, power)
        head = ~free[a] & free[b] & (sign * truth[a] > (0 if sign > 0 else -1))
        rows.add(weight, number[b][head][:, None], -sign, sign * truth[a][head], power)
        body = free[a] & ~free[b] & (sign * (1 - truth[b]) > (0 if sign > 0 else -1))
        rows.add(weight, number[a][body][:, None], sign, -sign * truth[b][body], power)
    return rows.model(int(free.sum())), np.ones(2)


def alike(people, power=1, seed=0):
    """1: Sim(A, B) & T(A) -> T(B), 1: L(A) -> T(A), 0.5: !T(A), of random similarities of all pairs."""
    random = np.random.default_rng(seed)
    a, b = np.nonzero(~np.eye(people, dtype=bool))
    each, rows = np.arange(people)[:, None], Rows()
    rows.add(0, np.stack((a, b), 1), [1, -1], random.random(len(a)) - 1, power)
    rows.add(1, each, -1, random.random(people), power)
    rows.add(2, each, 1, 0, power)
    return rows.model(people), np.array([1.0, 1.0, 0.5])


@cache
def psl_case(name):
    """Ground one of the peers' cases; its weights are divided by the largest, as PSL does."""
    model = load_json(PSL / "cases" / name / "config.json")
    weights = np.array([rule.weight or 0.0 for rule in model.program.rules])
    ground_model = Grounder(model.program).ground(model.database())
    return ground_model, weights / weights.max()


@st.composite
def hinge_problems(draw, squares_only=False, constraints=True):
    """Return a small feasible model, its weights, and a bonus or None."""
    n = draw(st.integers(1, 6))
    inside = np.array(
        draw(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=n, max_size=n))
    )
    rows = Rows()
    numbers = st.sampled_from([-2.0, -1.0, -0.5, 0.5, 1.0, 3.0])
    kinds = [HINGE, PLAIN, AT_MOST, EQUAL] if constraints else [HINGE, PLAIN]
    for _ in range(draw(st.integers(1, 12))):
        k = draw(st.integers(0, min(3, n)))
        variables = np.array(draw(st.permutations(range(n)))[:k], int)
        q = np.array(draw(st.lists(numbers, min_size=k, max_size=k)))
        kind = draw(st.sampled_from(kinds))
        if kind in (AT_MOST, EQUAL):
            slack = draw(st.sampled_from([0.0, 0.5])) if kind == AT_MOST else 0.0
            rows.add(HARD, variables[None], q, -q @ inside[variables] - slack, 1, kind)
        else:
            power = 2 if squares_only else draw(st.sampled_from([1, 2]))
            constant = draw(st.sampled_from([-1.5, -0.5, 0.0, 0.3, 1.0]))
            rows.add(draw(st.integers(0, 2)), variables[None], q, constant, power, kind)
    weights = np.array(
        draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 7.0]), min_size=3, max_size=3))
    )
    bonus = draw(st.none() | st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=n, max_size=n))
    return rows.model(n), weights, None if bonus is None else np.array(bonus)
