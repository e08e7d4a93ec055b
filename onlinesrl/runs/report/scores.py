"""Scores by value of the chosen argument and by query predicate, and the confusion matrix."""

from __future__ import annotations

from onlinesrl.core.evaluation.confusion_matrix import NONE
from onlinesrl.core.evaluation.metric_table import METRIC_TABLE
from onlinesrl.runs.report.html import (
    WRITE,
    Figures,
    Markup,
    count,
    number,
    or_dash,
    paragraph,
    percent,
    section,
    table,
    tag,
)

SHOWN = 30
"""The most classes of a confusion matrix in the report; summary.json has all."""


def by_value(last: Figures) -> Markup | None:
    """Return the F1 of every value of the chosen argument, if any."""
    by = last.get("by")
    if not by:
        return None
    rows = [_by_row(tag("code", value), line) for value, line in by.items()]
    mean = {"f1": last.get("macro_f1")}
    names = (
        ("", ""),
        ("", "bar"),
        *((METRIC_TABLE[key].label, "number") for key in ("f1", "precision", "recall", "support")),
    )
    head = tag("tr", *(tag("th", name, class_=side) for name, side in names))
    rows.append(_by_row("mean (macro)", mean))
    words = paragraph("The scores of each value, over the whole stream.")
    whole = tag("div", tag("table", head, *rows, class_="wide values"), class_="scroll")
    return section("Scores by value", words, whole)


def _by_row(name: object, line: Figures) -> Markup:
    share = 100 * (number(line.get("f1")) or 0.0)
    bar = tag("div", tag("i", style=f"left:0;width:{share:.1f}%"), class_="track")
    cells = [or_dash(line.get(key), percent) for key in ("f1", "precision", "recall")]
    cells.append(or_dash(line.get("support"), count))
    numbers = (tag("td", cell, class_="number") for cell in cells)
    return tag("tr", tag("td", name), tag("td", bar, class_="bar"), *numbers)


def confusion(last: Figures) -> Markup | None:
    """Return the confusion matrix, if there is one that is not too large."""
    counts = last.get("confusion")
    if not counts:
        return None
    names = {*counts, *(name for row in counts.values() for name in row)}
    if len(names) > SHOWN:
        return None
    columns = [*sorted(names - {NONE}), *(names & {NONE})]
    rows = [
        [tag("code", true), *(count(row[c]) if c in row else "" for c in columns)]
        for true, row in counts.items()
    ]
    words = paragraph("Rows are true classes, columns predicted classes.")
    return section("Confusion matrix", words, table(("true", *columns), rows))


def by_predicate(last: Figures) -> Markup | None:
    """Return the scores by query predicate, if they add to the main figures."""
    predicates = last.get("predicates") or {}
    if len(predicates) < 2 and not any("auc" in line for line in predicates.values()):
        return None
    keys = ["f1", "precision", "recall", "support", "auc", "average_precision", "cll", "cll_se"]
    keys += ["brier", "calibration_error", "best_f1", "best_threshold"]
    known = [key for key in keys if any(key in line for line in predicates.values())]
    entries = [METRIC_TABLE[key] for key in known]
    rows = [
        [
            tag("code", name),
            *(or_dash(line.get(k), WRITE[e.format]) for k, e in zip(known, entries, strict=True)),
        ]
        for name, line in predicates.items()
    ]
    return section("Scores by predicate", table(("", *(entry.label for entry in entries)), rows))
