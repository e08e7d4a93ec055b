"""The online updates as the textbook has them, on dense vectors: what the learner is held to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
RULES = (
    *("cda1", "cda2", "pa1", "simple", "mira", "subgradient", "perceptron", "cd", "adagrad"),
    "log-likelihood",
)
CERTIFIED = ("cda1", "cda2", "pa1", "simple", "subgradient", "adagrad", "log-likelihood")
SHRINKING = ("cda2", "subgradient")
ASCENDING = ("cda1", "cda2", "pa1", "adagrad")
CLOSE_CALL = 1e-9
"""AdaGrad's H grows by an example with a loss, however small: rounding may say whether there is one."""


@dataclass(frozen=True, eq=False)
class Round:
    """What one example does to the weights: the label loss, f(truth) - f(rival), how often it counts."""

    rho: float
    delta: Vector
    cost: float = 1.0


@dataclass(frozen=True, eq=False)
class Step:
    """What is known after a round; weights without the base.

    ``metric`` is AdaGrad's H, of other updates ones; ``slope`` the dual's, where the step begins.
    """

    weights: Vector
    average: Vector
    loss: float
    dual: float
    bound: float
    metric: Vector
    slope: float = np.inf

    @property
    def undecided(self) -> bool:
        """Whether rounding decides if the example has a loss."""
        return abs(self.slope) <= CLOSE_CALL


def asked(rule: str, seen: Sequence[Round]) -> Sequence[Round]:
    """The rounds with the margins that are asked for; a loss that counts c times is that of c Delta."""
    return [
        Round(r.cost * float(np.sqrt(r.rho) if rule == "pa1" else r.rho), r.cost * r.delta, r.cost)
        for r in seen
    ]


def textbook(
    seen: Sequence[Round], rule: str, sigma: float, eta: float, base: Vector
) -> Iterator[Step]:
    """Yield the state after each round; weights are regularised around `base`.

    `eta` is the perceptron's step, and AdaGrad's delta.
    """
    if rule == "adagrad":
        yield from adagrad(seen, sigma, eta, base)
        return
    if rule == "log-likelihood":
        yield from dual_averaging(seen, sigma, eta, base)
        return
    seen = asked(rule, seen)
    w, total, primal = np.zeros(len(base)), np.zeros(len(base)), 0.0
    alphas: list[float] = []
    for t, each in enumerate(seen, start=1):
        rho = each.rho - float(base @ each.delta)
        hinge = max(0.0, rho - float(w @ each.delta))
        primal += hinge + (sigma / 2 * float(w @ w) if rule in SHRINKING else 0.0)
        shrunk = (t - 1) / t * w if rule in SHRINKING else w
        step, alpha = 0.0, 0.0
        if each.rho:
            margin = rho - float(shrunk @ each.delta)
            step, alpha = length(rule, t, margin, each.delta, sigma=sigma, eta=eta)
        w = shrunk + step * each.delta
        total += w
        alphas.append(alpha)
        strength = sigma * t if rule in SHRINKING else sigma
        dual = -strength / 2 * float(w @ w) + sum(
            a * (r.rho - float(base @ r.delta)) for a, r in zip(alphas, seen, strict=False)
        )
        yield Step(w, total / t, hinge, dual, primal - dual, np.ones(len(base)))


