"""Averaged weights under an online update: one update along a gap, and the certificate of all updates.

``core.kernels.averaging`` stores the weights and their averages; ``update_rules`` gives the size of a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, enlarged
from onlinesrl.core.jit.address import pair_at
from onlinesrl.core.jit.decorators import kernel, kernel_of
from onlinesrl.core.kernels.averaging import (
    DUAL,
    HUGE,
    LOSS,
    NORM,
    PRIMAL,
    Averaged,
    S,
    T,
    clear_gap,
    measure,
    move,
)
from onlinesrl.core.kernels.covariance import LEAST, SLOTS, Covariance
from onlinesrl.core.kernels.dual_block import Block, move_block, subtract
from onlinesrl.core.online.metric_steps import divide, measure_by_metric, move_by_metric
from onlinesrl.core.online.reservoir import NO_DUAL, DualBlock
from onlinesrl.core.online.update_rules.rule import (
    NO_BLOCK,
    NO_COVARIANCE,
    OptimizerState,
    Update,
    UpdateParams,
    required,
    scale,
)
from onlinesrl.core.online.update_rules.second_order import move_across

BEYOND_RANGE = "its update overflows: learner.sigma is too small, or the weights are too large"
"""Why an example cannot be learned from."""


@kernel
def learn(
    weights: Averaged,
    params: UpdateParams,
    scalar: Floats,
    n: int,
    rho: float,
    cost: float,
    again: bool,
) -> float:
    """Make one update along the gap in ``delta``, of ``n`` weights; returns the loss g_t(w_t).

    The loss is that of ``cost`` Delta and ``cost`` rho. An example with an outlier counts less in all but the
    loss that is returned (``metric_steps``). With the margin m = rho - <base, Delta> and the step c and the
    multiplier alpha of the update rule:

        g_t(w_t) = max(0, m - s_t <u, Delta>)             u      grows by  c Delta
        dual     grows by  alpha m                        |u|^2  grows by  2 c <u, Delta> + c^2 |Delta|^2
        primal   grows by  g_t(w_t) + sigma / 2 s_t^2 |u|^2, where updates shrink the weights

    NaN: some number would not be finite, and no weight has changed. The gap is cleared.

    ``again``: the example was learned from before. Then T and the sums of losses stay, and the last vector of
    the average becomes that after this update. Where the rule ``moves`` duals, Delta and rho are those less
    the example's block, which moves along; what is returned is then the duality gap of the example.
    """
    t = int(scalar[T]) + (0 if again else 1)
    share = divide(weights, params, n)
    margin_wanted = required(params.rooted, rho) * share
    if len(params.block.index) > 0:
        n = subtract(weights, params.block, n, cost)
        margin_wanted = cost * margin_wanted - params.block.rho[0]
        cost = 1.0
    if params.metric:
        margin, dot, norm, moved, rescaled = measure_by_metric(weights, params, n, margin_wanted)
    else:
        margin, dot, norm = measure(weights, n, margin_wanted)
        moved, rescaled = dot, 0.0
    s = scale(params.shrinks, int(scalar[T]) + 1)
    margin *= cost
    loss = margin - s * cost * dot
    loss = loss if loss > 0.0 else 0.0
    c, alpha = 0.0, 1.0 if margin > 0.0 else 0.0
    if norm != 0.0:
        c, alpha = pair_at(params.formula, params, t, margin, cost * moved, cost * cost * norm)
        c *= cost
    length, dual, primal = scalar[NORM], scalar[DUAL] + alpha * margin, scalar[PRIMAL]
    if not again:
        primal += loss
    if params.shrinks and not again:
        primal += 0.5 * params.sigma * s * s * length
    if c != 0.0:
        length += rescaled + (2.0 * c * moved + c * c * norm)
    fits = abs(primal) <= HUGE and abs(length) <= HUGE and abs(dual) <= HUGE
    if not (fits and loss <= HUGE * share):
        c = np.nan
    if len(params.block.index) > 0:
        move_block(weights, params.block, n, alpha, margin_wanted)
    s = scalar[S] - (scale(params.shrinks, t + 1) if again else 0.0)
    if not (move_by_metric(weights, params, n, c, s) if params.metric else move(weights, n, c, s)):
        return np.nan
    scalar[NORM], scalar[DUAL], scalar[PRIMAL] = length, dual, primal
    if again:
        return loss
    scalar[T], scalar[S] = t, scalar[S] + scale(params.shrinks, t + 1)
    scalar[LOSS] += loss / share
    return float(loss / share)


@kernel_of("covers", False)
def move_along(
    weights: Averaged, params: UpdateParams, scalar: Floats, n: int, t: float, loss: float
) -> bool:
    """Move the weights by t S g, after ``covariance.multiply`` by the gap g of ``n`` weights.

    False: some number would not be finite, and nothing has changed.
    """
    primal = scalar[PRIMAL] + loss
    if not (abs(primal) <= HUGE and move_across(weights, params, n, t, scalar[S])):
        return False
    scalar[T], scalar[S], scalar[PRIMAL] = scalar[T] + 1.0, scalar[S] + 1.0, primal
    scalar[LOSS] += loss
    return True


def certificate(
    updates: int, loss: float, primal: float, dual: float | None, sampled: int = 0
) -> dict[str, float | None]:
    """Return the mean loss, the dual value and the bound on the regret, each None if unknown.

    ``loss`` and ``primal`` are sums over ``updates`` updates; an update without a dual has no bound.
    ``sampled`` is the number of those along sampled expectations where exact ones were wanted.
    """
    return {
        "loss": loss / updates if updates else None,
        "dual": dual,
        "regret_bound": None if dual is None else primal - dual,
        **({"sampled": sampled} if sampled else {}),
    }


class LearnedWeights:
    """Weights that an ``update`` learns; ``optimizer_state`` has its columns, one number per weight."""

    optimizer_state: dict[str, Floats]

    def __init__(self, update: Update):
        self.update = update
        self.scalar: Floats = np.zeros(6)  # averaging.T .. averaging.LOSS
        self.dropped = 0
        self.sampled = 0

    @property
    def updates(self) -> int:
        """The number T of updates so far."""
        return int(self.scalar[T])

    def scale(self) -> float:
        """Return s_{T+1}: the present weights are base + s_{T+1} u."""
        return self.update.scale(int(self.scalar[T]) + 1)

    def dual_value(self) -> float:
        """Return the dual value D_T of an update that ``bounds`` the regret, T > 0."""
        t, _, length, dual, _, _ = self.scalar.tolist()
        sigma = self.update.strength
        return float(dual - (sigma / (2.0 * t) if self.update.shrinks else sigma / 2.0) * length)

    def certificate(self) -> dict[str, float | None]:
        """Return the mean loss, the dual value D_T and the bound that it gives on the regret.

        If updates shrink the weights, this bounds the regret; otherwise, the excess of the summed loss over
        the least regularised loss. It is None for updates without a dual, and once weights were dropped or
        expectations were ``sampled``, as those of the log-likelihood are where elimination is too wide.
        """
        t, primal, loss = (float(self.scalar[n]) for n in (T, PRIMAL, LOSS))
        known = self.update.bounds and not self.dropped and not self.sampled and t
        dual = self.dual_value() if known else None
        return certificate(int(t), loss, primal, dual, self.sampled)


class AveragedWeights(LearnedWeights):
    """Weights in the arrays of ``core.kernels.averaging``."""

    arrays: Any  # Averaged, or a frame with more

    def __init__(self, update: Update):
        super().__init__(update)
        self.covariance = NO_COVARIANCE
        self._how: tuple[OptimizerState, UpdateParams] | None = None

    def mean(self) -> tuple[float, float]:
        """Return (cu, cv): the weight that predicts, averaged or current, is base + cu u + cv v."""
        if self.update.predict == "current":
            return self.scale(), 0.0
        t, sum_s = self.scalar[T : S + 1].tolist()
        return (sum_s / t, -1.0 / t) if t else (0.0, 0.0)

    @property
    def how(self) -> UpdateParams:
        """The update and its constants, with the state of its optimiser."""
        state = self.optimizer_state
        if self._how is None or self._how[0] is not state:
            block = NO_BLOCK if self._how is None else self._how[1].block
            if self.update.has_blocks:
                block = block.enlarged(len(self.arrays.touched))
            if self.update.covers:
                self.covariance = self._covariance()
            self._how = state, self._compiled(block)
        return self._how[1]

    def _compiled(self, block: Block) -> UpdateParams:
        return self.update.compiled(self.optimizer_state, block, self.covariance)

    def _covariance(self) -> Covariance:
        """Return the covariance with the present columns of the weights, in slots as before."""
        state, old, uses = self.optimizer_state, self.covariance, self.arrays.uses
        weights = len(self.arrays.value)
        columns: dict[str, Any] = {"variance": state["variance"], "scale": state["scale"]}
        columns["slot"] = enlarged(old.slot, weights)
        columns["uses"] = uses
        if old is not NO_COVARIANCE:
            names = "matrix", "weight", "size", "pending", "share", "product"
            columns |= {name: getattr(old, name) for name in names}
        return Covariance.zeros(columns, weight=weights, slot=self.update.slots)

    def standard_errors(self, n: int) -> list[float | None]:
        """Return the root of the variance of each of the first ``n`` weights; None where there is none.

        That is a weight without a covariance, or one whose feature no example has had.
        """
        if not self.update.covers:
            return [None] * n
        c = self.how.covariance
        k = c.size[SLOTS]
        variance = c.variance.copy()
        variance[c.weight[:k]] = np.diagonal(c.matrix)[:k]
        return [float(error) or None for error in np.sqrt(variance[:n])]

    def gap_variance(self, n: int) -> float:
        """Return the variance d'S d of the score along the gap d, which touches ``n`` weights, and clear it.

        The update has a covariance. A weight that no example has used has its first variance.
        """
        places, d = self.arrays.touched[:n].copy(), self.arrays.delta[:n].copy()
        clear_gap(self.arrays, n)
        c = self.how.covariance
        full = c.slot[places] > 0
        slots = c.slot[places[full]] - 1
        alone = np.where(c.scale[places] > 0.0, c.variance[places] * d * d, self.update.constant)
        v = d[full] @ c.matrix[np.ix_(slots, slots)] @ d[full] + alone[~full & (d != 0.0)].sum()
        return float(max(v, 0.0))

    def slots(self) -> dict[str, Any]:
        """Return the covariances between weights: ``matrix`` [slot, slot], and the weights in ``slots``."""
        c = self.how.covariance
        k = c.size[SLOTS]
        return {"matrix": c.matrix[:k, :k].copy(), "slots": c.weight[:k].copy()}

    def set_slots(self, slots: Ints, matrix: Floats) -> None:
        """Set what ``slots`` returns."""
        c, k = self.how.covariance, len(slots)
        c.matrix[:k, :k], c.weight[:k], c.slot[:] = matrix, slots, 0
        c.slot[slots] = np.arange(1, k + 1)
        c.size[SLOTS], c.size[LEAST] = k, 0

    @property
    def dual_block(self) -> DualBlock:
        """What the last example has in the dual; nothing where the update moves no duals.

        Assigning it says of which example the next update is.
        """
        if not self.update.has_blocks:
            return NO_DUAL
        block = self.how.block
        n = int(block.size[0])
        places = np.flatnonzero(block.value[:n])
        return DualBlock(block.index[places], block.value[places], float(block.rho[0]))

    @dual_block.setter
    def dual_block(self, block: DualBlock) -> None:
        if self.update.has_blocks:
            room, n = self.how.block, len(block.weights)
            room.index[:n], room.value[:n], room.size[0], room.rho[0] = *block[:2], n, block.rho
