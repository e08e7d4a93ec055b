"""Our own citation stream: what it holds, how it is made, and what its features mean."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import REPO, SHARED
from tests.support.stream_scripts import converted

CITESEER = SHARED / "data" / "citeseer"
STREAM = REPO / "streams" / "citations"
sys.path.insert(0, str(STREAM))

import make  # noqa: E402


@pytest.fixture(scope="module")
def examples() -> list[dict[str, Any]]:
    text = (STREAM / "citations.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def example(paragraph: str) -> dict[str, Any]:
    [reference] = make.references(paragraph)
    return make.citation(reference)


def test_the_stream_is_what_its_source_makes() -> None:
    assert (STREAM / "citations.jsonl").read_text(encoding="utf-8") == make.made()


def test_every_reference_of_the_four_papers_is_there_once(examples: list[dict[str, Any]]) -> None:
    assert Counter(e["group"] for e in examples) == {
        "online-max-margin": 29,
        "approximate-counting": 27,
        "structured-prediction": 166,
        "paired-dual-learning": 30,
    }
    assert len({e["id"] for e in examples}) == 252


def test_a_repeat_names_the_first_reference_to_the_work(examples: list[dict[str, Any]]) -> None:
    first: set[str] = set()
    for e in examples:
        if "dup_of" in e:
            assert e["dup_of"] in first, e["id"]
        else:
            first.add(e["id"])
    assert len(first) == 217


def test_works_with_one_title_are_repeats_but_for_a_book_and_an_article(
    examples: list[dict[str, Any]],
) -> None:
    titles: Counter[str] = Counter()
    for e in examples:
        if "dup_of" not in e:
            fields = dict(e["truth"]["InField"])
            title = (w for w, i in e["evidence"]["Token"] if fields.get(i) == "title")
            titles[" ".join(title)] += 1
    assert "" not in titles
    assert [t for t, works in titles.items() if works > 1] == ["statistical relational learning"]


def test_author_title_and_venue_are_unbroken_and_in_this_order(
    examples: list[dict[str, Any]],
) -> None:
    for e in examples:
        fields = dict(e["truth"]["InField"])
        labels = [fields.get(i) for _, i in e["evidence"]["Token"]]
        changes = [b for a, b in zip([None, *labels], labels, strict=False) if b and b != a]
        assert changes == sorted(set(changes)), e["id"]


def test_a_paragraph_becomes_an_example() -> None:
    assert example(
        "# a comment\nlist-2 = list-1\n"
        "author Ré, C. and Max-Lee, B.\nnone   (2007).\ntitle  On nets.\nvenue  In Trans., 1-17."
    ) == {
        "id": "list-2",
        "group": "list",
        "dup_of": "list-1",
        "evidence": {
            "Token": [
                ["re", 0],
                ["c", 1],
                ["and", 2],
                ["maxlee", 3],
                ["b", 4],
                ["lparen", 5],
                ["2007", 6],
                ["rparen", 7],
                ["on", 8],
                ["net", 9],
                ["in", 10],
                ["tran", 11],
                ["117", 12],
            ],
            "FollowBy": [
                [0, "comma"],
                [1, "period"],
                [3, "comma"],
                [4, "period"],
                [7, "period"],
                [9, "period"],
                [11, "comma"],
                [11, "period"],
                [12, "period"],
            ],
            "HasPunc": [[0], [3], [4], [5], [6], [7], [9], [11], [12]],
            "HasComma": [[0], [3], [11]],
            "Center": [[7]],
            "FirstIn": [[10]],
            "LastInitial": [[4]],
            "FirstNonAuthorTitleTkn": [[11]],
            "Next": [[i, i + 1] for i in range(12)],
        },
        "truth": {
            "InField": [[i, "author"] for i in range(5)]
            + [[8, "title"], [9, "title"]]
            + [[i, "venue"] for i in (10, 11, 12)]
        },
    }


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Proceedings of the Conference", "proc of the conf"),
        ("networks analysis images mlns NIPS", "network analysis images mln nips"),
        ("O'Donovan", "o quote donovan"),
        ("Ph.D. Dissertation", "phd dissertation"),
        ("W&CP [cs.SI]; AND/OR", "w amp cp lbracket cs si rbracket semicolon and backslash or"),
    ],
)
def test_words_are_written_as_in_citeseer(text: str, tokens: str) -> None:
    assert [piece for piece, is_token in make.pieces(text) if is_token] == tokens.split()


@pytest.mark.parametrize("line", ["editor A. Uthor", "title", "A. Uthor"])
def test_a_line_without_a_known_field_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"list-1: .* is not author"):
        example(f"list-1\n{line}")


def test_a_sign_without_a_name_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no name for '\*'"):
        example("list-1\ntitle  A*")


@pytest.mark.skipif(not CITESEER.is_dir(), reason="the CiteSeer data is not at hand")
def test_the_features_mean_what_they_mean_for_citeseer(tmp_path: Path) -> None:
    wrong: Counter[str] = Counter()
    for citation in converted("citeseer", CITESEER, tmp_path / "citeseer.jsonl"):
        theirs = citation["evidence"]
        tokens = [word for word, _ in theirs["Token"]]
        marks: list[set[str]] = [set() for _ in tokens]
        for i, mark in theirs.get("FollowBy", []):
            marks[i].add(mark)
        for predicate, ours in make.features(tokens, marks).items():
            wrong[predicate] += sorted(ours) != sorted(theirs.get(predicate, []))
    assert wrong == {
        "FollowBy": 0,
        "FirstIn": 0,
        "FirstNonAuthorTitleTkn": 1,
        "Center": 8,
        "HasComma": 17,
        "LastInitial": 25,
        "HasPunc": 121,
    }
