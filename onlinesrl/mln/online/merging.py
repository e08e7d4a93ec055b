"""The gain of a shard's Markov logic learner in a round of training, and the merge of several gains.

See ``core.online.parameter_mixing``.

Each shard meets new constants in its own order. The merge matches constants and weights by name and
numbers new ones in the order of the shards. A weight is stored as base, u and v
(``core.kernels.averaging``): the mean over all weight vectors is base + (S u - v) / T. The merged S
is S_0 plus the increments of all shards, and the merged v is

    v = v_0 + S (u - u_0) - sum_p (S_p (u_p - u_0) - (v_p - v_0))

so that base + (S u - v) / T is the mean over the vectors of all shards. A weight that no shard moved
keeps its u and v.

Some update rules divide steps by an adaptive metric H: u = H^-1 g. Then gamma times every step is added
to g, and H is H_0 plus the increments of all shards. The multipliers remain in [0, 1]. The dual, with the
final H, remains a lower bound of the regularised loss.

Steps are in the units of the weights (``core.online.metric_steps``). A weight whose unit differs between
shards has the largest one.

Rules with a covariance multiply the shards' posteriors instead (``core.online.posterior_product``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32, enlarged
from onlinesrl.core.example import Constant
from onlinesrl.core.kernels.averaging import DUAL, NORM, S, T
from onlinesrl.core.online.parameter_mixing import State, best_share, mean_share
from onlinesrl.core.online.posterior_product import Posterior, product
from onlinesrl.core.online.update_rules.rule import UNITS
from onlinesrl.mln.ground.batch_packer import Packer
from onlinesrl.mln.online.weight_table import WeightTable


@dataclass(frozen=True)
class Gain:
    """The increments of a learner since the start of a round.

    Weights and constants have the numbers of this learner.
    """

    known: Mapping[str, int]  # number of constants at the start, by type
    constants: Mapping[str, Sequence[Constant]]  # new constants, by type
    shown: Mapping[str, Sequence[Constant]]  # new constants of open types, by type
    key: Ints32  # [new block, 1 + template constants]
    weights: int  # number of weights at the start
    moved: Ints  # [k] numbers of the weights that changed, or may have
    step: Floats  # [k] Delta, the increment of g
    lag: Floats  # [k] S (u - u_0) - (v - v_0)
    optimizer_state: Mapping[str, Floats]  # [k] increments of each column of the update rule; units
    uses: Ints  # [k] numbers of updates
    scalar: Floats  # increments of AveragedWeights.scalar
    seen: int
    sampled: int  # updates along sampled expectations
    slots: Mapping[str, Any]  # covariances, as ``AveragedWeights.slots`` returns them
    counted: Mapping[str, Any] = field(default_factory=dict)  # of ``ExampleProcessor.counted``


def gain(weights: WeightTable, packer: Packer, seen: int, start: State) -> Gain:
    """Return the gain of a learner since ``start``; ``seen`` is its number of examples so far."""
    header, arrays = start
    a, n = weights.arrays, len(weights)
    count, blocks = len(arrays["uses"]), len(arrays["block"])
    uses = a.uses[:n] - enlarged(arrays["uses"], n)
    value, before = a.value[:n].copy(), enlarged(arrays["value"], n).copy()
    columns = {name: column[:n] for name, column in weights.optimizer_state.items()}
    old_columns = {name: enlarged(arrays[name], n) for name in columns}
    if "unit" in columns:
        value[:, 1:] *= weights.units()[:, None]
        before[:, 1:] *= np.where(old_columns["unit"] > 0.0, old_columns["unit"], 1.0)[:, None]
    changed, slots = uses != 0, {}
    for name, column in columns.items():
        changed |= column != old_columns[name]
    if weights.update.covers:
        slots = weights.slots()
        changed[[*arrays["slots"], *slots["slots"]]] = True
    moved = np.flatnonzero(changed)
    metric = weights.update.metric
    step: Floats = metric(columns) * value[:, 1] - metric(old_columns) * before[:, 1]
    _, u, v = (value[moved] - before[moved]).T
    sizes = {name: len(names) for name, names in header["constants"].items()}
    return Gain(
        known=sizes,
        constants={name: weights.stream[name].names[n:] for name, n in sizes.items()},
        shown={
            name: names[len(header["shown"].get(name, ())) :]
            for name, names in packer.shown().items()
        },
        key=a.key[blocks : a.size[1]].copy(),
        weights=count,
        moved=moved,
        step=step[moved],
        lag=weights.scalar[S] * u - v,
        optimizer_state={
            name: column[moved] - (0.0 if name in UNITS else old_columns[name][moved])
            for name, column in columns.items()
        },
        uses=uses[moved],
        scalar=np.array(weights.scalar) - arrays["scalar"],
        seen=seen - header["seen"],
        sampled=weights.sampled - header.get("sampled", 0),
        slots=slots,
    )


def merge(weights: WeightTable, packer: Packer, gains: Sequence[Gain], by_dual: bool) -> float:
    """Add the gains of shards, which all started from this learner's state; return gamma.

    The constants of open types that the shards have met are added, too.
    ``by_dual``: use the gamma that maximises the dual; otherwise, and where expectations were sampled, which
    have no dual, take the mean of the shards. Of posteriors gamma is 1.
    """
    weights.sampled += sum(gained.sampled for gained in gains)
    places = [_places(weights, gained) for gained in gains]
    n = len(weights)
    value = weights.arrays.value[:n, 1:]
    value *= weights.units()[:, None]
    step, lag, before = np.zeros(n), np.zeros(n), _metric(weights)
    for gained, place in zip(gains, places, strict=True):
        step[place] += gained.step
        lag[place] += gained.lag
        weights.arrays.uses[place] += gained.uses
    if weights.update.covers:
        step = _multiply(weights, gains, places)
    else:
        for gained, place in zip(gains, places, strict=True):
            for name in weights.update.columns:
                weights.optimizer_state[name][place] += gained.optimizer_state[name]
        _merge_units(weights, gains, places)
    added: Floats = sum((gained.scalar for gained in gains), np.zeros(len(weights.scalar)))
    u, v = value.T
    metric = _metric(weights)
    correction = (before - metric) * u  # preserves g = before * u when the metric grows
    share = 1.0
    if by_dual and not weights.sampled:
        # the gamma of the largest D = dual - sigma s / 2 ||u + gamma H^-1 Delta||_H^2, s = s_{T+1}
        start, pace = u + correction / metric, step / metric
        strength = weights.update.strength * weights.update.scale(
            int(weights.scalar[T] + added[T]) + 1
        )
        slopes = [
            added[DUAL] - strength * float(np.sum((start + gamma * pace) * step))
            for gamma in (0, 1)
        ]
        share = best_share((0.0, 1.0), slopes)
    elif not weights.update.covers:
        share = mean_share(gained.scalar[T] for gained in gains)
    u += (correction + share * step) / metric
    added[DUAL] *= share
    weights.scalar[:] = (np.array(weights.scalar) + added).tolist()
    weights.scalar[NORM] = float(np.sum(metric * u * u))
    s = weights.scalar[S]
    v += (s * share * step + s * correction) / metric - lag
    value /= weights.units()[:, None]
    constants: dict[str, Any] = packer.shown()
    for gained in gains:
        for name, names in gained.shown.items():
            constants[name] = [*dict.fromkeys([*constants[name], *names])]
    weights.enforce_limit()
    packer.set_stream(weights.stream)
    packer.set_shown(constants)
    return share


def _merge_units(weights: WeightTable, gains: Sequence[Gain], places: Sequence[Ints]) -> None:
    """Give each weight that has moved the largest of its units in the shards, and its mean there."""
    if "unit" not in weights.optimizer_state:
        return
    columns = [weights.optimizer_state[name] for name in UNITS]
    for place in places:
        for column in columns:
            column[place] = 0.0
    for gained, place in zip(gains, places, strict=True):
        theirs = [gained.optimizer_state[name] for name in UNITS]
        unit = columns[0][place]
        for column, more in zip(columns, theirs, strict=True):
            most = np.where(theirs[0] > unit, more, np.maximum(more, column[place]))
            column[place] = np.where(theirs[0] < unit, column[place], most)


def _multiply(weights: WeightTable, gains: Sequence[Gain], places: Sequence[Ints]) -> Floats:
    """Set the covariance to that of the product of the shards' posteriors; return the steps of all weights.

    Where the shards have covariances of more weights than there is room for, the most used ones keep them.
    """
    moved, state = np.unique(np.concatenate(places)), weights.optimizer_state
    u = weights.arrays.value[moved, 1]

    def posterior(columns: Floats, slots: Ints, matrix: Floats) -> Posterior:
        inside = np.searchsorted(moved, slots)
        columns[2, inside] = np.diagonal(matrix)
        mean, scale, variance = columns
        return Posterior(mean, scale, variance, inside, matrix)

    columns, parts = np.array([u, state["scale"][moved], state["variance"][moved]]), []
    for gained, place in zip(gains, places, strict=True):
        theirs, more = columns.copy(), gained.optimizer_state
        theirs[:, np.searchsorted(moved, place)] += gained.step, more["scale"], more["variance"]
        slots = place[np.searchsorted(gained.moved, gained.slots["slots"])]
        parts.append(posterior(theirs, slots, gained.slots["matrix"]))
    used = [*dict.fromkeys(slot for part in parts for slot in part.slots.tolist())]
    used.sort(key=lambda slot: -weights.arrays.uses[moved[slot]])
    slots = np.array(used[: weights.update.slots], np.int64)
    prior = posterior(columns, **weights.slots())
    merged = product(prior, parts, weights.update.constant, slots)
    state["scale"][moved], state["variance"][moved] = merged.scale, merged.variance
    weights.set_slots(moved[merged.slots], merged.matrix)
    step = np.zeros(len(weights))
    step[moved] = merged.mean - u
    return step


def _metric(weights: WeightTable) -> Floats | float:
    """Return H, float64[weights], or 1."""
    n = len(weights)
    columns = {name: column[:n] for name, column in weights.optimizer_state.items()}
    return weights.update.metric(columns)


def _places(weights: WeightTable, gained: Gain) -> Ints:
    """Return the numbers of a shard's moved weights in the table; add the shard's blocks to the table."""
    keys = gained.key.copy()
    kind, shift = (table[keys[:, 0]] for table in weights.columns())
    number_in_type = keys[:, 1:] - shift
    for number, (name, names) in enumerate(gained.constants.items()):
        place = np.array([weights.stream[name][constant] for constant in names], np.int32)
        new = (kind == number) & (number_in_type >= gained.known[name])
        keys[:, 1:][new] = place[number_in_type[new] - gained.known[name]] + shift[new]
    first = np.array([weights.block(int(key[0]), key[1:]) for key in keys], np.int64)
    size = weights.arrays.block_size[keys[:, 0]]
    theirs = gained.weights + np.cumsum(size) - size
    places = gained.moved.copy()
    added = places >= gained.weights
    block = np.searchsorted(theirs, places[added], "right") - 1
    places[added] += first[block] - theirs[block]
    return places
