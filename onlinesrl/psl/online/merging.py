"""What a shard's weights of PSL rules gained in a round, and the merge of several.

See ``core.online.parameter_mixing``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.kernels.averaging import DUAL, T
from onlinesrl.core.online.parameter_mixing import best_share, mean_share

if TYPE_CHECKING:
    from onlinesrl.psl.online.rule_weights import RuleWeights

Gain: TypeAlias = Mapping[str, Any]
"""What each array of ``RuleWeights.save`` has more than at the start of the round."""


def gain(weights: RuleWeights, start: Mapping[str, Any]) -> Gain:
    """Return what weights gained since they were restored from the arrays ``start``."""
    return {name: array - start[name] for name, array in weights.save().items() if name != "base"}


def merge(weights: RuleWeights, gains: Sequence[Gain], by_dual: bool) -> float:
    """Add to weights what shards gained since they had them; returns gamma.

    ``by_dual``: the gamma at which the dual is greatest; otherwise the mean of the shards.
    """
    added = {name: sum(gain[name] for gain in gains) for name in gains[0]}
    weights.optimizer_state = {
        name: value + added.pop(name) for name, value in weights.optimizer_state.items()
    }
    share = (
        _share(weights, added["dual"], added["scalar"])
        if by_dual
        else mean_share(gain["scalar"][T] for gain in gains)
    )
    added["dual"] = share * added["dual"]
    added["scalar"][DUAL] *= share
    for name, array in added.items():
        setattr(weights, name, getattr(weights, name) + array)
    return share


def _share(weights: RuleWeights, step: Floats, added: Floats) -> float:
    """Return the gamma at which the dual D is greatest: D' = d rho - sigma <w, Delta>.

    w = max(base + s H^-1 (u + gamma Delta), 0), s = s_{T+1}, H the metric of the update or 1, so D' is
    linear between the gammas where a weight becomes 0 or leaves it.
    """
    scale = weights.update.scale(int(weights.scalar[T] + added[T]) + 1)
    metric = weights.update.metric(weights.optimizer_state)
    start, pace = weights.base + scale * weights.dual / metric, scale * step / metric
    moving = pace != 0.0
    crossing = -start[moving] / pace[moving]
    knots = np.unique([0.0, *crossing[(crossing > 0.0) & (crossing < 1.0)], 1.0]).tolist()
    sigma, rho = weights.update.strength, float(added[DUAL])
    slopes = [
        rho - sigma * float(np.sum(np.maximum(start + gamma * pace, 0.0) * step)) for gamma in knots
    ]
    return best_share(knots, slopes)
