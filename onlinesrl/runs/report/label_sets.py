"""How often sets of labels, or of answers, had the truth, and how large they were, over the stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onlinesrl.core.evaluation.label_sets import ANSWERS
from onlinesrl.runs.report.chart import Point, Series, line_chart
from onlinesrl.runs.report.html import (
    Figures,
    Markup,
    count,
    figure,
    number,
    or_dash,
    paragraph,
    percent,
    percent_tick,
    section,
    table,
    tag,
)

_MEANING = (
    "A set has the labels that are probable enough. {asked} of all sets are to have the true label: a "
    "threshold that follows each truth keeps that share in the long run, whatever the stream. That says "
    "nothing of a single set, and hard units are missed more often than easy ones. A set that is empty, "
    "or has every label, abstains: a person may know more."
)
_ANSWERS = (
    "A set has the answers whose score is near enough to the best one's. {asked} of all sets are to have "
    "the true answer: a threshold that follows each truth keeps that share in the long run, whatever the "
    "stream. That says nothing of a single set. The truth has a place among the best answers; (none) is the "
    "last place, or beyond. A set that is empty, or has every answer, abstains: a person may know more."
)


def set_coverage(metrics: Sequence[Figures], inference: Mapping[str, Any]) -> Markup | None:
    """Return the section of sets; None where the run has none. ``inference`` is that of the configuration."""
    last = metrics[-1].get("sets") if metrics else None
    if not last:
        return None
    asked = number(inference.get("coverage"))
    lines = [Series(name, [*_points(metrics, name)]) for name in last]
    ends = [line["examples"] for line in metrics if line["examples"] >= 1]
    if asked is not None:
        lines.append(Series("asked for", [(float(at), asked) for at in (ends[0], ends[-1])]))
    chart = line_chart(lines, label="Coverage of sets", show=percent, tick=percent_tick)
    rows = [
        [tag("code", name), label, *_cells(row)]
        for name, figures in last.items()
        for label, row in [("all", figures), *figures["by"].items()]
    ]
    head = ("", "true label", "units", "sets with the truth", "labels in a set", "abstain")
    title, meaning = "Sets of labels", _MEANING
    if ANSWERS in last:
        title, meaning = "Sets of answers", _ANSWERS
        head = ("", "place of the truth", "examples", "sets with the truth", "size", "abstain")
    words = paragraph(meaning.format(asked=or_dash(asked, percent)))
    since = paragraph("Each point is over the units since the previous one.")
    return section(title, words, chart, since, table(head, rows))


def _points(metrics: Sequence[Figures], name: str) -> Iterator[Point]:
    """Yield the share of a predicate's sets with the truth since the line before."""
    for line in metrics:
        window = ((line.get("sets") or {}).get(name) or {}).get("window") or {}
        if (coverage := number(window.get("coverage"))) is not None and line["examples"] >= 1:
            yield float(line["examples"]), coverage


def _cells(row: Figures) -> list[str]:
    return [
        count(row["units"]),
        or_dash(row["coverage"], percent),
        or_dash(row["size"], figure),
        count(row["abstain"]),
    ]
