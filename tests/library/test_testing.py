"""The contract checks see what an engine does wrong."""

from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.protocols import Marginals, Solution
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.testing import (
    check_hinge_engine,
    check_map_engine,
    check_marginal_engine,
    marginals_by_enumeration,
)
from tests.support.ground_mrfs import clause_model
from tests.support.hinge_models import Rows

MODEL, WEIGHTS = clause_model(3, [(1.5, [1, 2]), (-1.5, [3]), (None, [-2])], [(True, [0, 2])])
IMPOSSIBLE = clause_model(1, [(None, [1]), (None, [-1])])


@dataclass
class Liar:
    """Right but for some fields of its answer."""

    fields: dict[str, Any]

    def solve(self, model, weights, *, bonus=None) -> Solution:
        return replace(Brute().solve(model, weights, bonus=bonus), **self.fields)

    def marginals(self, model, weights) -> Marginals:
        return replace(marginals_by_enumeration(model, weights), **self.fields)


class Fickle:
    """Another answer every time; none at all where it says so."""

    def __init__(self) -> None:
        self.calls = count()

    def solve(self, model, weights, *, bonus=None) -> Solution:
        state = np.array([next(self.calls) % 2 == 0, 0, 0], np.uint8)
        state[2] = 1 - state[0]
        score = model.score(state, weights)
        return Solution(state, score, np.inf, "fickle", certified=False)

    def marginals(self, model, weights) -> Marginals:
        share = 0.5 + 0.1 * (next(self.calls) % 2)
        return Marginals(np.array([share, 0.0, 1 - share]), None, "fickle", 1)


class Refusing:
    def solve(self, model, weights, *, bonus=None) -> Solution:
        raise Infeasible("no")

    def marginals(self, model, weights) -> Marginals:
        raise Infeasible("no")


class Careless:
    def solve(self, model, weights, *, bonus=None) -> Solution:
        return Solution(np.zeros(model.n_atoms, np.uint8), 0.0, 0.0, "careless", certified=False)

    def marginals(self, model, weights) -> Marginals:
        return Marginals(np.zeros(model.n_atoms), None, "careless", 0)


def test_the_truth_passes():
    check_map_engine(Liar({}), MODEL, WEIGHTS)
    check_marginal_engine(Liar({}), MODEL, WEIGHTS, within=0.0)
    check_map_engine(Liar({}), *IMPOSSIBLE)
    check_marginal_engine(Liar({}), *IMPOSSIBLE)


@pytest.mark.parametrize(
    ("engine", "complaint"),
    [
        (Liar({"score": 9.0}), "is not the state's"),
        (Liar({"bound": 0.0}), "below the optimum"),
        (Liar({"state": np.array([1, 1, 0], np.uint8)}), "not feasible"),
        (Liar({"state": np.array([1, 0, 0])}), "not uint8"),
        (Liar({"state": np.array([0, 0, 1], np.uint8), "score": -1.5}), "certified"),
        (Fickle(), "a second call"),
        (Refusing(), "Infeasible"),
        (Careless(), "not feasible"),
    ],
)
def test_a_map_engine_that_is_wrong(engine, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_map_engine(engine, MODEL, WEIGHTS)


@pytest.mark.parametrize(
    ("engine", "complaint"),
    [
        (Liar({"probability": np.array([1.1, 0.0, -0.1])}), r"not in \[0, 1\]"),
        (Liar({"probability": np.array([0.9, 0.0, 0.9])}), "more than 1"),
        (Liar({"probability": np.array([0.1, 0.0, 0.1])}), "less than 1"),
        (Liar({"probability": np.array([0.5, 0.5, 0.5])}), "always false"),
        (Liar({"probability": np.array([0.5, 0.0, 0.5])}), "from the exact one"),
        (Liar({"probability": np.array([0.5, 0.5])}), "one float64 per atom"),
        (Liar({"log_z": 0.0}), "log Z"),
        (Fickle(), "a second call"),
        (Refusing(), "Infeasible"),
    ],
)
def test_a_marginal_engine_that_is_wrong(engine, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_marginal_engine(engine, MODEL, WEIGHTS, within=0.01)


def test_answers_to_the_impossible():
    with pytest.raises(AssertionError, match="answers an infeasible problem"):
        check_map_engine(Careless(), *IMPOSSIBLE)
    with pytest.raises(AssertionError, match="answers an infeasible problem"):
        check_marginal_engine(Careless(), *IMPOSSIBLE)


class Wrong:
    """ADMM, but for what ``changes`` say of its answer."""

    def __init__(self, **changes):
        self.changes = changes

    def solve(self, model, weights, *, bonus=None, start=None):
        return replace(Admm().solve(model, weights, bonus=bonus), **self.changes)


ONE_HALF = np.array([0.5])


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"y": np.array([1.5])}, "not in"),
        ({"y": np.zeros(2)}, "one float64 per variable"),
        ({"energy": 7.0}, "the energy is"),
        ({"violation": 0.5}, "the violation is"),
        ({"bound": 7.0}, "not the dual's"),
        ({"y": ONE_HALF, "energy": 0.25}, "not optimal"),
        ({"y": ONE_HALF, "energy": 0.25, "certified": False}, "from the least"),
    ],
)
def test_a_relaxed_engine_that_is_wrong(changes, complaint):
    rows = Rows()
    rows.add(0, [[0]], 1, 0.0, 2)
    with pytest.raises(AssertionError, match=complaint):
        check_hinge_engine(Wrong(**changes), rows.model(1), np.ones(1), within=1e-3)
