"""The temperature of probabilities, fitted online.

A margin learner's weights w order states; exp(w . f) may be too certain or too uncertain. Probabilities at a
temperature 1 / b are those of the weights b w (Guo et al., ICML 2017, section 4.2). The derivative of
log P(truth) by log b is

    slope = b (w . f(truth) - E w . f),

the expectation by the weights b w. log b takes steps of AdaGrad along the slopes (Duchi, Hazan & Singer
2011), each by weights that have not learned from that truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.restoring import Misfit, converted
from onlinesrl.core.jit.decorators import kernel

LOG, SQUARES = 0, 1
"""The numbers of a temperature: log b, and the sum of the squared slopes."""
WIDEST = 100.0
"""The largest size of log b."""


@kernel
def inverse(state: Floats) -> float:
    """Return b."""
    return math.exp(state[LOG])


@kernel
def fit(state: Floats, slope: float) -> None:
    """Make a step of log b along a slope, if that is finite."""
    squares = state[SQUARES] + slope * slope
    if 0.0 < squares < math.inf:
        state[SQUARES] = squares
        state[LOG] = min(max(state[LOG] + slope / math.sqrt(squares), -WIDEST), WIDEST)


class Temperature:
    """A temperature that is fitted to truths before they are learned from.

    ``state`` is float64[2], see ``LOG`` and ``SQUARES``.

    >>> temperature = Temperature()
    >>> temperature.value
    1.0
    >>> fit(temperature.state, -2.0)
    >>> round(temperature.value, 3)
    2.718
    """

    def __init__(self) -> None:
        self.state: Floats = np.zeros(2)
        self.fitted = True
        """Whether examples that are learned from change it."""

    @property
    def inverse(self) -> float:
        """The factor b of weights."""
        return inverse(self.state)

    @property
    def value(self) -> float:
        """The temperature, 1 / b."""
        return 1.0 / self.inverse

    def save(self) -> dict[str, float]:
        """Return log b and the sum of the squares as JSON can hold them."""
        return {"log": float(self.state[LOG]), "squares": float(self.state[SQUARES])}

    def restore(self, saved: Mapping[str, float]) -> None:
        """Restore what ``save`` returned; nothing stands for a new temperature. Raises Misfit."""
        numbers = converted(saved, dict[str, float])
        log, squares = numbers.get("log", 0.0), numbers.get("squares", 0.0)
        if not (abs(log) <= WIDEST and 0.0 <= squares < math.inf):
            raise Misfit("the temperature has a number out of its range")
        self.state[:] = log, squares

    def since(self, start: Mapping[str, float]) -> dict[str, float]:
        """Return what was added after ``start``, which an earlier ``save`` returned."""
        return {name: value - start.get(name, 0.0) for name, value in self.save().items()}

    def merge(self, gains: Sequence[Mapping[str, float]]) -> None:
        """Add the mean step of several that were fitted, and all their squares."""
        steps = [gain["log"] for gain in gains if gain["squares"]]
        self.state[LOG] += math.fsum(steps) / max(1, len(steps))
        self.state[SQUARES] += math.fsum(gain["squares"] for gain in gains)


@contextmanager
def held(temperature: Temperature | None) -> Iterator[None]:
    """Keep a temperature, if there is one, as it is while examples are learned from once more."""
    if temperature is None:
        yield
        return
    temperature.fitted = False
    try:
        yield
    finally:
        temperature.fitted = True


def scaled_by(temperature: float) -> str:
    """Say in words what a temperature does."""
    return (
        f"probabilities are scaled by temperature {temperature:.3g}, which was fitted to predictions made "
        "before their truth was seen"
    )
