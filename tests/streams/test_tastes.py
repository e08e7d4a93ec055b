"""Our own stream of changing tastes: how it is made, when drift is noticed, and what the response gains."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import long_if

from onlinesrl.core.online.update_rules import UPDATES
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.progress import Display
from onlinesrl.runs.run import Options, run
from tests.support.stream_scripts import REPO, generator

generate = generator("tastes")
FIRST, SECOND = generate.CHANGES
SOON = 100
LEFT = {"cda1", "pa1", "simple", "mira", "subgradient"}
"""Updates that are left to ``-m long``; cd takes seconds."""


def summary(output: Path, *settings: str) -> dict[str, Any]:
    """The summary of a run of the shipped configuration, with other settings."""
    config = load(REPO / "configs" / "tastes.yaml", [f"output={output}", *settings])
    return run(config, Options(display=Display(io.StringIO())), 0.0, lambda said: None)


@pytest.mark.parametrize("update", long_if(LEFT.__contains__, sorted({*UPDATES} - {"cd"})))
def test_a_change_is_noticed_soon_and_the_response_gains(tmp_path: Path, update: str) -> None:
    found = summary(tmp_path / "with", f"learner.update={update}")
    first, second = found["drift"]["at"]
    assert FIRST < first <= FIRST + SOON
    assert SECOND < second <= SECOND + SOON
    without = summary(tmp_path / "without", f"learner.update={update}", "drift=null")
    assert found["hamming"] < 0.85 * without["hamming"]


@pytest.mark.parametrize("seed", [2, 3])
def test_it_is_so_in_other_streams_of_this_kind(tmp_path: Path, seed: int) -> None:
    stream = tmp_path / "stream.jsonl"
    stream.write_text(generate.made(seed))
    found = summary(tmp_path / "with", f"source.path={stream}")
    first, second = found["drift"]["at"]
    assert FIRST < first <= FIRST + SOON
    assert SECOND < second <= SECOND + SOON
    without = summary(tmp_path / "without", f"source.path={stream}", "drift=null")
    assert found["hamming"] < 0.9 * without["hamming"]


def test_without_a_change_there_is_no_signal(tmp_path: Path) -> None:
    stream = tmp_path / "stream.jsonl"
    lines = generate.made().splitlines(keepends=True)
    stream.write_text("".join(lines[:FIRST]))
    assert "drift" not in summary(tmp_path / "run", f"source.path={stream}")
    assert json.loads((tmp_path / "run" / "summary.json").read_bytes())["examples"] == FIRST
