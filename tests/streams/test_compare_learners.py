"""The comparison of the learners of PSL programs: its baselines, and that it runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from onlinesrl.core.example import Example, ValuedAtom
from tests.support.stream_scripts import REPO, STREAMS

sys.path.insert(0, str(STREAMS))

import compare_learners

SCRIPT = STREAMS / "compare_learners.py"
TRUST = STREAMS / "trust" / "trust.psl", "Trusts"


def soft(*truth: float) -> Example:
    return Example(
        id=0,
        evidence={},
        query={"Likes": [[n] for n in range(len(truth))]},
        truth={"Likes": [ValuedAtom([n], value) for n, value in enumerate(truth) if value]},
    )


def test_the_best_constant_is_the_median() -> None:
    scores = compare_learners.constant([soft(0.75, 1.0), soft(0.0)])
    assert scores == {"mae": pytest.approx(1 / 3), "accuracy": 2 / 3, "f1": 0.8}


def test_a_constant_below_one_half_finds_nothing() -> None:
    scores = compare_learners.constant([soft(0.25, 1.0, 0.0)])
    assert scores == {"mae": pytest.approx(1 / 3), "accuracy": 2 / 3, "f1": 0.0}


def compare(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPO)


@pytest.mark.long
def test_every_learner_has_a_row(tmp_path: Path) -> None:
    lines = (STREAMS / "trust" / "trust.jsonl").read_bytes().splitlines(keepends=True)
    source = tmp_path / "few.jsonl"
    source.write_bytes(b"".join(lines[:12] + lines[-4:]))
    done = compare(*TRUST, source, "--test", "d09", "--alone", "10,11")
    assert done.returncode == 0, done.stderr
    head, _, _, _, *rows = done.stdout.splitlines()
    assert head == "12 examples to learn from, 4 to test on"
    cells = [row.strip("| ").split(" | ") for row in rows]
    learners = [name for name, *_ in compare_learners.LEARNERS]
    assert [row[0] for row in cells] == [
        "best constant",
        "rules 10,11 alone",
        "untrained rules",
        *learners,
    ]
    assert cells[1][1] == "0.500"


def test_groups_that_are_not_there_are_an_error() -> None:
    done = compare(*TRUST, STREAMS / "trust" / "trust.jsonl", "--test", "d99")
    assert done.returncode == 2
    assert "0 examples to test on and 1798 to learn from" in done.stderr
