"""What changes of a world cost, and what they changed, over the stream."""

from __future__ import annotations

from collections.abc import Sequence

from onlinesrl.runs.report.chart import Point, Series, line_chart
from onlinesrl.runs.report.html import Figures, Markup, figure, number, paragraph, section


def cost_curve(metrics: Sequence[Figures]) -> Markup:
    """Return the ground rules that a change touched, and the answers that it changed, on average."""
    touched, changed = (_means(metrics, key) for key in ("touched_rules", "changed_atoms"))
    if not touched:
        return section("Cost of a change", paragraph("There are no changes yet."))
    words = paragraph(
        "The ground rules that a change of facts added, replaced or removed, and the atoms whose answer it "
        "changed, on average since the previous point. Where the lines stay flat, a change costs the same "
        "however large the world has grown."
    )
    lines = [Series("ground rules touched", touched), Series("answers changed", changed)]
    chart = line_chart(
        lines, label="Cost of a change", show=figure, tick=figure, across="changes seen"
    )
    return section("Cost of a change", words, chart)


def _means(metrics: Sequence[Figures], key: str) -> list[Point]:
    """Return the means of a sum over the changes between lines of metrics."""
    examples, totals = ([number(line.get(name)) for line in metrics] for name in ("examples", key))
    means = zip(examples, means_between(examples, totals), strict=True)
    return [(at, mean) for at, mean in means if at is not None and mean is not None]


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
