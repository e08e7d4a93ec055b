"""Maximum pseudo-likelihood weights (Besag 1975), from counts without grounding.

Each atom's conditional probability depends on the change of the counts when the atom flips (Sarkhel et al.
2016, equation 4). These changes do not depend on the weights. They are counted once, for all atoms of a
predicate together, and atoms with equal changes are merged. The result is a small concave problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.io.config_types import Positive
from onlinesrl.core.learning.batch import Learned, Trace, Watch
from onlinesrl.logic.ast import Program
from onlinesrl.mln.counting.exact import Counter
from onlinesrl.mln.counting.factors import keys_of
from onlinesrl.mln.counting.flip_effects import EstimatedFlips, Flips, flips
from onlinesrl.mln.counting.ijgp import Estimator
from onlinesrl.mln.counting.program_counts import Counters, numbered
from onlinesrl.mln.counting.world import World, world_of
from onlinesrl.mln.learning.counted_world import CountingSection, check_truth
from onlinesrl.mln.learning.problem import MlnProblem

Optimizer: TypeAlias = Literal["lbfgs", "newton"]
MOST_STEPS = 10_000
"""The maximal number of steps of the diagonal Newton method."""
CONVERGED = 1e-16
"""The Newton method stops if its slope d . g, twice the possible gain, is smaller."""
EMPTY = np.zeros(0, np.bool_)


def _logistic(odds: Floats) -> Floats:
    share: Floats = np.exp(-np.logaddexp(0.0, -odds))
    return share


@dataclass(frozen=True)
class Changes:
    """The changes of the features of a world by flips of single atoms.

    ``rows`` (a sparse matrix, float64[kinds, weights]) has the distinct changes; ``number``
    (float64[kinds]) is the number of atoms of each change. The weights are ordered by rule, then by the
    constants of its ``+`` variables.
    """

    rows: Any
    number: Floats

    def value(self, weights: Floats) -> tuple[float, Floats]:
        """Return the log pseudo-likelihood of weights, and its gradient."""
        odds = self.rows @ weights
        gradient = -(self.rows.T @ (self.number * _logistic(odds)))
        return -float(self.number @ np.logaddexp(0.0, odds)), gradient

    def variance(self, weights: Floats) -> Floats:
        """Return number times p (1 - p), p being the probability of a flip, float64[kinds]."""
        p = _logistic(self.rows @ weights)
        variance: Floats = self.number * p * (1.0 - p)
        return variance

    def unbounded(self) -> list[int]:
        """Return the weights that all flips push in one direction: infinite without a prior."""
        low, high = (bound.toarray()[0] for bound in (self.rows.min(axis=0), self.rows.max(axis=0)))
        return np.flatnonzero(((low >= 0) | (high <= 0)) & ((low != 0) | (high != 0))).tolist()


def changes(
    program: Program, world: World, predicates: Sequence[str], i_bound: int | None = None
) -> Changes:
    """Return the changes of the features by the flip of each atom of ``predicates``, one at a time.

    Atoms whose flip breaks a hard rule are omitted: their conditional probability is 1. With ``i_bound``, the
    changes of formulas wider than the bound are estimated by IJGP. The feature of a rule of k clauses is the
    sum of the clauses' counts divided by k.

    Raises ModelError for a rule that cannot be counted, ExampleError for a world that breaks a hard rule.
    """
    from scipy import sparse

    counters = Counters(program)
    check_truth(counters, world, predicates)
    parts = [_changes(counters, world, name, i_bound) for name in predicates]
    rows = sparse.vstack([part.rows for part in parts], "csr")
    return distinct(Changes(rows, np.concatenate([part.number for part in parts])))


def _changes(counters: Counters, world: World, name: str, i_bound: int | None) -> Changes:
    """Return the changes by the atoms of one predicate, one row per atom.

    The last row stands for all atoms without any change. Hard rules are counted exactly.
    """
    from scipy import sparse

    types = counters.program.predicates[name].types
    places, weights = counters.places(world)
    atoms, fixed, entries = [np.zeros((0, len(types)), np.int64)], [EMPTY], [np.zeros((2, 0))]
    for clause, counter, place in zip(counters.clauses, counters.compiled, places, strict=True):
        assert isinstance(counter, Counter)
        with counters.located(clause):
            change = _flips(counter, name, types, None if clause.hard else i_bound).change(world).of
        atom, key = np.split(change.rows, [len(types)], axis=1)
        value = change.values.astype(np.float64) / place.share
        atoms.append(atom)
        fixed.append(np.full(len(atom), clause.hard))
        entries.append(np.stack([place.first + numbered(key, place.sizes), value]))
    hard = np.concatenate(fixed)
    atom_keys, row = np.unique(keys_of(np.concatenate(atoms), world.base), return_inverse=True)
    weight, value = np.concatenate(entries, axis=1)[:, ~hard]
    rows = sparse.csr_matrix((value, (row[~hard], weight)), (len(atom_keys), weights))
    free = rows[np.bincount(row, hard, len(atom_keys)) == 0]
    n_others = prod(map(world.size, types)) - len(atom_keys)
    all_rows = sparse.vstack([free, sparse.csr_matrix((1, weights))], "csr")
    return Changes(all_rows, np.append(np.ones(free.shape[0]), float(n_others)))


def _flips(
    counter: Counter, predicate: str, types: tuple[str, ...], i_bound: int | None
) -> Flips | EstimatedFlips:
    """Return the changes of a count, estimated if clusters of ``i_bound`` variables are not exact."""
    if i_bound is not None:
        estimated = EstimatedFlips(Estimator(counter, i_bound), predicate, types)
        if estimated.width() >= i_bound:
            return estimated
    return flips(counter, predicate, types)


def distinct(changes: Changes) -> Changes:
    """Return the distinct changes, with the number of atoms of each."""
    rows = changes.rows
    rows.eliminate_zeros()
    rows.sort_indices()
    column, value = rows.indices, rows.data
    kinds: dict[tuple[bytes, bytes], int] = {}
    kind = [
        kinds.setdefault((column[i:j].tobytes(), value[i:j].tobytes()), len(kinds))
        for i, j in pairwise(rows.indptr.tolist())
    ]
    first = np.unique(kind, return_index=True)[1]
    return Changes(rows[first], np.bincount(kind, changes.number).astype(np.float64))


@dataclass(frozen=True)
class Maximum:
    """The optimal weights, their log pseudo-likelihood without the prior, and warnings."""

    weights: Floats
    value: float
    warnings: tuple[str, ...]


def maximise(
    changes: Changes, prior_sd: float | None = None, optimizer: Optimizer = "lbfgs"
) -> Maximum:
    """Return the weights of maximum pseudo-likelihood, with a Gaussian prior unless ``prior_sd`` is None."""
    precision = 0.0 if prior_sd is None else prior_sd**-2
    with _one_thread():
        weights = {"lbfgs": _lbfgs, "newton": _newton}[optimizer](changes, precision)
    warnings = tuple(
        f"weight {k + 1} has no finite optimum: no atom's flip holds it back; give a prior"
        for k in (changes.unbounded() if prior_sd is None else [])
    )
    return Maximum(weights, changes.value(weights)[0], warnings)


def _one_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread if threadpoolctl is installed (scikit-learn needs it).

    The matrix products are small, so that threads would spend most of their time waiting for each other.
    """
    import scipy.optimize  # noqa: F401 - threadpoolctl only limits loaded libraries

    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        return nullcontext()
    limits: AbstractContextManager[object] = threadpool_limits(1, "blas")
    return limits


