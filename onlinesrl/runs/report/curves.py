"""What changed while the stream went by: the learning curve, and the bound on the regret."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from onlinesrl.runs.report.chart import Point, Series, line_chart, thin
from onlinesrl.runs.report.markup import Markup, tag
from onlinesrl.runs.report.words import (
    Figures,
    count,
    figure,
    number,
    or_dash,
    paragraph,
    percent,
    percent_tick,
    section,
    table,
)

_BOUNDS = {
    "cda1": (
        "The upper line is the mean loss the learner suffered. No fixed weights, not even ones "
        "chosen with all the examples known, have a mean loss plus regularisation below the lower "
        "line. The gap between the two is the most the learner did worse: {gap} per example by the "
        "end, {bound} in all. Against given weights u its regret is at most that plus "
        "sigma/2 times the squared length of u."
    ),
    "": (
        "The upper line is the mean regularised loss the learner suffered. No fixed weights, not "
        "even ones chosen with all the examples known, have a mean regularised loss below the "
        "lower line. The gap between the two is the most the learner can regret: {gap} per example "
        "by the end, {bound} in all."
    ),
}


def learning_curve(metrics: Sequence[Figures]) -> Markup:
    """Return the F1 of the whole stream so far, and of each stretch of it.

    Where the atoms have values, it is their mean absolute error.
    """
    soft = any("mae" in line for line in metrics)
    key = "mae" if soft else "f1"
    whole = _points(metrics, lambda line: number(line.get(key)))
    recent = _points(metrics, lambda line: number((line.get("window") or {}).get(key)))
    if not whole:
        return section(
            "Learning curve", paragraph("No labelled example was scored: there is none.")
        )
    words = paragraph(
        f"{'The mean absolute error' if soft else 'F1'} as the stream went by: over the whole stream "
        "so far, which keeps the mistakes of the first examples for good, and over the examples since "
        "the point before alone, which is how well it predicted by then."
    )
    lines = [Series("whole stream so far", whole), Series("since the point before", recent)]
    show, tick = (figure, figure) if soft else (percent, percent_tick)
    chart = line_chart(lines, label="Learning curve", show=show, tick=tick)
    return section("Learning curve", words, chart, _numbers(metrics, soft))


def regret_bound(metrics: Sequence[Figures], update: str) -> Markup | None:
    """Return the bound on the regret; None for learners that have none (MIRA, perceptron)."""
    known = [line for line in metrics if _per_update(line, "dual", "regret_bound") is not None]
    if not known:
        return None
    last = known[-1]
    settled = [line for line in known if 100 * line["examples"] >= last["examples"]]
    lower = _points(settled, lambda line: _per_update(line, "dual"))
    upper = _points(settled, lambda line: _per_update(line, "dual", "regret_bound"))
    gap, bound = _per_update(last, "regret_bound"), number(last["regret_bound"])
    words = _BOUNDS.get(update, _BOUNDS[""]).format(
        gap=or_dash(gap, figure), bound=or_dash(bound, figure)
    )
    lines = [
        Series("suffered, per example", upper),
        Series("no fixed weights below, per example", lower),
    ]
    chart = line_chart(lines, label="Regret bound", show=figure, tick=figure, shade=True)
    return section("Regret bound", paragraph(words), chart)


def _points(metrics: Sequence[Figures], value: Callable[[Figures], float | None]) -> list[Point]:
    """Return (examples, value) of every line that has one."""
    pairs = ((line["examples"], value(line)) for line in metrics)
    return [(float(at), known) for at, known in pairs if known is not None and at >= 1]


def _per_update(line: Figures, *keys: str) -> float | None:
    """Return the sum of some figures divided by the examples learned from."""
    values = [number(line.get(key)) for key in keys]
    updates = number(line.get("updates"))
    if not updates or any(value is None for value in values):
        return None
    return sum(value for value in values if value is not None) / updates


def _numbers(metrics: Sequence[Figures], soft: bool) -> Markup:
    """Return the figures behind the curve, at most some forty lines of them."""
    lines = {float(line["examples"]): line for line in metrics if line["examples"] >= 1}
    span = math.log(max(lines)) or 1.0
    kept = thin([(at, 0.0) for at in lines], lambda at: 100 * math.log(at) / span, 40)
    columns = {"F1": "f1", "precision": "precision", "recall": "recall", "accuracy": "accuracy"}
    if soft:
        columns["mean absolute error"] = "mae"
    rows = [
        [
            count(at),
            *(
                or_dash(lines[at].get(k), figure if k == "mae" else percent)
                for k in columns.values()
            ),
        ]
        for at, _ in kept
    ]
    figures = table(("examples", *columns), rows)
    return tag("details", tag("summary", "The numbers behind the curve"), figures)
