"""The report says what happened, whatever the run was, and nothing in it can break out of it."""

import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import REPO

from onlinesrl.runs.report import ExampleRow, WeightRow, write_report
from tests.support import golden

VOID = {"meta", "path"}
EVIL = "</style></td><script>alert('x')</script>\"'&<img src=x onerror=alert(1)>\x00\x1b\ud800"


class Page(HTMLParser):
    """The text of a page and the elements it is made of; a tag that does not match is an error."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def classes(self, name: str) -> int:
        return sum(name in (found.get("class") or "").split() for _, found in self.elements)


def metrics_line(examples: int, **more: Any) -> dict[str, Any]:
    return {
        "examples": examples,
        "updates": examples,
        "f1": 0.5,
        "precision": 0.6,
        "recall": 0.4,
        "macro_f1": 0.45,
        "accuracy": 0.7,
        "exact": 0.1,
        "hamming": 3.25,
        "dual": 2.0 * examples,
        "regret_bound": 10.0,
        "weights": 8000 + examples,
        "dropped_weights": 0,
        "routes": {"elimination": examples},
        "certified": examples,
        "audited": 0,
        "by": {"title": {"f1": 0.25, "precision": 0.3, "recall": 0.2, "support": 12}},
        "window": {"examples": 1, "f1": 0.75},
    } | more


def summary(update: str = "cda2", **more: Any) -> dict[str, Any]:
    config = {"model": "m.mln", "query": ["InField", "Same"], "learner": {"update": update}}
    return {"examples": 4, "bad": 2, "seconds": 1.5, "config": config, "version": "9.9"} | more


def report(path: Path, **inputs: Any) -> Page:
    nothing: dict[str, Any] = {"summary": {}, "metrics": [], "weights": [], "examples": []}
    write_report(path / "report.html", **({"title": "a run"} | nothing | inputs))
    return Page((path / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("update", ["adagrad", "cda1", "pa1", "simple", "log-likelihood"])
def test_the_bound_of_updates_that_regularise_once_is_of_their_loss(tmp_path, update):
    page = report(tmp_path, summary=summary(update), metrics=[metrics_line(n) for n in (1, 2)])
    assert "bounds the learner's excess: 5 per example at the end, 10 in total." in page.text
    assert "bounds the regret" not in page.text


def test_drift_starting_weights_and_changed_keys_are_told(tmp_path):
    config = {"seed": 0, "learner": {"update": "cda2", "start": "w.mln"}}
    lines = [metrics_line(n) for n in (1, 2, 1000)]
    lines[-1]["drift"] = {"signals": 2, "at": [20, 300]}
    page = report(
        tmp_path, summary=summary(config=config), metrics=lines, changed={"learner.start"}
    )
    assert "since previous point 75.0% signals of drift 2" in page.text
    assert "Regularisation is towards the starting weights" in page.text
    assert page.classes("changed") == 1
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    _, regret = source.split("<h2>Regret bound</h2>")
    assert re.search(r'd="(M[^"]*)" class="line s0"', regret)[1].count(" ") == 3


def test_it_opens_offline_and_runs_nothing(tmp_path):
    page = report(tmp_path, summary=summary(), metrics=[metrics_line(n) for n in (1, 2, 4)])
    assert not {"script", "link", "img", "iframe", "object", "a"} & {
        name for name, _ in page.elements
    }
    assert not any(key in found for _, found in page.elements for key in ("src", "href"))
    assert "default-src 'none'" in str(page.elements)
    assert "url(" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_nothing_can_be_injected(tmp_path):
    calm = Page("")
    for evil in ("x", EVIL):
        line = metrics_line(2, by={evil: {"f1": 0.5}}, routes={evil: 2})
        page = report(
            tmp_path,
            title=evil,
            summary=summary(evil, version=evil, config={evil: evil, "learner": {"update": evil}}),
            metrics=[metrics_line(1), line],
            weights=[WeightRow(evil, evil, 1.0, 1)],
            examples=[ExampleRow(evil, evil, [f'P("{evil}")'], [evil], {evil: evil})],
        )
        if evil == "x":
            calm = page
    assert {name for name, _ in page.elements} == {name for name, _ in calm.elements}
    assert {key for _, found in page.elements for key in found} == {
        key for _, found in calm.elements for key in found
    }
    assert page.text.count("<script>alert") > 10
    assert "\x00" not in page.text and "\x1b" not in page.text


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None, "text"])
def test_figures_that_are_none_are_left_out(tmp_path, bad):
    keys = ("f1", "accuracy", "hamming", "dual", "regret_bound", "weights", "macro_f1")
    lines = [metrics_line(1), metrics_line(2, **dict.fromkeys(keys, bad)), metrics_line(4)]
    lines[1]["by"] = {"title": {"f1": bad}}
    page = report(tmp_path, summary=summary(seconds=bad), metrics=lines)
    source = (tmp_path / "report.html").read_text(encoding="utf-8").partition("</style>")[2]
    assert not re.search(r"\b(nan|inf)\b", source, re.IGNORECASE)
    assert "whole stream so far 50.0%" in page.text


def test_a_huge_example_is_cut(tmp_path):
    atoms = [f"P({n}, a)" for n in range(1000)]
    page = report(tmp_path, examples=[ExampleRow("e", None, atoms, [*atoms[:-1], "P(1000, a)"])])
    first, _, rest = page.text.partition("350 more atoms")
    assert "+ 999 \u2212 1000" in " ".join(first.split("a)")[-1].split())
    assert "601 atoms are not shown." in rest
    assert page.classes("atom") == 400


def test_a_long_run_makes_a_small_report(tmp_path):
    lines = [metrics_line(n, f1=n / 4_001) for n in range(1, 4_001)]
    page = report(tmp_path, metrics=lines)
    assert (tmp_path / "report.html").stat().st_size < 60_000
    assert "4,000 100.0%" in page.text


def test_writing_fails_loudly(tmp_path):
    with pytest.raises(FileNotFoundError):
        report(tmp_path / "nowhere")


RULE, ATOMS = "Token(+w, i) ^ InField(i, +f)", ["InField(10, title)", "InField(2, title)"]
SCORES = {"f1": 0.5, "precision": 0.4, "recall": 0.75, "support": 8}
RANKED = {"auc": 0.875, "average_precision": 0.9, "best_f1": 0.625, "best_threshold": 0.3125}
CONFUSED = {"a": {"a": 4, "none": 1}, "<b>": {"a": 1234}, "none": {"<b>": 2}}
PARTS = {"P": SCORES, "Q": SCORES | RANKED}
CALIBRATED = {"brier": 0.125, "calibration_error": 0.0625}
VALUES = {"a": "0.83 \u2192 0.00", "c": "0.10 \u2192 1.00", "d": "0.00"}
PAGES: dict[str, dict[str, Any]] = {
    "a whole run": {
        "title": "citations with CDA2",
        "metrics": [metrics_line(n) for n in (1, 2, 4)],
        "weights": [
            WeightRow(RULE, '"proc", venue', 2.5, 40),
            WeightRow("!InField(i, f)", "", -1.25, 3),
            *(WeightRow(RULE, f"w{n}", 0.5, 1) for n in range(20)),
        ],
        "examples": [ExampleRow("c1", "face", ['InField(0, "title")'], ['InField(1, "title")'])],
    },
    "weights with standard errors": {
        "weights": [
            WeightRow("!Fraud(p)", "", -3.25, 400, 0.125),
            WeightRow(RULE, '"proc", venue', 0.5, 2, 0.75),
            WeightRow(RULE, '"new", venue', 0.25, 0),
            WeightRow("P(x)", "", 2.5e7, 1, 5e6),
        ]
    },
    "an empty run": {"summary": {}},
    "a run without labels": {"metrics": [metrics_line(4, f1=math.nan)]},
    "a learner without a certificate": {
        "summary": summary("mira"),
        "metrics": [metrics_line(n, dual=None, regret_bound=None) for n in (1, 2)],
    },
    "scores of parts": {
        "summary": summary(**RANKED),
        "metrics": [metrics_line(4, confusion=CONFUSED, predicates=PARTS)],
    },
    "more classes than a matrix shows, and one predicate": {
        "metrics": [
            metrics_line(
                4, confusion={f"c{n}": {f"c{n}": 1} for n in range(31)}, predicates={"P": SCORES}
            )
        ]
    },
    "the reliability of probabilities": {
        "metrics": [
            metrics_line(
                4, **CALIBRATED, reliability=[{"atoms": 1234, "probability": 0.25, "true": 0.125}]
            )
        ]
    },
    "predictions beside their truth": {
        "examples": [
            ExampleRow(
                "c7",
                None,
                [*ATOMS, 'InField(3, "a, \\"b\\"")', "InField(0, title)"],
                [*ATOMS, "InField(1, title)", "InField(3, title)"],
                {"2": "learning", "10": "streams", "9": "unused"},
            )
        ]
    },
    "what has no truth is neither right nor wrong": {
        "examples": [
            ExampleRow("e", None, ["P(a)", "P(b)", "Q(c)"], ["P(a)"], unlabelled=["P(b)", "Q(c)"]),
            ExampleRow("f", None, ["P(d)"], []),
        ]
    },
    "wrong examples come first, and true negatives are counted": {
        "examples": [
            ExampleRow("calm", None, [], []),
            ExampleRow("e-true", None, ["P(a)"], ["P(a)"]),
            ExampleRow("e-near", None, [], [], values={"P(b)": "0.45"}, uncertain=["P(b)"]),
            ExampleRow("e-missed", None, [], ["P(a)"], negatives=1200),
        ]
    },
    "a program of PSL": {
        "metrics": [
            metrics_line(
                n, mae=0.25 / n, routes={"admm": n}, window={"examples": 1, "mae": 0.125 / n}
            )
            for n in (1, 2, 4)
        ],
        "weights": [WeightRow("!Trusts(A, B) ^2", "", 1.5, 4)],
        "examples": [
            ExampleRow(
                "c1",
                None,
                ['Trusts("a", "a")'],
                ['Trusts("a", "c")'],
                values={f'Trusts("a", "{name}")': value for name, value in VALUES.items()},
            )
        ],
    },
}


def test_what_pages_say(tmp_path):
    """All their text, and how many atoms are marked as wrong, missing and without a truth."""

    def said(name):
        page = report(tmp_path, **{"summary": summary(), **PAGES[name]})
        marked = {key: page.classes(key) for key in ("wrong", "missing", "unlabelled")}
        return f"{page.text}\n{marked}"

    path = REPO / "tests" / "runs" / "golden" / "report.txt"
    golden.compare(path, {name: said(name) for name in PAGES})