def _posterior(changes: Changes, precision: float, weights: Floats) -> tuple[float, Floats]:
    """Return the log pseudo-likelihood with the prior, and its gradient."""
    value, gradient = changes.value(weights)
    return value - precision / 2 * float(weights @ weights), gradient - precision * weights


def _lbfgs(changes: Changes, precision: float) -> Floats:
    from scipy.optimize import minimize

    def loss(weights: Floats) -> tuple[float, Floats]:
        value, gradient = _posterior(changes, precision, weights)
        return -value, -gradient

    start = np.zeros(changes.rows.shape[1])
    options = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 10_000, "maxfun": 100_000, "maxcor": 20}
    weights: Floats = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return weights


def _newton(changes: Changes, precision: float) -> Floats:
    """Maximise by the diagonal Newton method (Lowd & Domingos 2007, section 4.3): d_i = g_i / -H_ii.

    The step size is d.g / d'Hd, reduced by a damping factor. The damping adapts to the ratio of the actual
    gain to the gain predicted by the quadratic model. A step without a gain is rejected.
    """
    rows, squares = changes.rows, changes.rows.power(2)
    weights, damping = np.zeros(rows.shape[1]), 1.0
    gradient = _posterior(changes, precision, weights)[1]
    for _ in range(MOST_STEPS):
        spread = changes.variance(weights)
        diagonal = squares.T @ spread + precision
        d = np.divide(gradient, diagonal, where=diagonal > 0, out=np.zeros_like(gradient))
        slope = float(d @ gradient)
        if slope < CONVERGED:
            break
        curvature = float(spread @ (rows @ d) ** 2 + precision * d @ d)
        step = slope / ((1.0 + damping) * curvature) * d
        expected_gain = slope**2 / curvature * (0.5 + damping) / (1.0 + damping) ** 2
        next_gradient = _posterior(changes, precision, weights + step)[1]
        ratio = float(step @ (gradient + next_gradient)) / 2.0 / expected_gain
        damping = (
            max(0.5 * damping, 1e-3) if ratio > 0.75 else damping * (4.0 if ratio < 0.25 else 1.0)
        )
        if ratio > 0.0:
            weights, gradient = weights + step, next_gradient
    return weights


class Mple(CountingSection):
    """Maximum pseudo-likelihood of the query atoms, from counts without grounding.

    An atom whose flip breaks a hard rule has conditional probability 1 for any weights.
    """

    name = "mple"
    counting: Literal["exact", "ijgp"] = "exact"
    """how groundings are counted: exactly, or by IJGP(i) if a formula is too wide for ``i_bound``."""
    optimizer: Literal["lbfgs", "newton"] = "lbfgs"
    """L-BFGS or the diagonal Newton method."""
    prior_sd: Positive | None = None
    """the standard deviation of a Gaussian prior of every weight; null: none."""

    def learn(self, problem: MlnProblem, watch: Watch) -> Learned:
        """Return the weights of maximum pseudo-likelihood. The objective is its negative logarithm."""
        from scipy import sparse

        trace = Trace(watch)
        rows, number = [], []
        for k, atoms in enumerate(problem.worlds):
            world = world_of(problem.program, atoms)
            try:
                change = changes(problem.program, world, problem.query, self.bound)
            except ExampleError as error:
                raise problem.located(k, error) from None
            column = problem.places(world.domains)[change.rows.indices]
            shape = len(change.number), len(problem.start)
            rows.append(sparse.csr_matrix((change.rows.data, column, change.rows.indptr), shape))
            number.append(change.number)
        total = Changes(sparse.vstack(rows, "csr"), np.concatenate(number))
        trace.add(-total.value(problem.start)[0])
        maximum = maximise(total, self.prior_sd, self.optimizer)
        trace.add(-maximum.value)
        return Learned(maximum.weights, trace.steps, warnings=maximum.warnings)
