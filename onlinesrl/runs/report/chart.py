"""A line chart, as SVG with HTML labels.

The SVG stretches with the window; the labels are HTML beside it, placed in per cent, and do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onlinesrl.runs.report.html import Markup, join, tag

Point = tuple[float, float]

_BUCKETS = 400


@dataclass(frozen=True, slots=True)
class Series:
    """A line: its name, and its points by increasing x."""

    label: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class _Axis:
    """A scale from numbers to per cent of the plot, with ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    scale: Callable[[float], float] = float

    def place(self, value: float) -> float:
        """Return the place of ``value`` in per cent."""
        low, high = self.scale(self.low), self.scale(self.high)
        return round(100 * (self.scale(value) - low) / (high - low), 2)


def line_chart(
    series: Sequence[Series],
    *,
    label: str,
    show: Callable[[float], str],
    tick: Callable[[float], str],
    shade: bool = False,
    marks: Sequence[float] = (),
    across: str = "examples seen",
    log: str = "x",
) -> Markup:
    """Draw lines, by default over the number of examples, on a logarithmic scale.

    ``show`` formats values, ``tick`` the labels of the vertical axis. ``shade`` fills between the first
    two lines, whose points must be at the same x. ``marks`` are x at which drift was signalled.
    ``across`` says what x is; ``log`` which scales are logarithmic, "x", "y", "xy" or none, on which
    numbers are above 0. Series without points are left out; at least one must have points.
    """
    drawn = [line for line in series if line.points]
    x = _axis([x for line in drawn for x, _ in line.points], "x" in log)
    y = _axis([y for line in drawn for _, y in line.points], "y" in log)
    lines = [  # in per cent, from the top left
        [
            (x.place(at), round(100 - y.place(v), 2))
            for at, v in thin(line.points, x.place, _BUCKETS)
        ]
        for line in drawn
    ]
    return tag(
        "figure",
        _legend(drawn, show, len(marks)),
        tag(
            "div",
            tag("div", *(_tick("top", 100 - y.place(v), tick(v)) for v in y.ticks), class_="y"),
            _svg(lines, x, y, shade=shade, marks=[n for n in marks if x.low <= n <= x.high]),
            tag("div", *(_tick("left", x.place(v), compact(v)) for v in x.ticks), class_="x"),
            class_="plot",
        ),
        tag("p", f"{across} (logarithmic scale)" if "x" in log else across, class_="axis"),
        class_="chart",
        role="group",
        aria_label=label,
    )


def compact(value: float) -> str:
    """Format a number briefly: 500, 20k, 3M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def linear_ticks(low: float, high: float, steps: int = 5) -> tuple[float, ...]:
    """Return at most ``steps`` + 2 multiples of 1, 2 or 5 times a power of ten around low..high."""
    least = (high - low) / steps
    power = 10.0 ** math.floor(math.log10(least))
    step = next((s * power for s in (1, 2, 5) if s * power >= least), 10 * power)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(index * step, 12) for index in range(first, last + 1))


def log_ticks(low: float, high: float, most: int = 8) -> tuple[float, ...]:
    """Return at most ``most`` round numbers between low and high, evenly spread on a logarithmic scale."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = tuple(d * 10.0**k for k in decades for d in digits if low <= d * 10.0**k <= high)
        if len(ticks) <= most:
            return ticks
    return ticks[:: math.ceil(len(ticks) / most)]


def thin(points: Sequence[Point], place: Callable[[float], float], buckets: int) -> list[Point]:
    """Keep the first point, and the last point of every bucket of the axis."""
    last_in_bucket = {int(place(point[0]) * buckets / 100): point for point in points}
    return [points[0], *(point for point in last_in_bucket.values() if point is not points[0])]


def _axis(values: Sequence[float], log: bool) -> _Axis:
    low, high = min(values), max(values)
    if log:
        high = high if high > low else low * 10
        ticks = log_ticks(low, high)
        if len(ticks) < 2:
            ticks = tuple(value for value in linear_ticks(low, high) if low <= value <= high)
        return _Axis(low, high, ticks, math.log10)
    flat = high - low <= 1e-9 * max(1.0, abs(high))
    margin = (abs(high) / 10 if abs(high) > 1e-6 else 1.0) if flat else 0.0
    ticks = linear_ticks(low - margin, high + margin)
    return _Axis(ticks[0], ticks[-1], ticks)


def _svg(
    lines: Sequence[Sequence[Point]], x: _Axis, y: _Axis, *, shade: bool, marks: Sequence[float]
) -> Markup:
    grid = [tag("path", d=f"M0 {100 - y.place(v):g}H100", class_="grid") for v in y.ticks]
    grid += [tag("path", d=f"M{x.place(v):g} 0V100", class_="grid") for v in x.ticks]
    grid += [tag("path", d=f"M{x.place(n):g} 0V100", class_="mark") for n in marks]
    # zero-length strokes, whose round caps stay round when the SVG is stretched
    dots_by_line = (
        "".join(f"M{x:g} {y:g}h0" for x, y in line) if len(line) <= 40 else "" for line in lines
    )
    area = _path([*lines[0], *reversed(lines[1])]) + "Z" if shade and len(lines) > 1 else None
    return tag(
        "svg",
        *grid,
        tag("path", d=area, class_="area") if area else None,
        *(tag("path", d=_path(line), class_=f"line s{n}") for n, line in enumerate(lines)),
        *(tag("path", d=dots, class_=f"dots s{n}") for n, dots in enumerate(dots_by_line)),
        viewBox="0 0 100 100",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def _legend(series: Sequence[Series], show: Callable[[float], str], n_marks: int) -> Markup:
    keys = [
        tag(
            "span",
            tag("i", class_=f"key s{n}"),
            line.label,
            " ",
            tag("b", show(line.points[-1][1])),
        )
        for n, line in enumerate(series)
    ]
    if n_marks:
        keys.append(
            tag("span", tag("i", class_="key mark"), "signals of drift ", tag("b", n_marks))
        )
    return tag("figcaption", join(*keys))


def _tick(side: str, place: float, label: str) -> Markup:
    return tag("span", label, style=f"{side}:{place:g}%")
