"""The merge of the shards' weights after a round of parallel learning.

Every shard starts from the same weights, makes its own updates, and returns their sum, Delta_p = u_p - u_0.
The merged weights are u = u_0 + gamma sum_p Delta_p. For updates with a dual D, any gamma in [0, 1] keeps the
multipliers in [0, 1], so D stays a lower bound. D is concave in gamma, and its maximiser has a closed form.
Other updates are averaged, gamma = 1 / P (McDonald, Hall & Mann 2010), but for those with a covariance
(``core.online.posterior_product``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats

State: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Header and arrays of a checkpoint, as ``Learner.save`` returns them."""


def best_share(knots: Sequence[float], slopes: Floats | Sequence[float]) -> float:
    """Return the gamma in [0, 1] that maximises a concave D.

    ``slopes`` are D' at the ``knots``, which rise from 0 to 1; between them D' is linear.
    """
    return float(np.interp(0.0, -np.asarray(slopes), knots))


def mean_share(updates: Iterable[float]) -> float:
    """Return the gamma of the mean over the shards that made updates; ``updates`` has each one's number."""
    return 1.0 / max(1, sum(bool(n > 0) for n in updates))
