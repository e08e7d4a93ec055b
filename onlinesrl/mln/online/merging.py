"""What a shard's learner of Markov logic gained in a round, and the merge of several.

See ``core.online.parameter_mixing``.

Shards meet constants in their own order: new ones, and the weights they name, are numbered at the merge
in the order of the shards, by name. Weights are kept as base, u and v (``core.kernels.averaging``), of
which the mean over all weight vectors is base + (S u - v) / T. Merged, S is S_0 plus what every shard
added to it, and

    v = v_0 + S (u - u_0) - sum_p (S_p (u_p - u_0) - (v_p - v_0))

keeps that mean, over the vectors of all shards. A weight that no shard moved keeps its u and v.

Where an update divides steps by a metric H of its own, u = H^-1 g, it is g to which gamma of every step is
added, and H has what all shards added to it: the multipliers are still in [0, 1] and the dual, with the H of
the end, is still below the regularised loss of all weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.example import Constant
from onlinesrl.core.kernels.averaging import DUAL, NORM, S, T
from onlinesrl.core.online.averaged_weights import AveragedWeights
from onlinesrl.core.online.parameter_mixing import State, best_share, mean_share
from onlinesrl.mln.ground.batch_packer import Packer
from onlinesrl.mln.online.weight_table import WeightTable


@dataclass(frozen=True)
class Gain:
    """What a learner has more than at the start of the round; weights and constants in its own numbers."""

    known: Mapping[str, int]  # constants at the start, by type
    constants: Mapping[str, Sequence[Constant]]  # those since
    shown: Mapping[str, Sequence[Constant]]  # of open types
    key: Ints32  # [new block, 1 + template constants]
    weights: int  # at the start
    moved: Ints  # [k] weights
    step: Floats  # [k] Delta of g
    lag: Floats  # [k] S (u - u_0) - (v - v_0)
    kept: Mapping[str, Floats]  # [k] of each column that the update keeps
    uses: Ints  # [k]
    scalar: Floats  # as AveragedWeights.scalar
    seen: int


def gain(weights: WeightTable, packer: Packer, seen: int, start: State) -> Gain:
    """Return what a learner, which has ``seen`` so many examples, gained since it was at ``start``."""
    header, arrays = start
    a = weights.arrays
    count, blocks = len(arrays["uses"]), len(arrays["block"])
    uses = a.uses[: len(weights)].copy()
    uses[:count] -= arrays["uses"]
    moved = np.flatnonzero(uses)
    before = np.zeros((len(moved), 3))
    before[moved < count] = arrays["value"][moved[moved < count]]
    _, u, v = (a.value[moved] - before).T
    old, kept = np.flatnonzero(moved < count), dict[str, Floats]()
    for name in weights.kept:
        kept[name] = np.zeros(len(moved))
        kept[name][old] = arrays[name][moved[old]]
    metric = weights.update.metric
    step = (
        metric({name: column[moved] for name, column in weights.kept.items()}) * a.value[moved, 1]
        - metric(kept) * before[:, 1]
    )
    known = {name: len(names) for name, names in header["constants"].items()}
    return Gain(
        known=known,
        constants={name: weights.stream[name].names[n:] for name, n in known.items()},
        shown={
            name: names[len(header["shown"].get(name, ())) :]
            for name, names in packer.shown().items()
        },
        key=a.key[blocks : a.size[1]].copy(),
        weights=count,
        moved=moved,
        step=step,
        lag=weights.scalar[S] * u - v,
        kept={name: column[moved] - kept[name] for name, column in weights.kept.items()},
        uses=uses[moved],
        scalar=np.array(weights.scalar) - arrays["scalar"],
        seen=seen - header["seen"],
    )


def merge(weights: WeightTable, packer: Packer, gains: Sequence[Gain], by_dual: bool) -> float:
    """Add to a learner's weights what shards gained since they had its state; returns gamma.

    ``by_dual``: the gamma at which the dual is greatest; otherwise the mean of the shards.
    """
    places = [_places(weights, each) for each in gains]
    n = len(weights)
    step, lag, before = np.zeros(n), np.zeros(n), _metric(weights)
    for each, place in zip(gains, places, strict=True):
        step[place] += each.step
        lag[place] += each.lag
        weights.arrays.uses[place] += each.uses
        for name, column in each.kept.items():
            weights.kept[name][place] += column
    added: Floats = sum((each.scalar for each in gains), np.zeros(len(weights.scalar)))
    u, v = weights.arrays.value[:n, 1:].T
    metric = _metric(weights)
    kept = (before - metric) * u  # what g = before u loses where u stays and the metric grows
    share = (
        _share(weights, u + kept / metric, step / metric, step, added)
        if by_dual
        else mean_share(each.scalar[T] for each in gains)
    )
    u += (kept + share * step) / metric
    added[DUAL] *= share
    weights.scalar[:] = (np.array(weights.scalar) + added).tolist()
    weights.scalar[NORM] = float(np.sum(metric * u * u))
    s = weights.scalar[S]
    v += (s * share * step + s * kept) / metric - lag
    _share_constants(weights, packer, gains)
    return share


def _metric(weights: WeightTable) -> Floats | float:
    """Return H, float64[weights], or 1."""
    n = len(weights)
    kept = {name: column[:n] for name, column in weights.kept.items()}
    return weights.update.metric(kept)


def _share(weights: AveragedWeights, u: Floats, pace: Floats, step: Floats, added: Floats) -> float:
    """Return the gamma at which D = dual - sigma s / 2 ||u + gamma H^-1 Delta||_H^2 is greatest, s = s_{T+1}.

    ``pace`` is H^-1 Delta, ``step`` Delta.
    """
    strength = weights.update.strength * weights.update.scale(int(weights.scalar[T] + added[T]) + 1)
    slopes = [added[DUAL] - strength * float(np.sum((u + gamma * pace) * step)) for gamma in (0, 1)]
    return best_share((0.0, 1.0), slopes)


def _places(weights: WeightTable, gained: Gain) -> Ints:
    """Return the numbers of a shard's moved weights in the table, which has all its blocks then."""
    keys = gained.key.copy()
    kind, shift = (table[keys[:, 0]] for table in weights.columns())
    own = keys[:, 1:] - shift
    for number, (name, names) in enumerate(gained.constants.items()):
        place = np.array([weights.stream[name][constant] for constant in names], np.int32)
        new = (kind == number) & (own >= gained.known[name])
        keys[:, 1:][new] = place[own[new] - gained.known[name]] + shift[new]
    first = np.array([weights.block(int(key[0]), key[1:]) for key in keys], np.int64)
    size = weights.arrays.block_size[keys[:, 0]]
    theirs = gained.weights + np.cumsum(size) - size
    places = gained.moved.copy()
    added = places >= gained.weights
    block = np.searchsorted(theirs, places[added], "right") - 1
    places[added] += first[block] - theirs[block]
    return places


def _share_constants(weights: WeightTable, packer: Packer, gains: Sequence[Gain]) -> None:
    """Give later worlds the constants of open types that shards have met; drop weights beyond the most."""
    most = weights.update.max_weights
    shown: dict[str, Any] = packer.shown()
    for each in gains:
        for name, names in each.shown.items():
            shown[name] = [*dict.fromkeys([*shown[name], *names])]
    if most is not None and len(weights) > most:
        weights.drop_least(most)
    packer.set_stream(weights.stream)
    packer.set_shown(shown)
