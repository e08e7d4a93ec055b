"""Small random ground models for every engine's tests, and the recorded MPE instances."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import strategies as st

from onlinesrl.mln.ground.ground_mrf import Floats, GroundMRF
from onlinesrl.mln.inference.branch_and_bound import Search
from onlinesrl.mln.inference.protocols import Solution
from tests.support.paths import SHARED

INSTANCES = SHARED / "data" / "mpe_instances"


Clause = tuple[float | None, Sequence[int]]
"""Its weight, None for a hard one, and its literals."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What a MAP engine is asked: a model, the weights of its clauses, and a bonus or none."""

    model: GroundMRF
    weights: Floats
    bonus: Floats | None = None


def clause_model(
    n_atoms: int, clauses: Sequence[Clause], groups: Sequence[tuple[bool, Sequence[int]]] = ()
) -> tuple[GroundMRF, Floats]:
    """A model with the weights of its clauses, from these and groups ``(exactly, atoms)``."""
    group = np.full(n_atoms, -1, np.int32)
    for number, (_, atoms) in enumerate(groups):
        group[list(atoms)] = number
    model = GroundMRF(
        n_atoms=n_atoms,
        start=np.cumsum([0, *(len(literals) for _, literals in clauses)], dtype=np.int64),
        literals=np.array([x for _, literals in clauses for x in literals], np.int32),
        hard=np.array([weight is None for weight, _ in clauses], np.bool_),
        group=group,
        exactly=np.array([exactly for exactly, _ in groups], np.bool_),
    )
    return model, np.array([weight or 0.0 for weight, _ in clauses], np.float64)


def clique(n: int, seed: int = 0) -> Problem:
    """A frustrated clique: every pair of its atoms has a clause."""
    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in range(1, n + 1) for b in range(1, a)]
    weights = rng.normal(size=len(pairs))
    return Problem(
        *clause_model(n, [(w, [a, -b]) for w, (a, b) in zip(weights, pairs, strict=True)])
    )


def spins(n: int, seed: int) -> Problem:
    """An n x n grid, atoms by rows, whose neighbours like to be equal or opposite, in weaker fields."""
    rng, clauses = np.random.default_rng(seed), list[Clause]()
    for a in range(1, n * n + 1):
        clauses.append((rng.normal(0, 0.5), [a]))
        for b in [a + 1] * (a % n > 0) + [a + n] * (a + n <= n * n):
            weight = rng.normal()
            clauses += [(weight, [-a, b]), (weight, [a, -b])]
    return Problem(*clause_model(n * n, clauses))


def transitive(n: int, seed: int, hard: bool = True) -> Problem:
    """Which of ``n`` records are the same, of similarities of any sign, all pairs in both directions."""
    rng = np.random.default_rng(seed)
    number = {pair: k for k, pair in enumerate(permutations(range(n), 2), start=1)}
    rows = [
        (float(w), [a]) for a, w in zip(number.values(), rng.normal(size=len(number)), strict=True)
    ]
    rows += [
        (None if hard else 0.5, [-number[x, y], -number[y, z], number[x, z]])
        for x, y, z in permutations(range(n), 3)
    ]
    return Problem(*clause_model(len(number), rows))


def listed(problem: Problem) -> tuple[list[Clause], list[tuple[bool, list[int]]]]:
    """The clauses and groups that ``clause_model`` makes a problem's model of."""
    model = problem.model
    weights = [None if h else w for h, w in zip(model.hard, problem.weights.tolist(), strict=True)]
    rows = [model.literals[i:j].tolist() for i, j in pairwise(model.start)]
    groups = [
        (bool(e), np.flatnonzero(model.group == g).tolist()) for g, e in enumerate(model.exactly)
    ]
    return list(zip(weights, rows, strict=True)), groups


N_WEIGHTS = 6
ROUND = st.integers(-4, 4).map(lambda n: n / 2)
"""Weights that tie and cancel."""
REAL = st.floats(-10, 10, allow_subnormal=False).map(lambda x: round(x, 4))
"""Weights that tie or differ by what can be seen."""


