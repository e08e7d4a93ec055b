"""Weights of the greatest pseudo-likelihood (Besag 1975), from counts: nothing is grounded.

Each atom's conditional probability depends on how the counts change where it flips (Sarkhel et al. 2016,
equation 4). The changes do not depend on the weights: they are counted once, for all atoms of a predicate
together, and atoms with the same changes are one. What remains is a small, concave problem.
"""

from __future__ import annotations

from collections import Counter as Multiset
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import ModelError, UsageError
from onlinesrl.logic.ast import Program
from onlinesrl.mln.count import Counters
from onlinesrl.mln.counting.exact import Counter
from onlinesrl.mln.counting.flips import flips
from onlinesrl.mln.counting.world import World


@dataclass(frozen=True)
class Changes:
    """How the features of a world change by flips.

    ``rows`` (float64[kinds, weights]) are the distinct changes, ``number`` (float64[kinds]) says how many
    atoms have each. A weight is a rule's, or one of its constants of ``+`` variables, in their order.
    """

    rows: Floats
    number: Floats

    def value(self, weights: Floats) -> tuple[float, Floats]:
        """Return the logarithm of the pseudo-likelihood of weights, and its gradient."""
        odds = self.rows @ weights
        gradient = -(self.number * np.exp(-np.logaddexp(0.0, -odds))) @ self.rows
        return -float(self.number @ np.logaddexp(0.0, odds)), gradient

    def unbounded(self) -> list[int]:
        """Return the weights that no flip ever holds back: without a prior their optimum is infinite."""
        low, high = self.rows.min(axis=0), self.rows.max(axis=0)
        return np.flatnonzero(((low >= 0) | (high <= 0)) & (low != high)).tolist()


def changes(program: Program, world: World, predicates: Sequence[str]) -> Changes:
    """Return how the features change where atoms of some predicates flip, all others as they are.

    A rule of k clauses has a k-th of the sum of their counts as its feature. Raises ModelError for a hard
    rule, or one that cannot be counted.
    """
    for rule in program.rules:
        if rule.hard:
            raise ModelError(
                f"a hard rule has no weight to learn: {rule.text}",
                file=program.file,
                line=rule.position.line,
                column=rule.position.column,
                hint="give it a weight, or leave it out",
            )
    counters = Counters(program)
    shares = Multiset(clause.rule for clause in counters.clauses)
    found = []
    for name in predicates:
        atoms = int(np.prod([world.size(t) for t in program.predicates[name].types]))
        columns = [np.zeros((atoms, 0))] * len(program.rules)
        for clause, each in zip(counters.clauses, counters.compiled, strict=True):
            assert isinstance(each, Counter)
            with counters.located(clause):
                flipped = flips(each, name, program.predicates[name].types).change(world)
            column = flipped.reshape(atoms, -1).astype(np.float64) / shares[clause.rule]
            before = columns[clause.rule]
            columns[clause.rule] = before + column if before.size else column
        found.append(np.concatenate(columns, axis=1))
    rows, number = np.unique(np.concatenate(found), axis=0, return_counts=True)
    return Changes(rows, number.astype(np.float64))


@dataclass(frozen=True)
class Learned:
    """Weights, the logarithm of their pseudo-likelihood without the prior, and what to be warned of."""

    weights: Floats
    value: float
    warnings: tuple[str, ...]


def maximise(changes: Changes, prior_sd: float | None = None) -> Learned:
    """Return the weights of the greatest pseudo-likelihood, with a Gaussian prior if it is given, by L-BFGS.

    Raises UsageError where SciPy is not installed.
    """
    try:
        from scipy.optimize import minimize
    except ImportError:
        raise UsageError("L-BFGS needs SciPy: pip install 'onlinesrl[qp]'") from None
    precision = 0.0 if prior_sd is None else prior_sd**-2

    def loss(weights: Floats) -> tuple[float, Floats]:
        value, gradient = changes.value(weights)
        return precision / 2 * float(weights @ weights) - value, precision * weights - gradient

    start = np.zeros(changes.rows.shape[1])
    options = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 10_000, "maxfun": 100_000, "maxcor": 20}
    weights = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    warnings = tuple(
        f"weight {k + 1} has no finite optimum: no atom's flip holds it back; give a prior"
        for k in (changes.unbounded() if prior_sd is None else [])
    )
    return Learned(weights, changes.value(weights)[0], warnings)
