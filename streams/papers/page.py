"""One page: every table and figure of the papers that onlinesrl implements, and what it measures beside them.

usage: python streams/papers/page.py [FOLDER] [--output FILE]

papers.yaml lists the tables and figures: what the papers print, where our results are, and by which command
they are made. A result is taken from FOLDER (runs/papers) if a command has written it there, else as it was
recorded: in measured/, or in a README. Where there is none, the page says how to make it. Writes
runs/papers.html.
"""

from __future__ import annotations

import argparse
import base64
import csv
import json
import mimetypes
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from onlinesrl.runs.report.chart import Series, line_chart
from onlinesrl.runs.report.html import Markup, figure, join, paragraph, tag
from onlinesrl.runs.report.page import page

HERE = Path(__file__).parent
REPO = HERE.parents[1]
MEASURED = HERE / "measured"
Result = Mapping[str, Any]
SHORT = 20
"""Characters of a cell that are not broken into lines."""


class Table(NamedTuple):
    """A table's head, its rows, and the line above it, if it has one of its own."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


class Source(NamedTuple):
    """A file that has a result, and the heading that it stands under."""

    path: Path
    heading: str

    @property
    def name(self) -> str:
        """What the page calls it."""
        known = self.path.is_relative_to(REPO)
        return str(self.path.relative_to(REPO) if known else self.path)


# results -----------------------------------------------------------------------------------------


def source(of: Result, folder: Path) -> Source | None:
    """Return where a result is: the first place of ``from`` that there is; a heading needs a table."""
    for place in of["from"]:
        name, _, heading = place.partition("#")
        roots = (REPO,) if "/" in name else (folder, MEASURED)
        for root in roots:
            found = Source(root / name, heading)
            if found.path.exists() and (not heading or tables(found)):
                return found
    return None


def tables(of: Source, y: str = "score") -> list[Table]:
    """Return the tables of a CSV file, or those under a heading of a Markdown file; all without one.

    Of curves by rounds (``streams/papers/by_rounds.py``), a table of ``y`` in the first fold.
    """
    if of.path.suffix == ".json":
        return [_curves(json.loads(of.path.read_text(encoding="utf-8"))["points"], y)]
    if of.path.suffix == ".csv":
        with of.path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        return [Table(head, rows)]
    return [*_markdown(_under(of.path.read_text(encoding="utf-8"), of.heading))]


def _curves(points: Mapping[str, Any], y: str) -> Table:
    """Return a table with a column of ``y`` for each name; what was before the first round is left out."""
    rows = [
        [str(point["rounds"]), *(str(point[y]) if name == column else "" for column in points)]
        for name, (first, *_) in points.items()
        for point in first
        if point["rounds"] > 0
    ]
    return Table(["rounds", *points], rows)


def _under(text: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one. Raises ValueError where there is none."""
    if not heading:
        return text
    parts = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return parts[parts.index(heading) + 1]


def _markdown(text: str) -> Iterator[Table]:
    blocks = re.split(r"\n\s*\n", text.strip())
    for before, block in pairwise(["", *blocks]):
        if block.startswith("|"):
            head, _, *rows = (_cells(line) for line in block.splitlines())
            yield Table(head, rows, "" if "\n" in before or before.startswith("|") else before)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def series(of: Table) -> list[Series]:
    """Return the columns of a table as lines over the first one; empty cells are no points."""
    return [
        Series(name, [(float(row[0]), float(row[n])) for row in of.rows if row[n]])
        for n, name in enumerate(of.head[1:], 1)
    ]


# the page ----------------------------------------------------------------------------------------


def shown(of: Sequence[Result], folder: Path) -> Markup:
    """Return results of ours that one command makes: charts, pictures and tables, and where they are from."""
    there = [(each, where) for each in of if (where := source(each, folder)) is not None]
    drawn = [_drawn(each, where) for each, where in there if {"chart", "picture"} & {*each}]
    listed = [
        part
        for each, where in there
        if not {"chart", "picture"} & {*each}
        for part in _listed(each, where)
    ]
    names = dict.fromkeys(where.name for _, where in there)
    said = [join("From ", *_codes(names), ".")] if there else []
    said += [join("Not here: ", *_codes(missing), ".")] if (missing := _missing(of, there)) else []
    words = join(*(join(each, " ") for each in said), "Made by ", tag("code", of[0]["by"]), ".")
    charts = tag("div", *drawn, class_="side") if drawn else None
    return join(*listed, charts, tag("p", words, class_="soft"))


