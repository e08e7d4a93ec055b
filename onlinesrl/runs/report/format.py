"""Formats of numbers in the report; missing and infinite ones are None."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onlinesrl.runs.report.html import Markup, tag

Figures = Mapping[str, Any]


def number(value: object) -> float | None:
    """Return a finite number, else None."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None  # type: ignore[arg-type]


def count(value: float) -> str:
    """Format an integer: 81,234."""
    return f"{value:,.0f}"


def percent(value: float) -> str:
    """Format a fraction: 91.2%."""
    return f"{100 * value:.1f}%"


def percent_tick(value: float) -> str:
    """Format a round fraction: 90%."""
    return f"{round(100 * value, 6):g}%"


def figure(value: float) -> str:
    """Format any other number: 3.214, 1,563, 1.2e-05."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


WRITE = {"count": count, "percent": percent, "figure": figure}
"""By the names of formats in ``core.evaluation.metric_table``."""


def or_dash(value: object, write: Callable[[float], str]) -> str:
    """Format a number, or return a dash if there is none."""
    known = number(value)
    return "\u2013" if known is None else write(known)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table; the first column is text, the others are numbers."""
    sides = ("", *["number"] * (len(head) - 1))
    lines = [
        tag("tr", *(tag("th", cell, class_=side) for cell, side in zip(head, sides, strict=True)))
    ]
    for row in rows:
        cells = (tag("td", cell, class_=side) for cell, side in zip(row, sides, strict=True))
        lines.append(tag("tr", *cells))
    return tag("div", tag("table", *lines), class_="scroll")


def section(title: str, *content: object) -> Markup:
    """Return a section with a heading."""
    return tag("section", tag("h2", title), *content)


def paragraph(*content: object) -> Markup:
    """Return a paragraph."""
    return tag("p", *content)
