"""Weights of the greatest pseudo-likelihood (Besag 1975), from counts: nothing is grounded.

Each atom's conditional probability depends on how the counts change where it flips (Sarkhel et al. 2016,
equation 4). The changes do not depend on the weights: they are counted once, for all atoms of a predicate
together, and atoms with the same changes are one. What remains is a small, concave problem.
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
from onlinesrl.core.errors import ModelError, UsageError
from onlinesrl.logic.ast import Program
from onlinesrl.mln.count import Counters, numbered
from onlinesrl.mln.counting.estimated_flips import EstimatedFlips
from onlinesrl.mln.counting.exact import Counter
from onlinesrl.mln.counting.flips import Flips, flips
from onlinesrl.mln.counting.ijgp import Estimator
from onlinesrl.mln.counting.world import World

Optimizer: TypeAlias = Literal["lbfgs", "newton"]
MOST_STEPS = 10_000
"""Of the diagonal Newton method."""
CONVERGED = 1e-16
"""Its steps end where half of what they might gain is less."""


def _logistic(odds: Floats) -> Floats:
    share: Floats = np.exp(-np.logaddexp(0.0, -odds))
    return share


@dataclass(frozen=True)
class Changes:
    """How the features of a world change by flips.

    ``rows`` (a sparse matrix, float64[kinds, weights]) are the distinct changes, ``number``
    (float64[kinds]) says how many atoms have each. A weight is a rule's, or one of its constants of ``+``
    variables, in their order.
    """

    rows: Any
    number: Floats

    def value(self, weights: Floats) -> tuple[float, Floats]:
        """Return the logarithm of the pseudo-likelihood of weights, and its gradient."""
        odds = self.rows @ weights
        gradient = -(self.rows.T @ (self.number * _logistic(odds)))
        return -float(self.number @ np.logaddexp(0.0, odds)), gradient

    def variance(self, weights: Floats) -> Floats:
        """Return number times p (1 - p), p being the probability of a flip, float64[kinds]."""
        p = _logistic(self.rows @ weights)
        variance: Floats = self.number * p * (1.0 - p)
        return variance

    def unbounded(self) -> list[int]:
        """Return the weights that no flip ever holds back: without a prior their optimum is infinite."""
        low, high = (each.toarray()[0] for each in (self.rows.min(axis=0), self.rows.max(axis=0)))
        return np.flatnonzero(((low >= 0) | (high <= 0)) & (low != high)).tolist()


def changes(
    program: Program, world: World, predicates: Sequence[str], i_bound: int | None = None
) -> Changes:
    """Return how the features change where atoms of some predicates flip, all others as they are.

    With ``i_bound`` those of formulas that are too wide for it are IJGP's estimates. A rule of k clauses has
    a k-th of the sum of their counts as its feature. Raises ModelError for a hard
    rule, or one that cannot be counted, and UsageError where SciPy is not installed.
    """
    _check_soft(program)
    counters = Counters(program)
    places, weights = counters.places(world)
    atoms, found = 0, [np.zeros((3, 0))]
    for name in predicates:
        types = program.predicates[name].types
        sizes = [*map(world.size, types)]
        for clause, each, place in zip(counters.clauses, counters.compiled, places, strict=True):
            assert isinstance(each, Counter)
            with counters.located(clause):
                change = _flips(each, name, types, i_bound).change(world).of
            rows, k = change.rows, len(types)
            atom, weight = numbered(rows[:, :k], sizes), numbered(rows[:, k:], place.sizes)
            value = change.values.astype(np.float64) / place.share
            found.append(np.stack([atoms + atom, place.first + weight, value]))
        atoms += prod(sizes)
    row, column, value = np.concatenate(found, axis=1)
    shape = atoms, weights
    return distinct(scipy().sparse.csr_matrix((value, (row, column)), shape))


def _flips(
    counter: Counter, predicate: str, types: tuple[str, ...], i_bound: int | None
) -> Flips | EstimatedFlips:
    """Return the changes of a count, estimated where clusters of ``i_bound`` variables are not exact."""
    if i_bound is not None:
        estimated = EstimatedFlips(Estimator(counter, i_bound), predicate, types)
        if estimated.width() >= i_bound:
            return estimated
    return flips(counter, predicate, types)


def _check_soft(program: Program) -> None:
    for rule in program.rules:
        if rule.hard:
            raise ModelError(
                f"a hard rule has no weight to learn: {rule.text}",
                file=program.file,
                line=rule.position.line,
                column=rule.position.column,
                hint="give it a weight, or leave it out",
            )


def distinct(rows: Any) -> Changes:
    """Return the distinct rows of a sparse matrix, float64[atoms, weights], and how often each occurs."""
    rows.eliminate_zeros()
    rows.sort_indices()
    column, value = rows.indices, rows.data
    ends = rows.indptr.tolist()
    number: dict[tuple[bytes, bytes], list[int]] = {}
    for k, (i, j) in enumerate(pairwise(ends)):
        number.setdefault((column[i:j].tobytes(), value[i:j].tobytes()), []).append(k)
    first = [of[0] for of in number.values()]
    return Changes(rows[first], np.array([*map(len, number.values())], np.float64))


def scipy() -> Any:
    """Return SciPy's sparse matrices and optimisers. Raises UsageError where it is not installed."""
    try:
        import scipy.optimize
        import scipy.sparse
    except ImportError:
        raise UsageError("L-BFGS needs SciPy: pip install 'onlinesrl[qp]'") from None
    return scipy


