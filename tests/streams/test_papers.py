"""The page beside the papers: all tables and figures, and results that are where it says."""

import re
import runpy
from pathlib import Path

import pytest

from tests.runs.test_report import Page
from tests.support.stream_scripts import REPO, generator

papers = generator("papers", "page")


def test_the_page_links_each_table_and_figure_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "runs" / "page.html"
    monkeypatch.setattr("sys.argv", ["page.py", str(tmp_path), "--output", str(out)])
    runpy.run_path(str(REPO / "streams" / "papers" / "page.py"), run_name="__main__")
    page = Page(out.read_text())
    ids = [str(of["id"]) for kind, of in page.elements if kind == "section"]
    links = [str(of["href"]) for kind, of in page.elements if kind == "a"]
    assert len({*ids}) == sum(len(paper["shown"]) for paper in papers.load()) > 0
    assert links == [f"#{name}" for name in ids]


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