def adagrad(seen: Sequence[Round], sigma: float, offset: float, base: Vector) -> Iterator[Step]:
    """AdaGrad-CDA from its definitions: each state is made anew from all multipliers so far.

    H = offset + sqrt(sum of Delta^2 over the rounds with a multiplier), and the multiplier of a round, which
    is at most its cost, maximises the dual with H as this round makes it.
    """
    w, total, losses = np.zeros(len(base)), np.zeros(len(base)), 0.0
    alphas: list[float] = []
    margins = [each.rho - float(base @ each.delta) for each in seen]
    deltas = np.array([each.delta for each in seen]).reshape(len(seen), len(base))
    for t in range(1, len(seen) + 1):
        rho, delta, cost = margins[t - 1], deltas[t - 1], seen[t - 1].cost
        hinge = cost * max(0.0, rho - float(w @ delta))
        losses += hinge
        alpha, slope = cost, np.inf
        if delta.any():
            taken = [n for n, a in enumerate(alphas) if a]
            metric = offset + np.sqrt(np.sum(deltas[[*taken, t - 1]] ** 2, axis=0))
            pull = np.array(alphas) @ deltas[: t - 1]
            slope = rho - float(pull / (sigma * metric) @ delta)
            curvature = float(delta**2 @ (1 / metric)) / sigma
            alpha = float(np.clip(slope / curvature, 0.0, cost))
        alphas.append(alpha)
        multiplier = np.array(alphas)
        metric = offset + np.sqrt(np.sum(deltas[:t][multiplier > 0] ** 2, axis=0))
        w = multiplier @ deltas[:t] / (sigma * metric)
        total += w
        dual = float(multiplier @ margins[:t]) - sigma / 2 * float(metric @ w**2)
        yield Step(w, total / t, hinge, dual, losses - dual, metric, slope)


def dual_averaging(
    seen: Sequence[Round], sigma: float, offset: float, base: Vector
) -> Iterator[Step]:
    """The least of - sum of <Delta, w> + sigma/2 ||w||_H^2 after each round, H as that of AdaGrad.

    The dual is that least sum, with rho - <base, Delta> of each round.
    """
    w, total, pull, square = (np.zeros(len(base)) for _ in range(4))
    margins = losses = 0.0
    for t, round_ in enumerate(seen, start=1):
        cost, margin = round_.cost, round_.rho - float(base @ round_.delta)
        loss = cost * max(0.0, margin - float(w @ round_.delta))
        margins, losses = margins + cost * margin, losses + loss
        pull, square = pull + cost * round_.delta, square + round_.delta**2
        metric = offset + np.sqrt(square)
        w = pull / (sigma * metric)
        total += w
        dual = margins - sigma / 2 * float(metric @ w**2)
        yield Step(w, total / t, loss, dual, losses - dual, metric)


def length(
    rule: str,
    t: int,
    margin: float,
    delta: Vector,
    *,
    sigma: float,
    eta: float,
    metric: Vector | float = 1.0,
) -> tuple[float, float]:
    """The step along delta, and the multiplier of the dual."""
    square, loss = float(delta / metric @ delta), max(0.0, margin)
    if square == 0.0:
        return 0.0, 1.0
    if rule in {"cda1", "pa1", "adagrad"}:
        step = min(1 / sigma, loss / square)
        return step, sigma * step
    if rule == "cda2":
        step = min(1 / (sigma * t), loss / square)
        return step, sigma * t * step
    if rule == "subgradient":
        return 1 / (sigma * t), 1.0
    if rule == "simple":
        return (loss > 0) / sigma, float(loss > 0)
    return (loss / square if rule == "mira" else eta), 0.0


def objective(
    seen: Sequence[Round], rule: str, sigma: float, base: Vector, w: Vector, metric: Vector
) -> float:
    """The regularised loss of fixed weights base + w on the rounds' own loss functions."""
    losses = [max(0.0, r.rho - float((base + w) @ r.delta)) for r in asked(rule, seen)]
    times = len(seen) if rule in SHRINKING else 1
    return times * sigma / 2 * float(metric @ w**2) + sum(losses)


def minimiser(
    seen: Sequence[Round], rule: str, sigma: float, base: Vector, metric: Vector
) -> Vector:
    """Nearly the best fixed weights: coordinate ascent on the dual, one multiplier a round."""
    strength = sigma * (len(seen) if rule in SHRINKING else 1)
    alphas, w = np.zeros(len(seen)), np.zeros(len(base))
    for _ in range(50):
        for i, each in enumerate(asked(rule, seen)):
            square = float(each.delta / metric @ each.delta)
            if square:
                slope = each.rho - float((base + w) @ each.delta)
                alpha = min(1.0, max(0.0, alphas[i] + strength * slope / square))
                w += (alpha - alphas[i]) / strength * each.delta / metric
                alphas[i] = alpha
    return w
