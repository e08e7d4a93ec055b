"""The online updates as the textbook has them, on dense vectors: what the learner is held to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
RULES = ("cda1", "cda2", "mira", "subgradient", "perceptron")
CERTIFIED = ("cda1", "cda2", "subgradient")
SHRINKING = ("cda2", "subgradient")


@dataclass(frozen=True, eq=False)
class Round:
    """What one example does to the weights: the label loss, and f(truth) - f(rival)."""

    rho: float
    delta: Vector


@dataclass(frozen=True, eq=False)
class Step:
    """What is known after a round; weights without the base."""

    weights: Vector
    average: Vector
    loss: float
    dual: float
    bound: float


def textbook(
    seen: Sequence[Round], rule: str, sigma: float, eta: float, base: Vector
) -> Iterator[Step]:
    """Yield the state after each round; weights are regularised around `base`."""
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
        yield Step(w, total / t, hinge, dual, primal - dual)


def length(
    rule: str, t: int, margin: float, delta: Vector, *, sigma: float, eta: float
) -> tuple[float, float]:
    """The step along delta, and the multiplier of the dual."""
    square, loss = float(delta @ delta), max(0.0, margin)
    if square == 0.0:
        return 0.0, 1.0
    if rule == "cda1":
        step = min(1 / sigma, loss / square)
        return step, sigma * step
    if rule == "cda2":
        step = min(1 / (sigma * t), loss / square)
        return step, sigma * t * step
    if rule == "subgradient":
        return 1 / (sigma * t), 1.0
    return (loss / square if rule == "mira" else eta), 0.0


def objective(seen: Sequence[Round], rule: str, sigma: float, base: Vector, w: Vector) -> float:
    """The regularised loss of fixed weights base + w on the rounds' own loss functions."""
    losses = [max(0.0, r.rho - float((base + w) @ r.delta)) for r in seen]
    times = len(seen) if rule in SHRINKING else 1
    return times * sigma / 2 * float(w @ w) + sum(losses)


def minimiser(seen: Sequence[Round], rule: str, sigma: float, base: Vector) -> Vector:
    """Nearly the best fixed weights: coordinate ascent on the dual, one multiplier a round."""
    strength = sigma * (len(seen) if rule in SHRINKING else 1)
    alphas, w = np.zeros(len(seen)), np.zeros(len(base))
    for _ in range(50):
        for i, each in enumerate(seen):
            square = float(each.delta @ each.delta)
            if square:
                slope = each.rho - float((base + w) @ each.delta)
                alpha = min(1.0, max(0.0, alphas[i] + strength * slope / square))
                w += (alpha - alphas[i]) / strength * each.delta
                alphas[i] = alpha
    return w
