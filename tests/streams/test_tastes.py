"""Our own stream of changing tastes, and when drift is noticed in it."""

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
FIRST = generate.CHANGES[0]
SOON = 100
LEFT = {"cda1", "pa1", "simple", "mira", "subgradient"}
"""Updates that are left to ``-m long``; cd takes seconds."""


def summary(output: Path, *settings: str) -> dict[str, Any]:
    """The summary of a run of the shipped configuration, with other settings."""
    config = load(REPO / "configs" / "tastes.yaml", [f"output={output}", *settings])
    return run(config, Options(display=Display(io.StringIO())), 0.0, lambda said: None)


@pytest.mark.parametrize("update", long_if(LEFT.__contains__, sorted({*UPDATES} - {"cd"})))
def test_a_change_is_noticed_soon(tmp_path: Path, update: str) -> None:
    """The second one is not: after the first one predictions are as bad as after it."""
    (at,) = summary(tmp_path / "run", f"learner.update={update}")["drift"]["at"]
    assert FIRST < at <= FIRST + SOON


@pytest.mark.parametrize("seed", [2, 3])
def test_it_is_so_in_other_streams_of_this_kind(tmp_path: Path, seed: int) -> None:
    stream = tmp_path / "stream.jsonl"
    stream.write_text(generate.made(seed))
    (at,) = summary(tmp_path / "run", f"source.path={stream}")["drift"]["at"]
    assert FIRST < at <= FIRST + SOON


def test_without_a_change_there_is_no_signal(tmp_path: Path) -> None:
    stream = tmp_path / "stream.jsonl"
    lines = generate.made().splitlines(keepends=True)
    stream.write_text("".join(lines[:FIRST]))
    assert "drift" not in summary(tmp_path / "run", f"source.path={stream}")
    assert json.loads((tmp_path / "run" / "summary.json").read_bytes())["examples"] == FIRST
