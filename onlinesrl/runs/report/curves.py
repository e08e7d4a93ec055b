"""The learning curve and the regret bound, over the stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onlinesrl.core.evaluation.metric_table import METRIC_TABLE
from onlinesrl.core.online.update_rules import UPDATES
from onlinesrl.runs.report.chart import Point, Series, line_chart, thin
from onlinesrl.runs.report.html import (
    WRITE,
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

_ONCE = (
    "The upper line is the mean loss of the learner. No fixed weights, even if chosen with all "
    "examples known, have a mean loss plus regularisation below the lower line. The gap between "
    "the lines bounds the learner's excess: {gap} per example at the end, {bound} in total. "
    "Against fixed weights, its regret is at most that plus their regularisation."
)
"""Of updates that regularise once."""
_IN_EVERY_STEP = (
    "The upper line is the mean regularised loss of the learner. No fixed weights, even if "
    "chosen with all examples known, have a mean regularised loss below the lower line. The gap "
    "between the lines bounds the regret: {gap} per example at the end, {bound} in total."
)
"""Of updates that shrink the weights."""


def learning_curve(metrics: Sequence[Figures]) -> Markup:
    """Return the F1 over the whole stream so far, and between lines of metrics.

    For values in [0, 1] it is the mean absolute error.
    """
    soft = any("mae" in line for line in metrics)
    key = "mae" if soft else "f1"
    whole = _points(metrics, lambda line: number(line.get(key)))
    recent = _points(metrics, lambda line: number((line.get("window") or {}).get(key)))
    if not whole:
        return section("Learning curve", paragraph("There are no labelled examples."))
    marks = (metrics[-1].get("drift") or {}).get("at", ())
    words = paragraph(
        f"{'The mean absolute error' if soft else 'F1'} of the predictions made so far: over the whole "
        "stream, which includes the mistakes on the first examples, and since the previous point."
    )
    lines = [Series("whole stream so far", whole), Series("since previous point", recent)]
    show, tick = (figure, figure) if soft else (percent, percent_tick)
    chart = line_chart(lines, label="Learning curve", show=show, tick=tick, marks=marks)
    return section("Learning curve", words, chart, _numbers(metrics, soft))


def reliability_curve(last: Figures) -> Markup | None:
    """Return the reliability diagram of a line of metrics; None where its atoms have no probabilities."""
    rows = last.get("reliability")
    if not rows:
        return None
    words = paragraph(
        "The atoms are divided by their probability into ten bins of equal width. Each point has the mean "
        "probability of a bin's atoms and the share of them that are true. Probabilities are calibrated "
        "where the points lie on the diagonal. Below it they are too high, above it too low."
    )
    points = [(row["probability"], row["true"]) for row in rows]
    chart = line_chart(
        [Series("share of true atoms", points), Series("diagonal", [(0.0, 0.0), (1.0, 1.0)])],
        label="Reliability curve",
        show=percent,
        tick=percent_tick,
        across="probability",
        log="",
    )
    cells = [[count(r["atoms"]), percent(r["probability"]), percent(r["true"])] for r in rows]
    numbers = table(("atoms", "mean probability", "share of true atoms"), cells)
    return section("Reliability", words, chart, numbers)


def regret_bound(metrics: Sequence[Figures], learner: Mapping[str, Any]) -> Markup | None:
    """Return the section of the regret bound; None for updates without one (MIRA, perceptron).

    ``learner`` is the section of the configuration.
    """
    bounded = [line for line in metrics if _per_update(line, "dual", "regret_bound") is not None]
    if not bounded:
        return None
    last = bounded[-1]
    lower = _points(bounded, lambda line: _per_update(line, "dual"))
    upper = _points(bounded, lambda line: _per_update(line, "dual", "regret_bound"))
    gap, bound = _per_update(last, "regret_bound"), number(last["regret_bound"])
    rule = UPDATES.get(str(learner.get("update")))
    words = _IN_EVERY_STEP if rule is None or rule.shrinks else _ONCE
    words = words.format(gap=or_dash(gap, figure), bound=or_dash(bound, figure))
    if learner.get("start"):
        words += (
            " Regularisation is towards the starting weights, and norms are distances from them."
        )
    lines = [
        Series("loss of the learner, per example", upper),
        Series("lower bound for fixed weights, per example", lower),
    ]
    chart = line_chart(lines, label="Regret bound", show=figure, tick=figure, shade=True)
    return section("Regret bound", paragraph(words), chart)


def _points(metrics: Sequence[Figures], value: Callable[[Figures], float | None]) -> list[Point]:
    """Return (examples, value) of every line with a value."""
    pairs = ((line["examples"], value(line)) for line in metrics)
    return [(float(at), figure) for at, figure in pairs if figure is not None and at >= 1]


def _per_update(line: Figures, *keys: str) -> float | None:
    """Return the sum of some figures divided by the examples learned from."""
    values = [number(line.get(key)) for key in keys]
    updates = number(line.get("updates"))
    if not updates or any(value is None for value in values):
        return None
    return sum(value for value in values if value is not None) / updates


def _numbers(metrics: Sequence[Figures], soft: bool) -> Markup:
    """Return a table of the curve's figures, of about forty lines at most."""
    lines = {float(line["examples"]): line for line in metrics if line["examples"] >= 1}
    span = math.log(max(lines)) or 1.0
    chosen = thin([(at, 0.0) for at in lines], lambda at: 100 * math.log(at) / span, 40)
    columns = {METRIC_TABLE[key].label: key for key in ("f1", "precision", "recall", "accuracy")}
    if soft:
        columns[METRIC_TABLE["mae"].label] = "mae"
    rows = [
        [
            count(at),
            *(or_dash(lines[at].get(k), WRITE[METRIC_TABLE[k].format]) for k in columns.values()),
        ]
        for at, _ in chosen
    ]
    figures = table(("examples", *columns), rows)
    return tag("details", tag("summary", "The curve as numbers"), figures)
