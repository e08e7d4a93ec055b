"""CAVIAR's pairs as examples: the windows, the order of frames, the errors, and learning from them."""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import soaked

import onlinesrl as srl
from onlinesrl.core.example import Example, decode
from tests.support.paths import REPO, SHARED
from tests.support.stream_scripts import converted

CAVIAR = SHARED / "data" / "caviar"
STREAM = REPO / "streams" / "meetings"
sys.path.insert(0, str(STREAM))

import from_caviar  # noqa: E402
import leave_one_movie_out as experiment  # noqa: E402

DATABASE = """
// what two people do in three frames
Walking_ID1 = walking(ID1)
Active_ID2 = active(ID2)
Meet_ID1_ID1 = meet(ID1, ID1)
Meet_ID1_ID2 = meet(ID1, ID2)
Move_ID1_ID2 = move(ID1, ID2)
StartTime(0)
Next(1,0)
Next(2,1)
Happens(Walking_ID1,0)
Happens(Active_ID2,2)
Close(ID1,ID2,24,1)
OrientationMove(ID1,ID2,2)
HoldsAt(Move_ID1_ID2,0)
HoldsAt(Meet_ID1_ID1,1)
HoldsAt(Meet_ID1_ID2,1)
HoldsAt(Meet_ID1_ID2,2)
"""


def windows(text: str, frames: int) -> list[dict[str, Any]]:
    with tempfile.NamedTemporaryFile("w", suffix=".db") as file:
        file.write(text)
        file.flush()
        [pair] = srl.read(file.name)
    return list(from_caviar.windows("07-Talk.id1_id2", pair.evidence, frames))


def test_a_pair_becomes_windows() -> None:
    functions = {
        "walking": [["ID1", "Walking_ID1"]],
        "active": [["ID2", "Active_ID2"]],
        "meet": [["ID1", "ID2", "Meet_ID1_ID2"]],
    }
    assert windows(DATABASE, 2) == [
        {
            "id": "07-Talk.id1_id2.0",
            "group": "07",
            "evidence": {
                **functions,
                "Happens": [["Walking_ID1", 0]],
                "Close": [["ID1", "ID2", 24, 1]],
                "StartTime": [[0]],
                "Next": [[0, 1]],
            },
            "truth": {"HoldsAt": [["Meet_ID1_ID2", 1]]},
        },
        {
            "id": "07-Talk.id1_id2.2",
            "group": "07",
            "evidence": {
                **functions,
                "Happens": [["Active_ID2", 2]],
                "OrientationMove": [["ID1", "ID2", 2]],
            },
            "truth": {"HoldsAt": [["Meet_ID1_ID2", 2]]},
        },
    ]


def test_who_stands_idle_and_came_walking_has_arrived() -> None:
    rows: from_caviar.Rows = [["W", 0], ["I", 1], ["I", 2], ["A", 3], ["I", 4], ["I", 5]]
    names: dict[str, from_caviar.Rows] = {
        "walking": [["ID1", "W"]],
        "inactive": [["ID1", "I"]],
        "active": [["ID1", "A"]],
    }
    assert from_caviar.arrived({**names, "Happens": rows[::-1]}) == [["ID1", 1], ["ID1", 2]]
    assert from_caviar.arrived({**names, "Happens": rows[1:]}) == []


def test_a_pair_that_never_meets_gives_nothing() -> None:
    assert windows(DATABASE.replace("HoldsAt(Meet_ID1_ID2", "HoldsAt(Move_ID1_ID2"), 2) == []


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not CAVIAR.is_dir():
        pytest.skip("the CAVIAR data is not at hand")
    out = tmp_path_factory.mktemp("caviar") / "caviar.jsonl"
    converted("caviar", CAVIAR, out)
    return out


@pytest.mark.long
def test_the_real_pairs(data: Path) -> None:
    examples = [json.loads(line) for line in data.read_text().splitlines()]
    meeting: Counter[str] = Counter()
    for e in examples:
        assert e["evidence"]["Next"][0][0] % from_caviar.FRAMES == 0
        meeting[e["group"]] += len(e["truth"]["HoldsAt"])
    assert len({e["id"] for e in examples}) == len(examples)
    assert meeting == {
        movie: 2 * frames
        for movie, frames in {
            "01": 468,
            "02": 855,
            "14": 123,
            "20": 147,
            "21": 26,
            "24": 60,
        }.items()
    }


def mean(f1: Iterable[float]) -> float:
    return sum(f1) / 6


@pytest.mark.long
@pytest.mark.parametrize("order", [soaked(list), experiment.side_by_side])
def test_every_learner_beats_the_majority_and_the_untrained_rules_in_the_mean(
    data: Path, order: Callable[[list[Example]], list[Example]]
) -> None:
    examples = order([decode(line) for line in data.read_bytes().splitlines()])
    held_out = experiment.splits(examples).values()
    rules = experiment.untrained()
    untrained = mean(experiment.scores(rules, s).f1 for s in held_out)
    majority = mean(experiment.majority(s).f1 for s in held_out)
    assert majority < untrained
    for learner in experiment.LEARNERS:
        sigma = learner.sigmas[len(learner.sigmas) // 2]
        learned = [experiment.trained(learner, sigma, s) for s in held_out]
        f1 = mean(experiment.scores(a, s).f1 for a, s in zip(learned, held_out, strict=True))
        if (learner.update, order) != (
            "cd",
            list,
        ):  # which movie after movie ends far from the first
            assert f1 > untrained, learner.name
