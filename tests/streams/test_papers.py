"""The page beside the papers: all tables and figures, and results that are where it says."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.runs.test_report import Page
from tests.support.stream_scripts import REPO, generator

FIGURES = {"Huynh 2010": 2, "Sarkhel 2016": 7, "Srinivasan 2020": 28, "Bach 2015": 1}
papers, limits = generator("papers", "page"), generator("papers", "limits")


def results() -> list[tuple[str, dict[str, Any]]]:
    return [
        (papers.anchor(entry), result)
        for paper in papers.load()
        for entry in paper["shown"]
        for result in entry.get("ours", ())
    ]


def test_every_table_and_figure_is_there_once(tmp_path: Path) -> None:
    page = Page(papers.whole(tmp_path))
    ids = [str(of["id"]) for kind, of in page.elements if kind == "section"]
    links = [str(of["href"]) for kind, of in page.elements if kind == "a"]
    assert len(ids) == len({*ids}) == sum(FIGURES.values())
    assert links == [f"#{name}" for name in ids]
    found = {paper["short"]: len(paper["shown"]) for paper in papers.load()}
    assert found == FIGURES
    assert page.text.count("Comparable?") == len(ids)


def test_recorded_results_are_where_the_page_says(tmp_path: Path) -> None:
    """Each heading that is named is there; each file that was recorded is shown."""
    shown = set()
    for _, result in results():
        for place in result["from"]:
            file, _, heading = place.partition("#")
            if heading:
                papers.tables(papers.Source(REPO / file, heading))
        where = papers.source(result, tmp_path)
        if where is not None:
            shown.add(where.path)
    assert {*papers.MEASURED.iterdir()} <= shown


def test_commands_are_scripts_that_there_are() -> None:
    for name, result in results():
        script = re.search(r"[\w/]+\.py", result["by"])
        assert script is not None, (name, result["by"])
        assert (REPO / script[0]).exists(), (name, result["by"])


def test_what_a_command_wrote_comes_before_what_was_recorded(tmp_path: Path) -> None:
    """Charts of columns with gaps, and tables with code, captions and what would be markup."""
    result = {"from": ["a.csv"], "by": "x.py", "chart": "A chart", "log": "xy"}
    page = Page(str(papers.shown([result], tmp_path)))
    assert "Not here: a.csv . Made by x.py ." in page.text
    (tmp_path / "a.csv").write_text("n,one,two\n1,10,\n10,,0.1\n100,1,0.01\n")
    page = Page(str(papers.shown([result], tmp_path)))
    assert "n (logarithmic scale)" in page.text
    assert "Not here" not in page.text
    assert sum(kind == "path" and "line" in str(of["class"]) for kind, of in page.elements) == 2
    (tmp_path / "b.md").write_text("text\n\nof it\n\n| a | b |\n|---|---|\n| `x` | <b> |\n\nend\n")
    page = Page(str(papers.shown([{"from": ["b.md"], "by": "x.py"}], tmp_path)))
    assert page.text.startswith("of it a b x <b> From")
    point = {"rounds": 10, "objective": 5.5, "score": 0.5}
    points = {
        "PDL": [[{**point, "rounds": 0}, point], []],
        "EM": [[point, {**point, "rounds": 20}]],
    }
    (tmp_path / "d.json").write_text(json.dumps({"points": points, "others": {}}))
    (table,) = papers.tables(papers.Source(tmp_path / "d.json", ""), "objective")
    assert table.head == ["rounds", "PDL", "EM"]
    assert table.rows == [["10", "5.5", ""], ["10", "", "5.5"], ["20", "", "5.5"]]
    (tmp_path / "c.txt").write_text("a   1\nb   2 <\n")
    page = Page(str(papers.shown([{"from": ["c.txt"], "by": "x.py"}], tmp_path)))
    assert page.text.startswith("a 1 b 2 < From")


def test_the_command_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs" / "page.html"
    monkeypatch.setattr("sys.argv", ["page.py", str(tmp_path), "--output", str(out)])
    runpy.run_path(str(REPO / "streams" / "papers" / "page.py"), run_name="__main__")
    assert "Beside the papers" in Page(out.read_text()).text
    assert str(out) in capsys.readouterr().out


def test_no_limits_no_coverage_and_limits_that_meet_cover_nothing() -> None:
    of = limits.stream(40)
    covered = [
        limits.with_limits(of, *pair)[1] for pair in ((0.0, 1.0), (0.1, 0.9), (0.505, 0.505))
    ]
    assert [bool(each.any()) for each in covered] == [False, True, False]
    asked, both = limits.with_limits(of, 0.1, 0.9)
    for query, made, is_covered in zip(of.queries, asked, both, strict=True):
        assert is_covered == ("StrongTMC" in query.evidence)  # the stream's own limits
        assert made.evidence.get("StrongTMC", []) == query.evidence.get("StrongTMC", [])
        assert set(made.query or {}) == set(query.query or {})


def test_the_data_are_yaml_of_few_keys() -> None:
    keys = {key for _, result in results() for key in result}
    assert keys <= {"from", "by", "chart", "y", "picture", "log", "only"}
    assert yaml.safe_load((papers.HERE / "papers.yaml").read_text())