@st.composite
def problems(draw: st.DrawFn, max_atoms: int = 8) -> Problem:
    """Soft and hard clauses, some of equal or opposite weights, and atoms in groups of both kinds or in none.

    The hard part may be infeasible. Half of the problems have round weights, so that optima tie.
    """
    n_atoms = draw(st.integers(0, max_atoms))
    clauses = draw(st.lists(_clauses(n_atoms), max_size=14)) if n_atoms else []
    number = st.one_of(st.just(ROUND), st.just(REAL)).flatmap(
        lambda kind: st.tuples(
            st.lists(kind, min_size=N_WEIGHTS, max_size=N_WEIGHTS),
            st.none() | st.lists(kind, min_size=n_atoms, max_size=n_atoms),
        )
    )
    weights, bonus = draw(number)
    weighted = [(None if k < 0 else sign * weights[k], x) for k, sign, x in clauses]
    return Problem(
        *clause_model(n_atoms, weighted, draw(_groups(n_atoms))),
        None if bonus is None else np.array(bonus, np.float64),
    )


@st.composite
def defined_problems(draw: st.DrawFn, max_atoms: int = 6) -> Problem:
    """Problems whose last atoms hard clauses define as conjunctions of others, some of these defined."""
    base = draw(problems(max_atoms))
    clauses, groups = listed(base)
    n = base.model.n_atoms
    more = draw(st.integers(1, 3)) if n > 1 else 0
    for atom in range(n + 1, n + 1 + more):
        output = draw(st.sampled_from([atom, -atom]))
        inputs = draw(st.lists(st.integers(1, atom - 1), min_size=2, max_size=3, unique=True))
        inputs = [draw(st.sampled_from([x, -x])) for x in inputs]
        clauses.append((None, [output, *(-x for x in inputs)]))
        clauses += [(None, [-output, x]) for x in inputs]
        other = draw(st.sampled_from([[], [draw(st.integers(1, atom - 1))]]))
        clauses.append((draw(ROUND | REAL), [atom, *other]))
    return Problem(*clause_model(n + more, clauses, groups))


def _clauses(n_atoms: int) -> st.SearchStrategy[tuple[int, float, list[int]]]:
    """The number of a weight, -1 in one of four: hard; a factor of it; one to four literals."""
    index = st.integers(-2, N_WEIGHTS - 1).map(lambda k: max(k, -1))
    sign = st.sampled_from([1.0, 1.0, -1.0, -1.0, 2.0, -0.5])
    literal = st.tuples(st.integers(1, n_atoms), st.booleans())
    literals = st.lists(literal, min_size=1, max_size=4, unique_by=lambda x: x[0]).map(
        lambda chosen: [atom if positive else -atom for atom, positive in chosen]
    )
    return st.tuples(index, sign, literals)


@st.composite
def _groups(draw: st.DrawFn, n_atoms: int) -> list[tuple[bool, list[int]]]:
    """Up to three groups of one or more atoms, in any order."""
    membership = draw(st.lists(st.integers(-1, 2), min_size=n_atoms, max_size=n_atoms))
    members = [[a for a in range(n_atoms) if membership[a] == g] for g in range(3)]
    return [(draw(st.booleans()), atoms) for atoms in members if atoms]


@dataclass(frozen=True, eq=False)
class Instance:
    """A recorded problem: ``loss`` is the Hamming loss as a bonus, up to ``n_true``."""

    model: GroundMRF
    weights: Floats
    loss: Floats
    n_true: int
    optimum: float
    optimum_loss_augmented: float


def instance(name: str) -> Instance:
    """A recorded instance by name; skips the test where the data is not at hand."""
    path = INSTANCES / f"{name}.json"
    if not path.exists():
        pytest.skip(f"the recorded MPE instances are not here: no {INSTANCES}")
    data = json.loads(path.read_text())
    truth = np.array(data["truth"])
    groups = [(True, atoms) for atoms in data["exactly_one"]]
    model, weights = clause_model(data["atoms"], [(w, row) for w, row in data["soft"]], groups)
    return Instance(
        model=model,
        weights=weights,
        loss=1.0 - 2.0 * truth,
        n_true=int(truth.sum()),
        optimum=data["optimum"],
        optimum_loss_augmented=data["optimum_loss_augmented"],
    )


class BranchAndBound:
    """Branch and bound by itself, to the proof or up to ``most_work`` cells."""

    def __init__(self, most_work: int = 1 << 62) -> None:
        self.most_work = most_work

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        return Search(model, weight, bonus).go_on(self.most_work)


class Refuses:
    """A core that is not to be asked."""

    def solve(self, model, weights, *, bonus=None) -> Solution:
        raise AssertionError("the core was asked")


def check(found: Solution, problem: Problem, route: str) -> None:
    """The contract of a certified answer."""
    assert found.certified
    assert found.route == route
    assert found.score == problem.model.score(found.state, problem.weights, problem.bonus)
    assert found.score <= found.bound <= found.score + 1e-6 * max(1.0, abs(found.score))
    assert found.state.dtype == np.uint8
    assert problem.model.feasible(found.state)
