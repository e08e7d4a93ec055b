"""The heaviest weights, by rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onlinesrl.runs.report.html import Markup, count, paragraph, section, tag

_ROWS_OPEN = 8


@dataclass(frozen=True, slots=True)
class WeightRow:
    """A weight that predicts: its rule and instance (empty if the rule has only one), and its error."""

    rule: str
    instance: str
    weight: float
    updates: int
    standard_error: float | None = None


_MARKOV_LOGIC = (
    "A rule with a positive weight makes states in which it holds more likely, one with a negative "
    "weight less likely. All bars have the same scale."
)
_KNOWN = " A weight of many times its standard error is known, one of less than twice it a guess."
_SOFT = (
    "The larger the weight of a rule, the more it costs to break it; weight zero has no effect. All "
    "bars have the same scale."
)


def weights_section(weights: Sequence[WeightRow], soft: bool = False) -> Markup | None:
    """Return the section, None without weights; rules are in order of first occurrence.

    ``soft``: of a PSL program.
    """
    if not weights:
        return None
    rules: dict[str, list[WeightRow]] = {}
    for row in weights:
        rules.setdefault(row.rule, []).append(row)
    scale = max(abs(row.weight) for row in weights) or 1.0
    words = paragraph(
        f"{_SOFT if soft else _MARKOV_LOGIC} Updates count the examples that changed the weight."
        + _KNOWN * any(row.standard_error for row in weights)
    )
    plain = [row for row in weights if not row.instance]
    blocks = [_block("rule", plain, scale)] if plain else []
    for rule, of_rule in rules.items():
        if of_rule[0].instance:
            blocks += [tag("h3", tag("code", rule)), _block("instance", of_rule, scale)]
    return section("Heaviest weights by rule", words, *blocks)


def _block(name: str, rows: Sequence[WeightRow], scale: float) -> Markup:
    """Return a table whose first column has a name, with the most of its rows folded."""
    more = rows[_ROWS_OPEN:]
    rest = tag("details", tag("summary", f"{count(len(more))} more"), _table(name, more, scale))
    return tag("div", _table(name, rows[:_ROWS_OPEN], scale), rest if more else None)


def _table(name: str, rows: Sequence[WeightRow], scale: float) -> Markup:
    names = [(name, ""), ("", "bar"), ("weight", "number"), ("updates", "number")]
    errors = any(row.standard_error for row in rows)
    names += [("standard error", "number"), ("weight / error", "number")] * errors
    lines = [tag("tr", *(tag("th", name, class_=side) for name, side in names))]
    for row in rows:
        half = 50 * abs(row.weight) / scale
        start, side = (50.0, "") if row.weight >= 0 else (50 - half, "minus")
        bar = tag("i", class_=side, style=f"left:{start:.2f}%;width:{half:.2f}%")
        weight, error = _number(row.weight, "+"), row.standard_error
        texts = (_number(error), f"{abs(row.weight) / error:.1f}") if error else ("", "")
        cells = (
            tag("td", tag("code", row.instance or row.rule)),
            tag("td", tag("div", bar, class_="track signed"), class_="bar"),
            tag("td", weight, class_="number"),
            tag("td", count(row.updates), class_="number"),
            *(tag("td", text, class_="number") for text in texts * errors),
        )
        lines.append(tag("tr", *cells))
    return tag("div", tag("table", *lines, class_="wide weights"), class_="scroll")


def _number(value: float, sign: str = "") -> str:
    return f"{value:{sign}{'.3f' if abs(value) < 1e4 else '.2e'}}"
