"""HTML safe from injection: everything except Markup is escaped; and how the report formats numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

Figures = Mapping[str, Any]
"""A line of metrics or a summary; missing and infinite figures are None."""

_ORDER = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that reorder what comes after them, beyond the end of a name."""
_CONTROLS = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(0x7F, 0xA0), *_ORDER], "\ufffd"
)
_VOID = ("meta", "line", "path", "polygon", "img")


class Markup(str):
    """HTML text, created only by ``tag`` and ``join``."""

    __slots__ = ()


def tag(element: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element; attribute values and children other than Markup are escaped.

    Children that are None are left out. Underscores in attribute names become hyphens, a final one is
    removed: ``class_``, ``stroke_width``.
    """
    pairs = (
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items()
    )
    end = "" if element in _VOID else f"{join(*children)}</{element}>"
    return Markup(f"<{element}{''.join(pairs)}{'/' if not end else ''}>{end}")


def join(*children: object) -> Markup:
    """Concatenate children, escaped except for Markup."""
    return Markup("".join(text(child) for child in children if child is not None))


def text(value: object) -> Markup:
    """Return an escaped value; control characters become U+FFFD."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(str(value).translate(_CONTROLS)))


# formats of numbers, and elements of the report -----------------------------------------------------


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
    figure = number(value)
    return "\u2013" if figure is None else write(figure)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], texts: int = 1) -> Markup:
    """Return a table; the first columns, so many, are text, the others are numbers."""
    sides = [*[""] * texts, *["number"] * (len(head) - texts)]
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
