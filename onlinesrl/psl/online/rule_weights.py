"""The weights of a PSL program: one per weighted rule, never below 0, averaged; dense vectors.

The online updates of ``core.online.update_rules``, with w >= 0. CDA and the subgradient method
minimise sigma/2 |w - base|^2 over w >= 0, with the dual sum u of their steps kept as it is:

    w_t = max(base + s_t u_t, 0),  s_t = 1 (CDA1) or 1 / (t - 1) (CDA2, subgradient)

is the exact minimiser, and since the conjugate of the constrained regulariser is as smooth as without
the constraint, the closed-form step, with its loss taken at the projected weights, ascends the dual
at least as much. By weak duality

    D_T = sum_t alpha_t rho_t - sigma <w, u> + strength / 2 |w - base|^2,  w = w_{T+1},

with strength sigma (CDA1) or sigma T, is below the regularised loss of all fixed w >= 0. MIRA and the
perceptron have no dual; each of their steps is projected, w_{t+1} = max(w_t + c Delta, 0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.restoring import LARGE, MOST, Expected, Misfit, restored
from onlinesrl.core.kernels.averaging import DUAL, LOSS, PRIMAL, T
from onlinesrl.core.online.averaged_weights import LearnedWeights
from onlinesrl.core.online.reservoir import NO_DUAL, DualBlock
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.core.rule_instance import PlacedWeight
from onlinesrl.psl.lang.ast import LARGEST, PslProgram, PslRule, with_weights
from onlinesrl.psl.lang.text import show_unweighted

_SAVED = {
    "base": Expected(np.float64, ("rules",), 0.0),
    "dual": Expected(np.float64, ("rules",)),
    "total": Expected(np.float64, ("rules",), 0.0),
    "uses": Expected(np.int64, ("rules",), 0, MOST),
    "scalar": Expected(np.float64, (6,), (0, *[-LARGE] * 5), (MOST, *[LARGE] * 5)),
}


@dataclass(frozen=True)
class RuleWeight:
    """The weight of a rule that predicts, and the updates that it took part in; see ``WeightEntry``."""

    text: str
    weight: float
    uses: int
    key: tuple[str, ...] = ()
    instance: str = ""
    standard_error: None = None


class RuleWeights(LearnedWeights):
    """Owns the weights, float64[rules] each; those of hard rules stay 0.

    Of the scalars, S and the norm of u are not needed.
    """

    def __init__(self, program: PslProgram, update: Update):
        super().__init__(update)
        self.program = program
        self.base = np.array([rule.weight or 0.0 for rule in program.rules])
        n = len(self.base)
        self.dual, self.total, self.uses = np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
        self.optimizer_state = {name: np.zeros(n) for name in update.columns}
        self.dual_block = NO_DUAL
        """See ``core.online.averaged_weights.AveragedWeights.dual_block``."""

    def __len__(self) -> int:
        """Return the number of weighted rules."""
        return sum(rule.weight is not None for rule in self.program.rules)

    @property
    def vanished(self) -> bool:
        """Whether updates have made nothing of all weights that took part in them."""
        used = self.uses > 0
        least = 1e-6 * self.base[used].max(initial=0.0)
        return bool(used.any() and self.current()[used].max() <= least)

    def current(self) -> Floats:
        """Return w_{T+1}, with which the next rival is found."""
        metric = self.update.metric(self.optimizer_state)
        return self._weights(self.scale(), metric)

    def averaged(self) -> Floats:
        """Return what predicts: the mean of w_2 .. w_{T+1} (before it the start), or the current weights."""
        if self.update.predict == "current":
            return self.current()
        return self.total / self.updates if self.updates else self.base

    def _weights(self, scale: float, metric: Floats | float) -> Floats:
        return np.maximum(self.base + scale * self.dual / metric, 0.0)

    def learn(self, rho: float, delta: Floats, cost: float = 1.0, again: bool = False) -> float:
        """Make one update; returns the loss g_t(w_t).

        ``rho`` is the label loss of the rival, ``delta`` float64[rules] the features of the truth less
        the rival's, and the loss counts ``cost`` times; ``again``: the example was learned from before; see
        ``core.online.averaged_weights.learn``. NaN: some number would not be finite, and nothing was changed.
        """
        update, t, block = self.update, self.updates + (not again), np.zeros(len(self.base))
        weights, rho = self.current(), cost * update.required(rho)
        if update.has_blocks:
            block[self.dual_block.weights] = self.dual_block.value
            rho, delta, cost = rho - self.dual_block.rho, cost * delta - block, 1.0
        loss = max(0.0, rho - cost * float(weights @ delta))
        metric = update.metric(self.optimizer_state, delta)
        shrunk = self._weights(1.0 / t if update.shrinks else update.scale(t), metric)
        margin, norm = rho - cost * float(shrunk @ delta), float(delta / metric @ delta)
        c, alpha = (
            update.step(t, margin, 0.0, cost * cost * norm) if norm else (0.0, float(margin > 0))
        )
        c *= cost
        dual = self.dual + c * delta
        if not update.dual:
            dual = np.maximum(dual, -self.base)
        primal = loss
        if update.shrinks:
            primal += 0.5 * update.strength * float(np.sum((weights - self.base) ** 2))
        scalar = self.scalar + np.array([1.0, 0.0, 0.0, alpha * rho, primal, loss])
        if again:
            kept = [T, PRIMAL, LOSS]
            scalar[kept] = self.scalar[kept]
        if not (np.all(np.abs(dual) <= LARGEST) and np.all(np.abs(scalar) <= LARGEST)):
            return float("nan")
        self.uses += (delta != 0.0) & (c != 0.0)
        self.dual, self.scalar = dual, scalar
        if c:
            update.accumulate(self.optimizer_state, delta)
        self.total = self.total + self.current() - (weights if again else 0.0)
        if update.has_blocks:
            block += alpha * delta
            places = np.flatnonzero(block)
            total = self.dual_block.rho + alpha * rho
            self.dual_block = DualBlock(places, block[places], total)
        return loss

    def dual_value(self) -> float:
        """See ``LearnedWeights.dual_value``; the minimum of the Lagrangian over w >= 0 is at ``current``."""
        sigma, weights = self.update.strength, self.current()
        strength = sigma * (self.updates if self.update.shrinks else 1)
        metric = self.update.metric(self.optimizer_state)
        dual = float(self.scalar[DUAL]) - sigma * float(weights @ self.dual)
        return dual + 0.5 * strength * float(np.sum(metric * (weights - self.base) ** 2))

    # names ---------------------------------------------------------------------------------------

    def entries(self) -> Iterator[RuleWeight]:
        """Yield every weight, in the order of the rules."""
        seen: Counter[str] = Counter()
        for rule, weight, uses in zip(
            self.program.rules, self.averaged().tolist(), self.uses.tolist(), strict=True
        ):
            if rule.weight is not None:
                text = show_unweighted(rule)
                seen[text] += 1
                key = (f"the {seen[text]}.",) if seen[text] > 1 else ()
                yield RuleWeight(text, weight, uses, key, *key)

    def placed(self) -> list[PlacedWeight]:
        """Return every weight by the number of its rule."""
        numbered = enumerate(zip(self.program.rules, self.averaged().tolist(), strict=True))
        return [PlacedWeight(n, (), w) for n, (rule, w) in numbered if rule.weight is not None]

    def trained(self) -> PslProgram:
        """Return the program with the weights that predict."""
        return with_weights(self.program, self.averaged().tolist())

    def start(self, other: PslProgram) -> list[PslRule]:
        """Start with the weights of another program; return its rules that this one does not have.

        Rules are matched by their text without the weight, equal ones in order.
        """
        places: dict[str, list[int]] = {}
        for place, rule in enumerate(self.program.rules):
            places.setdefault(show_unweighted(rule), []).append(place)
        unmatched = []
        for rule in other.rules:
            fitting = places.get(show_unweighted(rule))
            if fitting:
                self.base[fitting.pop(0)] = rule.weight or 0.0
            else:
                unmatched.append(rule)
        return unmatched

    # checkpoints ---------------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        """Return the arrays of a checkpoint."""
        arrays = {name: getattr(self, name).copy() for name in _SAVED}
        return arrays | {name: column.copy() for name, column in self.optimizer_state.items()}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state that ``save`` returned, bit for bit. Raises Misfit."""
        column = Expected(np.float64, ("rules",), 0.0)
        expected = _SAVED | dict.fromkeys(self.optimizer_state, column)
        saved = restored(arrays, expected, rules=len(self.base))
        if saved["scalar"][T] % 1:
            raise Misfit("the number of updates is not whole")
        for name in _SAVED:
            setattr(self, name, np.array(saved[name]))
        self.optimizer_state = {name: np.array(saved[name]) for name in self.optimizer_state}
