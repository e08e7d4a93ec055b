"""The comparison of the learners of PSL programs: its baselines, and that it runs."""

import sys
from pathlib import Path

import pytest

from onlinesrl.core.example import Example, ValuedAtom
from tests.support.stream_scripts import STREAMS

sys.path.insert(0, str(STREAMS))

import compare_learners

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


def compare(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["compare_learners", *map(str, arguments)])
    compare_learners.main()


@pytest.mark.long
def test_every_learner_has_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (STREAMS / "trust" / "trust.jsonl").read_bytes().splitlines(keepends=True)
    source = tmp_path / "few.jsonl"
    source.write_bytes(b"".join(lines[:12] + lines[-4:]))
    compare(monkeypatch, *TRUST, source, "--test", "d09", "--alone", "10,11")
    head, _, _, _, *rows = capsys.readouterr().out.splitlines()
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


def test_groups_that_are_not_there_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leave:
        compare(monkeypatch, *TRUST, STREAMS / "trust" / "trust.jsonl", "--test", "d99")
    assert leave.value.code == 2
    assert "0 examples to test on and 1798 to learn from" in capsys.readouterr().err
