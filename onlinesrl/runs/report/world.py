"""What changes of a world cost, and what they changed, over the stream."""

from __future__ import annotations

from collections.abc import Sequence

from onlinesrl.core.evaluation.means_between import means_between
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
