"""How the report writes numbers; what is missing or not finite is None and never shown as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onlinesrl.runs.report.markup import Markup, tag

Figures = Mapping[str, Any]


def number(value: object) -> float | None:
    """Return a finite number, or None for anything else."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None  # type: ignore[arg-type]


def count(value: float) -> str:
    """Write a whole number: 81,234."""
    return f"{value:,.0f}"


def percent(value: float) -> str:
    """Write a share of one: 91.2%."""
    return f"{100 * value:.1f}%"


def percent_tick(value: float) -> str:
    """Write a round share of one: 90%."""
    return f"{round(100 * value, 6):g}%"


def figure(value: float) -> str:
    """Write any other number: 3.214, 1,563, 1.2e-05."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def or_dash(value: object, write: Callable[[float], str]) -> str:
    """Write a number, or a dash where there is none."""
    known = number(value)
    return "\u2013" if known is None else write(known)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table whose first column is text and whose others are numbers."""
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
