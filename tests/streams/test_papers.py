"""The page beside the papers: all tables and figures, and results that are where it says."""

import re
import runpy
from pathlib import Path

import pytest

from tests.runs.test_report import Page
from tests.support.stream_scripts import REPO, generator

FIGURES = {"Huynh 2010": 2, "Sarkhel 2016": 7, "Srinivasan 2020": 28, "Bach 2015": 1}
papers = generator("papers", "page")


def test_every_table_and_figure_is_on_the_page_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "runs" / "page.html"
    monkeypatch.setattr("sys.argv", ["page.py", str(tmp_path), "--output", str(out)])
    runpy.run_path(str(REPO / "streams" / "papers" / "page.py"), run_name="__main__")
    page = Page(out.read_text())
    ids = [str(of["id"]) for kind, of in page.elements if kind == "section"]
    links = [str(of["href"]) for kind, of in page.elements if kind == "a"]
    assert len(ids) == len({*ids}) == sum(FIGURES.values())
    assert links == [f"#{name}" for name in ids]
    assert {paper["short"]: len(paper["shown"]) for paper in papers.load()} == FIGURES
    assert page.text.count("Comparable?") == len(ids)


def test_recorded_results_are_where_the_page_says_and_made_by_scripts_that_there_are(
    tmp_path: Path,
) -> None:
    shown = set()
    entries = [entry for paper in papers.load() for entry in paper["shown"]]
    for result in (result for entry in entries for result in entry.get("ours", ())):
        for place in result["from"]:
            file, _, heading = place.partition("#")
            if heading:
                papers.tables(papers.Source(REPO / file, heading))
        where = papers.source(result, tmp_path)
        shown.add(where and where.path)
        script = re.search(r"[\w/]+\.py", result["by"])
        assert script is not None and (REPO / script[0]).exists(), result["by"]
    assert {*papers.MEASURED.iterdir()} <= shown


def test_what_a_command_wrote_comes_before_what_was_recorded(tmp_path: Path) -> None:
    """A chart of columns with gaps, and a table whose cells have what would be markup."""
    result = {"from": ["a.csv"], "by": "x.py", "chart": "A chart", "log": "xy"}
    page = Page(str(papers.shown([result], tmp_path)))
    assert "Not here: a.csv . Made by x.py ." in page.text
    (tmp_path / "a.csv").write_text("n,one,two\n1,10,\n10,,0.1\n100,1,0.01\n")
    page = Page(str(papers.shown([result], tmp_path)))
    assert "n (logarithmic scale)" in page.text
    assert sum(kind == "path" and "line" in str(of["class"]) for kind, of in page.elements) == 2
    (tmp_path / "b.md").write_text("text\n\nof it\n\n| a | b |\n|---|---|\n| `x` | <b> |\n\nend\n")
    page = Page(str(papers.shown([{"from": ["b.md"], "by": "x.py"}], tmp_path)))
    assert page.text.startswith("of it a b x <b> From")
