"""Our own citation stream: how it is made, what its features mean, and citations like each other."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import onlinesrl as srl
from tests.support.paths import REPO, SHARED
from tests.support.stream_scripts import converted, generator

CITESEER = SHARED / "data" / "citeseer"
STREAM = REPO / "streams" / "citations"
sys.path.insert(0, str(STREAM))

import make  # noqa: E402

make_joint = generator("citations", "joint").joint


def example(paragraph: str) -> dict[str, Any]:
    [reference] = make.references(paragraph)
    return make.citation(reference)


def test_the_stream_is_what_its_source_makes() -> None:
    assert (STREAM / "citations.jsonl").read_text(encoding="utf-8") == make.made()


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


# citations that speak for each other ----------------------------------------------------------------


def words(citation: dict[str, Any]) -> list[str]:
    return [word for word, _ in sorted(citation["evidence"]["Token"], key=lambda atom: atom[1])]


def after_punctuation(citation: dict[str, Any], i: int) -> bool:
    return [i - 1] in citation["evidence"].get("HasPunc", [])


def test_candidates_are_where_an_earlier_citation_has_punctuation() -> None:
    lines = (STREAM / "citations.jsonl").read_text().splitlines()
    plain = [json.loads(line) for line in lines[:50]]
    found = [*make_joint(plain)]
    total = 0
    for n, citation in enumerate(plain):
        here = words(citation)
        expected = [
            [i]
            for i in range(1, len(here) - 2)
            if not after_punctuation(citation, i)
            and any(
                words(other)[k : k + 3] == here[i : i + 3] and after_punctuation(other, k)
                for other in plain[:n]
                for k in range(1, len(words(other)) - 2)
            )
        ]
        evidence = dict(found[n]["evidence"])
        assert evidence.pop("JntInfCandidate", []) == expected
        assert found[n] | {"evidence": evidence} == citation
        total += len(expected)
    assert total > 3


def test_without_candidates_the_joint_model_is_the_isolated_one() -> None:
    examples = [*srl.read(STREAM / "citations.jsonl")][:60]
    of = [
        srl.OnlineLearner(srl.Model.read(STREAM / f"{name}.mln"), "InField")
        for name in ("segmentation", "joint")
    ]
    alone, both = ([p["InField"] for p in learner.learn_many(examples)] for learner in of)
    assert alone == both
    lines = (STREAM / "citations.jsonl").read_text().splitlines()[:60]
    spoken = [srl.Example(**each) for each in make_joint(map(json.loads, lines))]
    of[1].learn_many(spoken)
    assert any("JntInfCandidate" in str(key) and w for key, w in of[1].weights.items())