@dataclass(frozen=True)
class Learned:
    """Weights, the logarithm of their pseudo-likelihood without the prior, and what to be warned of."""

    weights: Floats
    value: float
    warnings: tuple[str, ...]


def maximise(
    changes: Changes, prior_sd: float | None = None, optimizer: Optimizer = "lbfgs"
) -> Learned:
    """Return the weights of the greatest pseudo-likelihood, with a Gaussian prior if it is given.

    Raises UsageError where SciPy is not installed.
    """
    precision = 0.0 if prior_sd is None else prior_sd**-2
    with _one_thread():
        weights = {"lbfgs": _lbfgs, "newton": _newton}[optimizer](changes, precision)
    warnings = tuple(
        f"weight {k + 1} has no finite optimum: no atom's flip holds it back; give a prior"
        for k in (changes.unbounded() if prior_sd is None else [])
    )
    return Learned(weights, changes.value(weights)[0], warnings)


def _one_thread() -> AbstractContextManager[object]:
    """Let BLAS use one thread, as the command does, where threadpoolctl is there (scikit-learn needs it).

    Products are small here: threads wait for each other many times as long as they work.
    """
    scipy()  # only what is loaded can be told
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        return nullcontext()
    limits: AbstractContextManager[object] = threadpool_limits(1, "blas")
    return limits


def _posterior(changes: Changes, precision: float, weights: Floats) -> tuple[float, Floats]:
    """Return the logarithm of the pseudo-likelihood with the prior, and its gradient."""
    value, gradient = changes.value(weights)
    return value - precision / 2 * float(weights @ weights), gradient - precision * weights


def _lbfgs(changes: Changes, precision: float) -> Floats:
    def loss(weights: Floats) -> tuple[float, Floats]:
        value, gradient = _posterior(changes, precision, weights)
        return -value, -gradient

    start = np.zeros(changes.rows.shape[1])
    options = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 10_000, "maxfun": 100_000, "maxcor": 20}
    minimize = scipy().optimize.minimize
    weights: Floats = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return weights


def _newton(changes: Changes, precision: float) -> Floats:
    """Ascend by steps of the diagonal Newton method (Lowd & Domingos 2007, section 4.3): d_i = g_i / -H_ii.

    The size is d.g / d'Hd, and smaller by a damping, which is adapted to how much of what this quadratic
    model promises is gained; a step that gains nothing is not taken.
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
        promised = slope**2 / curvature * (0.5 + damping) / (1.0 + damping) ** 2
        ahead = _posterior(changes, precision, weights + step)[1]
        ratio = float(step @ (gradient + ahead)) / 2.0 / promised
        damping = (
            max(0.5 * damping, 1e-3) if ratio > 0.75 else damping * (4.0 if ratio < 0.25 else 1.0)
        )
        if ratio > 0.0:
            weights, gradient = weights + step, ahead
    return weights
