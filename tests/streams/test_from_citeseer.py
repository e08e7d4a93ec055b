"""CiteSeer's citations as examples: the atoms, the sentinels, the order and the errors."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import SHARED
from tests.support.stream_scripts import converted, generator, refusal

CITESEER = SHARED / "data" / "citeseer"
from_citeseer = generator("citations", "from_citeseer")


def citation(identifier: str, topic: str, **changes: Any) -> dict[str, Any]:
    """`Ada B. On "x": 1999. In Y`, in CiteSeer's form."""
    return {
        "id": identifier,
        "topic": topic,
        "tokens": ["ada", "b", "on", "engine", "1999", "in", "proc"],
        "labels": ["author", "author", "title", "title", None, "venue", "venue"],
        "hascomma": [],
        "haspunc": [3, 4, 6],
        "center": [3],
        "firstin": [5],
        "lastinitial": [1],
        "firstnonauthortitletkn": [6],
        "followby": [[1, "period"], [3, "comma"], [3, "dquote"], [4, "period"]],
        **changes,
    }


def examples(folder: Path, topics: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    source = folder / "citeseer"
    source.mkdir()
    for topic, citations in topics.items():
        lines = "".join(json.dumps(c) + "\n" for c in citations)
        (source / f"{topic}.jsonl").write_text(lines)
    return converted(from_citeseer, source, folder / "all.jsonl")


def test_a_citation_becomes_an_example(tmp_path: Path) -> None:
    [example] = examples(tmp_path, {"maths": [citation("c1", "maths")]})
    assert example == {
        "id": "c1",
        "group": "maths",
        "evidence": {
            "Token": [
                ["ada", 0],
                ["b", 1],
                ["on", 2],
                ["engine", 3],
                ["1999", 4],
                ["in", 5],
                ["proc", 6],
            ],
            "FollowBy": [[1, "period"], [3, "comma"], [3, "dquote"], [4, "period"]],
            "HasPunc": [[3], [4], [6]],
            "Center": [[3]],
            "FirstIn": [[5]],
            "LastInitial": [[1]],
            "FirstNonAuthorTitleTkn": [[6]],
            "Next": [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6]],
        },
        "truth": {
            "InField": [
                [0, "author"],
                [1, "author"],
                [2, "title"],
                [3, "title"],
                [5, "venue"],
                [6, "venue"],
            ]
        },
    }


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"firstin": [7]}, {"FirstIn"}),
        ({"firstnonauthortitletkn": [7]}, {"FirstNonAuthorTitleTkn"}),
        ({"lastinitial": [0]}, {"LastInitial"}),
        ({"center": []}, {"Center"}),
    ],
)
def test_what_stands_for_none_leaves_no_atom(
    tmp_path: Path, changes: dict[str, Any], missing: set[str]
) -> None:
    [whole, changed] = examples(
        tmp_path, {"maths": [citation("c1", "maths"), citation("c2", "maths", **changes)]}
    )
    assert set(whole["evidence"]) - set(changed["evidence"]) == missing


def test_the_first_token_may_be_the_last_initial(tmp_path: Path) -> None:
    letter = citation("c1", "maths", tokens=["b", "ada", *"cdefg"], lastinitial=[0])
    [example] = examples(tmp_path, {"maths": [letter]})
    assert example["evidence"]["LastInitial"] == [[0]]


def test_a_citation_without_fields_keeps_its_empty_truth(tmp_path: Path) -> None:
    [example] = examples(tmp_path, {"maths": [citation("c1", "maths", labels=[None] * 7)]})
    assert example["truth"] == {"InField": []}


def test_topics_in_alphabetical_order_and_citations_in_file_order(tmp_path: Path) -> None:
    topics = {t: [citation(t + n, t) for n in "21"] for t in ("zoology", "algebra")}
    listed = examples(tmp_path, topics)
    assert [(e["id"], e["group"]) for e in listed] == [
        ("algebra2", "algebra"),
        ("algebra1", "algebra"),
        ("zoology2", "zoology"),
        ("zoology1", "zoology"),
    ]


@pytest.mark.parametrize("line", ["{", "[]", '{"id": "c1"}'])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "maths.jsonl").write_text(json.dumps(citation("c1", "maths")) + f"\n{line}\n")
    said = refusal(from_citeseer, tmp_path, tmp_path / "out")
    assert said.startswith(f"{tmp_path / 'maths.jsonl'}:2: not a citation")


def test_a_folder_without_topics_is_an_error(tmp_path: Path) -> None:
    assert str(tmp_path) in refusal(from_citeseer, tmp_path, tmp_path / "out")


@pytest.mark.skipif(not CITESEER.is_dir(), reason="the CiteSeer data is not at hand")
def test_the_real_citations(tmp_path: Path) -> None:
    examples = converted(from_citeseer, CITESEER, tmp_path / "all.jsonl")
    groups = Counter(e["group"] for e in examples)
    atoms = Counter(p for e in examples for p, rows in e["evidence"].items() for _ in rows)
    fields = Counter(field for e in examples for _, field in e["truth"]["InField"])
    assert groups == {"constraint": 295, "face": 348, "reinforcement": 406}
    assert [e["group"] for e in examples] == sorted(groups.elements())
    assert len({e["id"] for e in examples}) == 1049
    assert fields == {"author": 5123, "title": 8428, "venue": 11814}
    assert atoms["Token"] == 26329
    assert atoms["FirstIn"] == 1049 - 489
    assert atoms["FirstNonAuthorTitleTkn"] == 1049 - 337
    assert all(i < len(e["evidence"]["Token"]) for e in examples for [i] in atoms_of_one(e))


def atoms_of_one(example: dict[str, Any]) -> list[list[int]]:
    """All atoms of an example that hold nothing but a position."""
    return [atom for rows in example["evidence"].values() for atom in rows if len(atom) == 1]
