"""Counts of predictions and the regret bound, shared by the learners of both languages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from onlinesrl.core.arrays import Bools, Ints

BEYOND_RANGE = "its update overflows: learner.sigma is too small, or the weights are too large"
"""Why an example cannot be learned from."""

MarkedAtom: TypeAlias = tuple[tuple[str, ...], bool, bool]
"""The constants of an atom, whether it is true, and whether it is predicted."""


def confusions(said: Bools, true: Bools) -> Ints:
    """Return the numbers of hits, false alarms and misses, int64[3]."""
    return np.array([np.sum(said & true), np.sum(said & ~true), np.sum(true & ~said)])


def count_classes(counts: dict[str, Ints], atoms: Iterable[MarkedAtom], argument: int) -> None:
    """Add hits, false alarms and misses, int64[3], of every constant that is the chosen argument."""
    for constants, true, said in atoms:
        of_class = counts.setdefault(constants[argument], np.zeros(3, np.int64))
        of_class += [said and true, said and not true, true and not said]


def certificate(
    updates: int, loss: float, primal: float, dual: float | None, before: int
) -> dict[str, float | None]:
    """Return the mean loss, the dual value and the bound on the regret, each None where unknown.

    ``loss`` and ``primal`` are sums over ``updates`` updates; an update without a dual has no bound.
    ``restarted`` is there after a restart: how many updates there were ``before`` it.
    """
    return {
        "loss": loss / updates if updates else None,
        "dual": dual,
        "regret_bound": None if dual is None else primal - dual,
        **({"restarted": before} if before else {}),
    }
