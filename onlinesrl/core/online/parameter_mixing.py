"""What learners of shards give back, and how it becomes one state: rounds of parallel learning.

Every shard starts from the same weights, makes updates of its own, and returns what they added,
Delta_p = u_p - u_0. Merged is u = u_0 + gamma sum_p Delta_p. For updates with a dual D any gamma in [0, 1]
scales multipliers that are in [0, 1], so D stays a lower bound; D is concave in gamma, and its maximiser
has a closed form. Others are averaged, gamma = 1 / P (McDonald, Hall & Mann 2010).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats

State: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Header and arrays of a checkpoint, as ``Learner.save`` returns them."""


def best_share(knots: Sequence[float], slopes: Floats | Sequence[float]) -> float:
    """Return gamma in [0, 1] where a concave D is greatest.

    ``slopes`` are D' at the ``knots``, which rise from 0 to 1; between them D' is linear.
    """
    return float(np.interp(0.0, -np.asarray(slopes), knots))


def mean_share(updates: Iterable[float]) -> float:
    """Return gamma of the mean over the shards that made updates, given how many each made."""
    return 1.0 / max(1, sum(bool(count) for count in updates))
