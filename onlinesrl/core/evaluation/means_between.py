"""Means of a sum between the points of a curve."""

from __future__ import annotations

from collections.abc import Sequence


def means_between(
    examples: Sequence[float | None], totals: Sequence[float | None]
) -> list[float | None]:
    """Return the mean of a sum over the examples since the point before; None where it is not known."""
    means, before = list[float | None](), (0.0, 0.0)
    for at, total in zip(examples, totals, strict=True):
        mean = None
        if at is not None and total is not None and at > before[0]:
            mean, before = (total - before[1]) / (at - before[0]), (at, total)
        means.append(mean)
    return means
