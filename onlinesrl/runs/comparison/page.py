"""What a comparison writes: a table of all folds, and a report of scores and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from onlinesrl.core.errors import FolderError
from onlinesrl.core.io.atomic_write import storage_errors, write_atomic
from onlinesrl.runs.comparison.cross_validation import Compared
from onlinesrl.runs.comparison.fold_cache import JOURNAL, Journal
from onlinesrl.runs.comparison.scoring import SCORES
from onlinesrl.runs.comparison.statistics import MEGABYTE, Line, csv
from onlinesrl.runs.report.chart import linear_ticks
from onlinesrl.runs.report.html import Markup, figure, join, or_dash, paragraph, section, table, tag
from onlinesrl.runs.report.page import page

TABLE, PAGE = "comparison.csv", "comparison.html"


def opened(folder: Path, fresh: bool) -> Journal:
    """Return the journal of a comparison that has not ended, or a new one.

    Raises FolderError where one has ended there, unless it may be replaced; StorageError.
    """
    if not fresh and (folder / TABLE).exists():
        raise FolderError(f"{folder}: there is a comparison already; --fresh replaces it")
    return Journal(folder, [folder / name for name in (TABLE, PAGE, JOURNAL)] if fresh else ())


def write(
    folder: Path,
    compared: Sequence[Compared],
    lines: Sequence[Line],
    metric: str,
    settings: Mapping[str, Sequence[str]],
    differing: Sequence[tuple[str, Sequence[str]]],
) -> None:
    """Write the table of all folds, and the report. Raises StorageError."""
    with storage_errors(folder, "make the folder"):
        folder.mkdir(parents=True, exist_ok=True)
    described = [(name, "; ".join(values)) for name, values in settings.items() if values]
    html = comparison_page(lines, metric, described, differing)
    write_atomic(folder / PAGE, html.encode(errors="replace"))
    write_atomic(folder / TABLE, csv(compared, metric).encode())


def comparison_page(
    lines: Sequence[Line],
    metric: str,
    settings: Sequence[tuple[str, str]],
    differing: Sequence[tuple[str, Sequence[str]]] = (),
) -> str:
    """Return the page; ``settings`` are names and values of what was compared how.

    ``differing`` are the keys in which the configurations differ, with the value of each line.
    """
    whole = [line for line in lines if line.mean is not None]
    sections = [_scores(whole, metric), _costs(whole)] if whole else []
    if failed := [line for line in lines if line.error is not None]:
        words = paragraph(
            "These configurations have no mean, since they failed on a fold or could not begin."
        )
        rows = [tag("tr", tag("td", line.name), tag("td", line.error)) for line in failed]
        sections.append(
            section("Failures", words, tag("div", tag("table", *rows), class_="scroll"))
        )
    if differing:
        words = paragraph("The keys in which the configurations differ.")
        head = ("key", *(line.name for line in lines))
        cells = [[tag("code", key), *(tag("code", v) for v in values)] for key, values in differing]
        sections.append(section("What was changed", words, table(head, cells)))
    rows = [tag("tr", tag("td", name), tag("td", tag("code", value))) for name, value in settings]
    sections.append(section("Settings", tag("div", tag("table", *rows), class_="scroll")))
    return page("Comparison", join(*sections))


def _scores(lines: Sequence[Line], metric: str) -> Markup:
    better = "greater" if SCORES[metric] else "less"
    words = paragraph(
        f"{metric}, {better} is better. A dot is a fold, the line the mean, the bar one standard "
        "deviation on both sides. p is that of a paired t-test over the folds against the best mean."
    )
    folds = [name for name, _ in lines[0].scores]
    rows = [
        [
            line.name,
            or_dash(line.mean, figure),
            or_dash(line.sd, figure),
            "best" if line.best else or_dash(line.p, figure),
            *(figure(value) for _, value in line.scores),
        ]
        for line in lines
    ]
    numbers = table(("configuration", "mean", "sd", "p", *folds), rows)
    tuned = [(line.name, *line.chosen) for line in lines if line.chosen]
    chosen = join(tag("h3", "What tuning chose"), table(("configuration", *folds), tuned))
    return section("Scores", words, _plot(lines), numbers, chosen if tuned else None)


def _plot(lines: Sequence[Line]) -> Markup:
    """Draw every configuration's scores on one axis."""
    bars = [
        (mean - sd, mean, mean + sd)
        for mean, sd in ((line.mean or 0.0, line.sd or 0.0) for line in lines)
    ]
    extents = [*chain(*bars), *(value for line in lines for _, value in line.scores)]
    low, high = min(extents), max(extents)
    ticks = linear_ticks(low, high if high > low else low + 1.0)

    def place(value: float) -> float:
        return round(100 * (value - ticks[0]) / (ticks[-1] - ticks[0]), 2)

    axis = tag(
        "div",
        *(tag("span", f"{tick:g}", style=f"left:{place(tick):g}%") for tick in ticks),
        class_="ticks",
    )
    rows = []
    for line, bar in zip(lines, bars, strict=True):
        start, mean, end = map(place, bar)
        dots = (
            tag("b", style=f"left:{place(value):g}%", title=f"{name}: {figure(value)}")
            for name, value in line.scores
        )
        deviation = tag("i", style=f"left:{start:g}%;width:{end - start:g}%")
        marks = tag("div", deviation, *dots, tag("u", style=f"left:{mean:g}%"), class_="track")
        rows.append(tag("tr", tag("td", line.name), tag("td", marks)))
    return tag("table", *rows, tag("tr", tag("td"), tag("td", axis)), class_="wide dots")


def _costs(lines: Sequence[Line]) -> Markup:
    words = paragraph(
        "CPU seconds to learn from a fold's training part, without reading, compiling and tuning, on "
        "average over the folds; and the most memory that a process had, with the program itself."
    )
    most = max(line.cpu_seconds or 0.0 for line in lines) or 1.0
    bars = [100 * (line.cpu_seconds or 0.0) / most for line in lines]
    rows = [
        (
            line.name,
            tag("div", tag("i", style=f"left:0;width:{bar:.1f}%"), class_="track"),
            or_dash(line.cpu_seconds, figure),
            figure((line.peak_bytes or 0) / MEGABYTE),
        )
        for line, bar in zip(lines, bars, strict=True)
    ]
    head = ("configuration", "", "CPU seconds", "peak MB")
    sides = ("", "bar", "number", "number")
    drawn = [
        tag("tr", *(tag(cell, v, class_=side) for v, side in zip(row, sides, strict=True)))
        for cell, row in [("th", head), *(("td", row) for row in rows)]
    ]
    return section("Costs", words, tag("div", tag("table", *drawn, class_="wide"), class_="scroll"))