def _listed(of: Result, where: Source) -> Iterator[Markup]:
    """Yield the tables of a result, or the text that a command printed."""
    if where.path.suffix == ".txt":
        yield tag("div", tag("pre", where.path.read_text(encoding="utf-8")), class_="scroll")
        return
    for table in tables(where):
        if table.head[0] in of.get("only", [table.head[0]]):
            yield _table(table)


def _missing(of: Sequence[Result], there: Sequence[tuple[Result, Source]]) -> dict[str, None]:
    known = [each for each, _ in there]
    return dict.fromkeys(each["from"][0] for each in of if each not in known)


def _codes(names: Iterable[str]) -> Iterator[Markup]:
    for n, name in enumerate(names):
        yield join(", " if n else None, tag("code", name))


def _drawn(of: Result, where: Source) -> Markup:
    if "chart" in of:
        return _chart(of, tables(where, of.get("y", "score"))[0])
    return _picture(of["picture"], where.path)


def _chart(of: Result, table: Table) -> Markup:
    chart = line_chart(
        series(table),
        label=of["chart"],
        show=figure,
        tick=figure,
        across=table.head[0],
        log=of.get("log", ""),
    )
    return tag("div", tag("h4", of["chart"]), chart)


def _picture(title: str, path: Path) -> Markup:
    kind = mimetypes.guess_type(path.name)[0]
    data = base64.b64encode(path.read_bytes()).decode()
    image = tag("img", src=f"data:{kind};base64,{data}", alt=title)
    return tag("div", tag("h4", title), image)


def _table(of: Table) -> Markup:
    rows = [tag("tr", *(tag("th", _text(cell)) for cell in of.head))]
    rows += [tag("tr", *map(_cell, row)) for row in of.rows]
    caption = paragraph(_text(of.caption)) if of.caption else None
    return join(caption, tag("div", tag("table", *rows), class_="scroll"))


def _cell(cell: str) -> Markup:
    return tag("td", _text(cell), class_="short" if len(cell) <= SHORT else "")


def _text(cell: str) -> Markup:
    """Return a cell with its code marked."""
    parts = cell.split("`")
    return join(*(tag("code", part) if n % 2 else part for n, part in enumerate(parts)))


def entry(of: Result, folder: Path) -> Markup:
    """Return the part of a table or figure: theirs, ours, and what cannot be compared."""
    theirs = of["theirs"]
    printed = [*_markdown(theirs)]
    groups = groupby(of.get("ours", ()), key=itemgetter("by"))
    ours = [shown([*each], folder) for _, each in groups]
    return tag(
        "section",
        tag("h3", f"{of['name']}: {of['what']}"),
        tag("h4", "In the paper"),
        *(map(_table, printed) if printed else [paragraph(theirs)]),
        tag("h4", "Here") if ours else None,
        *ours,
        tag("p", tag("b", "Comparable? "), _text(of["comparable"])),
        id=anchor(of),
    )


def anchor(of: Result) -> str:
    """Return the id of a table or figure."""
    return f"{of['paper']}-{of['name']}".lower().replace(" ", "-").replace(".", "-")


def load() -> list[dict[str, Any]]:
    """Return the papers, with their tables and figures."""
    papers: list[dict[str, Any]] = yaml.safe_load(
        (HERE / "papers.yaml").read_text(encoding="utf-8")
    )
    for paper in papers:
        for each in paper["shown"]:
            each["paper"] = paper["short"]
    return papers


def whole(folder: Path) -> str:
    """Return the page."""
    papers = load()
    links = [tag("p", tag("b", paper["short"]), ": ", *_links(paper["shown"])) for paper in papers]
    words = (
        "Every table and figure of the papers, with what is measured here beside it. Seconds here are CPU "
        "seconds of one core, unless they say otherwise; each paper had a machine of its own. Where a paper "
        "prints a figure without its numbers, what its text says of it stands here."
    )
    parts = [
        join(tag("h2", paper["paper"]), *(entry(each, folder) for each in paper["shown"]))
        for paper in papers
    ]
    return page("Beside the papers", join(paragraph(words), *links, *parts))


def _links(entries: Sequence[Result]) -> Iterator[Markup]:
    for each in entries:
        yield tag("a", each["name"], href=f"#{anchor(each)}")
        yield Markup(" ")


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=REPO / "runs" / "papers")
    parser.add_argument("--output", type=Path, default=REPO / "runs" / "papers.html")
    given = parser.parse_args()
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(whole(given.folder), encoding="utf-8")
    print(f"written to {given.output}")


if __name__ == "__main__":
    main()
