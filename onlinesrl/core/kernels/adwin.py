"""ADWIN: a window of the newest values, whose older part is dropped when its mean differs.

Bifet & Gavalda, Learning from time-changing data with adaptive windowing, SIAM Data Mining 2007: figure 1,
with the exponential histogram of section 4 and the bound of its equation 3.1 for values in [0, 1].
"""

import math

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

LEVELS = 48
BUCKETS = 5
"""The most buckets of a level; with one more, its two oldest merge into one of the next level."""
LEAST = 5
"""The fewest values on either side of a cut."""


class Window(Frame):
    """The newest values in buckets of 2**level values each; the oldest bucket of a level comes first."""

    total: Floats  # [level, bucket] the sum of the values
    spread: Floats  # [level, bucket] the sum of their squared deviations from their mean
    size: Ints  # [level] the number of buckets


def empty() -> Window:
    """Return a window without values."""
    room = LEVELS, BUCKETS + 1
    return Window(np.zeros(room), np.zeros(room), np.zeros(LEVELS, np.int64))


@kernel
def add(w: Window, x: float, delta: float) -> bool:
    """Add a value in [0, 1], and cut the window; tell whether a newer part had the greater mean.

    ``delta`` bounds the probability that a window of equally distributed values is cut.
    """
    _push(w, 0, x, 0.0)
    level = 0
    while w.size[level] > BUCKETS:
        width = 2.0**level
        first, second = w.total[level, 0], w.total[level, 1]
        between = (first - second) ** 2 / (2.0 * width)
        spread = w.spread[level, 0] + w.spread[level, 1] + between
        _shift(w, level)
        _shift(w, level)
        _push(w, level + 1, first + second, spread)
        level += 1
    risen = False
    while True:
        cut = _cut(w, delta)
        if cut == 0:
            return risen
        risen |= cut > 0
        level = LEVELS - 1
        while w.size[level] == 0:
            level -= 1
        _shift(w, level)


@kernel
def _push(w: Window, level: int, total: float, spread: float) -> None:
    """Add the newest bucket of a level."""
    w.total[level, w.size[level]] = total
    w.spread[level, w.size[level]] = spread
    w.size[level] += 1


@kernel
def _shift(w: Window, level: int) -> None:
    """Drop the oldest bucket of a level."""
    w.size[level] -= 1
    for b in range(w.size[level]):
        w.total[level, b] = w.total[level, b + 1]
        w.spread[level, b] = w.spread[level, b + 1]


@kernel
def _cut(w: Window, delta: float) -> int:
    """Return 1 if the mean rises after some bucket, -1 if it falls, 0 if no bucket parts different means."""
    n, total, spread = 0.0, 0.0, 0.0
    for level in range(LEVELS):
        for b in range(w.size[level]):
            n += 2.0**level
            total += w.total[level, b]
    if n < 2 * LEAST:
        return 0
    for level in range(LEVELS):
        width = 2.0**level
        for b in range(w.size[level]):
            spread += w.spread[level, b] + width * (w.total[level, b] / width - total / n) ** 2
    log = math.log(2.0 * math.log(n) / delta)
    old, before = 0.0, 0.0
    for level in range(LEVELS - 1, -1, -1):
        for b in range(w.size[level]):
            old += 2.0**level
            before += w.total[level, b]
            new = n - old
            if old >= LEAST and new >= LEAST:
                rise = (total - before) / new - before / old
                share = 1.0 / old + 1.0 / new
                bound = math.sqrt(2.0 * share * spread / n * log) + 2.0 / 3.0 * share * log
                if abs(rise) > bound:
                    return 1 if rise > 0.0 else -1
    return 0
