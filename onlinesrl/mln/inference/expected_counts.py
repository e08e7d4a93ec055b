"""How many of some literals are true: the expected number, and its variance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.mln.ground.ground_mrf import State
from onlinesrl.mln.inference.exact_marginals import Exact
from onlinesrl.mln.inference.gate_marginals import GateModel
from onlinesrl.mln.inference.mcmc import Chains
from onlinesrl.mln.inference.mcmc_diagnostics import BATCHES
from onlinesrl.mln.inference.protocols import Wide

STEP = 0.02
"""The largest difference of log-odds between the number's extremes, in units of its derivative's step."""


class Count(NamedTuple):
    """The expected number of true literals, and its variance, exact unless it has a ``standard_error``."""

    expected: float
    variance: float
    standard_error: float | None = None


def expected_counts(
    of: GateModel, probability: Floats, literals: Mapping[str, Ints], sampler: Chains, exact: bool
) -> dict[str, Count]:
    """Return the count of each set of true literals, given the probability of each atom.

    If ``exact``, it is so where the model is narrow. Otherwise, it is of samples, with the standard error of
    the expected number by batch means. Raises Infeasible, Unsolved.
    """
    counts, wide = dict[str, Count](), dict[str, Ints]()
    for name, some in literals.items():
        try:
            if not exact:
                raise Wide("counts are sampled")
            counts[name] = Count(_true(some, probability), _variance(of, some))
        except Wide:
            wide[name] = some
    if wide:
        numbers = np.array([*_sampled(of, wide, sampler)])  # [chain, sample, set]
        length = numbers.shape[1] // BATCHES * BATCHES
        batches = numbers[:, :length].reshape(len(numbers) * BATCHES, -1, len(wide)).mean(1)
        error = batches.std(0, ddof=1) / np.sqrt(len(batches))
        rows = zip(numbers.mean((0, 1)), numbers.var((0, 1)), error, strict=True)
        counts |= {name: Count(*map(float, row)) for name, row in zip(wide, rows, strict=True)}
    return {name: counts[name] for name in literals}


def _true(literals: Ints, value: Floats | State) -> float:
    """Return the sum of the values of literals by those of the atoms."""
    of_atom = value[np.abs(literals) - 1]
    return float(np.where(literals > 0, of_atom, 1.0 - of_atom).sum())


def _variance(of: GateModel, literals: Ints) -> float:
    """Return the variance of the number of true literals by elimination. Raises Wide.

    It is the derivative of the expected number by a weight t of each literal (the second cumulant is that of
    the first). It is the difference quotient of fourth order at t = h, whose error is 3e-9 n^2 at most, since
    h n is small for n literals, and t has no other scale.
    """
    if not len(literals):
        return 0.0
    atoms, model, weight = of.deciding(np.unique(np.abs(literals) - 1))
    own = np.sign(literals) * (np.searchsorted(atoms, np.abs(literals) - 1) + 1)
    tilted = model.with_units(own.astype(np.int32), hard=False)
    h = STEP / len(own)

    def expected(t: float) -> float:
        weights = np.append(weight, np.full(len(own), t))
        return _true(own, Exact().marginals(tilted, weights).probability)

    near, far = (expected(k * h) - expected(-k * h) for k in (1, 2))
    return max(0.0, (8.0 * near - far) / (12.0 * h))


def _sampled(
    of: GateModel, literals: Mapping[str, Ints], sampler: Chains
) -> Iterator[list[list[float]]]:
    """Yield for each chain how many literals of each set are true in each of its samples."""
    for states in sampler.states(of.model, of.weight):
        yield [[_true(some, state) for some in literals.values()] for state in states]
