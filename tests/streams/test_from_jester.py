"""Jester's ratings as examples: the atoms, what they are made of, the order and the errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinesrl.core.example import ValuedAtom, decode
from onlinesrl.psl.ground.hinge_loss_mrf import validate
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.lang import reader
from tests.support.paths import SHARED
from tests.support.stream_scripts import PAPERS, converted, ground, refusal

JESTER = SHARED / "data" / "psl" / "jester"
STREAM = PAPERS / "jester"

RATINGS = {
    "tr-obs": [(2, 10, 0.8), (2, 20, 0.6), (2, 30, 0.1), (1, 10, 0.9), (1, 20, 0.7), (3, 30, 0.5)],
    "tr-uno": [(1, 30, 0.2), (2, 40, 0.4)],
    "te-obs": [(7, 10, 0.25), (7, 30, 0.75)],
    "te-uno": [(8, 10, 1.0), (7, 20, 0.5)],
}
TEXT = [(10, 20, 0.5), (20, 10, 0.5), (30, 40, 0.25), (10, 40, 0.125)]


def rows(listed: list[tuple[int, int, float]]) -> str:
    return "".join(f"{a}\t{b}\t{value}\n" for a, b, value in listed)


def write(folder: Path, **changes: Any) -> Path:
    source = folder / "jester"
    source.mkdir()
    for name, listed in {**RATINGS, **changes}.items():
        text = listed if isinstance(listed, str) else rows(listed)
        (source / f"jester-1-{name}-0.txt").write_text(text)
    (source / "jokeTextSim.txt").write_text(rows(TEXT))
    return source


def test_a_user_becomes_an_example(tmp_path: Path) -> None:
    first, *_ = converted("jester", write(tmp_path), tmp_path / "out")
    assert first == {
        "id": 1,
        "group": "train",
        "evidence": {
            "Rating": [{"args": [1, 10], "value": 0.9}, {"args": [1, 20], "value": 0.7}],
            "AverageOfUser": [{"args": [1], "value": 0.8}],
            "AverageOfJoke": [{"args": [30], "value": 0.3}],
            "Average": [{"args": [0], "value": 0.6}],
        },
        "query": {"Rating": [[1, 30]]},
        "truth": {"Rating": [{"args": [1, 30], "value": 0.2}]},
    }


def test_neighbours_are_rated_alike_by_the_users_to_train_on(tmp_path: Path) -> None:
    ratings = [(1, 10, 0.9), (1, 20, 0.8), (1, 30, 0.1), (2, 10, 0.1), (2, 20, 0.4), (2, 30, 0.7)]
    hidden = [(1, 40, 0.2), (3, 10, 0.3), (3, 20, 0.3), (3, 30, 0.3), (4, 10, 0.3), (5, 20, 0.3)]
    source = write(tmp_path, **{"tr-obs": [*ratings, (5, 10, 0.4)], "tr-uno": hidden})
    examples = converted("jester", source, tmp_path / "out")
    # Less the users' means, 0.6 and 0.4, joke 10 has 0.3 and -0.3, 20 has 0.2 and 0, 30 -0.5 and 0.3.
    pairs = [e["evidence"].get("Neighbours") for e in examples if e["group"] == "train"]
    assert pairs == [None, [[10, 20], [20, 10]], None, [[10, 20], [20, 10]]]


def test_similar_texts_are_kept_where_the_user_rates_both(tmp_path: Path) -> None:
    _, second, third, _ = converted("jester", write(tmp_path), tmp_path / "out")
    assert second["evidence"]["SimilarText"] == [
        {"args": [30, 40], "value": 0.25},
        {"args": [10, 40], "value": 0.125},
    ]
    assert third["evidence"]["SimilarText"] == [
        {"args": [10, 20], "value": 0.5},
        {"args": [20, 10], "value": 0.5},
    ]


def test_a_user_without_ratings_has_no_average(tmp_path: Path) -> None:
    *_, last = converted("jester", write(tmp_path), tmp_path / "out")
    assert last["id"] == 8
    assert "Rating" not in last["evidence"]
    assert "AverageOfUser" not in last["evidence"]
    assert last["evidence"]["AverageOfJoke"] == [{"args": [10], "value": 0.85}]


def test_hidden_ratings_and_those_of_others_to_test_on_decide_nothing(tmp_path: Path) -> None:
    before = converted("jester", write(tmp_path), tmp_path / "out")
    (tmp_path / "other").mkdir()
    changed = write(
        tmp_path / "other", **{"tr-uno": [(1, 30, 1.0), (2, 40, 0.0)], "te-obs": [(7, 10, 0.0)]}
    )
    after = converted("jester", changed, tmp_path / "out")
    for old, new in zip(before, after, strict=True):
        if old["id"] != 7:
            assert new["evidence"] == old["evidence"]


def test_a_rating_seen_and_hidden_is_an_error(tmp_path: Path) -> None:
    source = write(tmp_path, **{"tr-uno": [(1, 10, 0.9)]})
    said = refusal("jester", source, tmp_path / "out")
    assert "joke 10 by user 1 is both observed and hidden" in said


def test_the_model_grounds_what_the_converter_writes(tmp_path: Path) -> None:
    source = write(tmp_path)
    converted("jester", source, tmp_path / "out")
    examples = [decode(line) for line in (tmp_path / "out").read_bytes().splitlines()]
    found = ground(STREAM / "jester.psl", ["Rating"], examples)
    assert not found.failures
    validate(found.graphs.model)
    weights = np.array([rule.weight for rule in reader.load(STREAM / "jester.psl").rules])
    assert np.all(weights == 0.01)
    # User 1 and joke 30: five rules pull up or down, towards 0.8, 0.3, 0.8 + 0.3 - 0.6 and 0.6.
    model = found.graphs.micrograph(0)
    assert sorted(model.weight_index.tolist()) == [3, 4, 5, 6, 7, 8, 9, 10]
    y = Admm(tolerance=1e-9).solve(model, weights).y
    assert y == pytest.approx([np.mean([0.8, 0.3, 0.5, 0.6])], abs=1e-4)


@pytest.mark.long
@pytest.mark.skipif(not JESTER.is_dir(), reason="the Jester data is not at hand")
def test_the_real_ratings(tmp_path: Path) -> None:
    out = tmp_path / "jester.jsonl"
    converted("jester", JESTER, out)
    lines = out.read_bytes().splitlines()
    assert len(lines) == 2000
    hidden = 0
    for number, line in enumerate(lines, 1):
        e = decode(line)
        assert e.id == number
        assert e.group == ("train" if number <= 1000 else "test")
        asked = {row[1] for row in e.query["Rating"]}
        hidden += len(asked)
        assert {row[0] for row in map(arguments, e.evidence["AverageOfJoke"])} == asked
        seen = {row[1] for row in map(arguments, e.evidence["Rating"])}
        assert len(seen | asked) == len(seen) + len(asked) == 100
        pairs = map(arguments, [*e.evidence["Neighbours"], *e.evidence["SimilarText"]])
        assert all(not asked.isdisjoint(pair) for pair in pairs)
    assert hidden == 100_000
    some = [decode(line) for line in lines[::100]]
    found = ground(STREAM / "jester.psl", ["Rating"], some)
    assert not found.failures
    assert np.diff(found.graphs.first_variable).tolist() == [len(e.query["Rating"]) for e in some]


def arguments(atom: list[Any] | ValuedAtom) -> list[Any]:
    return atom.args if isinstance(atom, ValuedAtom) else atom
