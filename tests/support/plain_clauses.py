"""What the kernels over ``Clauses`` compute, in plain numpy, and small models laid out for them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.ground_mrf import State
from onlinesrl.mln.inference.presolve import Reduced, reduced
from onlinesrl.mln.kernels import maxwalksat
from onlinesrl.mln.kernels.clauses import Clauses
from tests.support.ground_mrfs import defined_problems, problems


@st.composite
def layouts(draw: st.DrawFn, max_atoms: int = 7) -> Reduced:
    """Reduced problems: the hard part may still be infeasible, but not by propagation alone."""
    problem = draw(problems(max_atoms) | defined_problems(max_atoms - 3))
    try:
        return reduced(problem.model, problem.weights, problem.bonus)
    except Infeasible:
        reject()


def true_counts(cl: Clauses, state: State) -> np.ndarray:
    """The number of true literals of each clause."""
    true = state[cl.literal >> 1] != (cl.literal & 1)
    return np.array([true[i:j].sum() for i, j in itertools.pairwise(cl.start)], np.int64)


def score(cl: Clauses, state: State, weight: np.ndarray | None = None) -> float:
    weight = cl.weight if weight is None else weight
    return float(weight[true_counts(cl, state) > 0].sum())


def broken(cl: Clauses, state: State, weight: np.ndarray | None = None) -> set[int]:
    weight = cl.weight if weight is None else weight
    true = true_counts(cl, state) > 0
    return set(np.flatnonzero(((weight > 0) & ~true) | ((weight < 0) & true)).tolist())


def in_groups(cl: Clauses, state: State) -> bool:
    count = np.bincount(cl.var_of, state, minlength=len(cl.exactly))
    return bool(np.all(count <= 1) and np.all(count[cl.exactly == 1] == 1))


def feasible(cl: Clauses, state: State) -> bool:
    return in_groups(cl, state) and bool(np.all(true_counts(cl, state)[: cl.hard] > 0))


def as_defined(cl: Clauses, state: State) -> bool:
    """Tell whether the defined atoms have the values that follow from the others."""
    return bool(np.all(true_counts(cl, state)[: cl.defining] > 0))


def states(cl: Clauses) -> list[State]:
    """All states that satisfy the groups and the definitions."""
    every = (np.array(x, np.uint8) for x in itertools.product((0, 1), repeat=len(cl.var_of)))
    return [s for s in every if in_groups(cl, s) and as_defined(cl, s)]


def check_true(cl: Clauses, s: maxwalksat.Search) -> None:
    """The counts of true literals are what counting from nothing gives; samplers keep no more."""
    assert s.n_true.tolist() == true_counts(cl, s.state).tolist()


def check_counts(cl: Clauses, s: maxwalksat.Search) -> None:
    """What the search memory holds is what counting from nothing gives."""
    lists = [*s.broken[: s.size[0]], *s.broken[cl.hard : cl.hard + s.size[1]]]
    check_true(cl, s)
    assert len(lists) == len(set(lists))
    assert set(lists) == broken(cl, s.state, s.weight)
    assert all(c < cl.hard for c in s.broken[: s.size[0]])
