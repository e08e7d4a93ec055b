"""The machines' tables are what their generator makes; windows over readings say what readings do not."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Job, command

from tests.support.stream_scripts import REPO, STREAMS, generator

CONFIG = REPO / "configs" / "machines.yaml"


def test_the_tables_are_what_the_generator_makes() -> None:
    for name, text in generator("machines").made().items():
        assert (STREAMS / "machines" / name).read_text(encoding="utf-8") == text


def test_the_configuration_is_checked_and_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("check", str(CONFIG)) == 0
    assert "100 of the first 100 are good" in capfd.readouterr().out
    output = ["--set", f"output={tmp_path}", "--until", "100"]
    assert command("run", str(CONFIG), *output) == 0
    alerts = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_bytes().splitlines()]
    days = Counter(alert["time"] // 86400 for alert in alerts)
    assert 0 < max(days.values()) <= 3


def scores(folder: Path, name: str, numbers: dict[str, Any]) -> Any:
    """The summary of a run with these numbers, without alerts."""
    keys = yaml.safe_load(CONFIG.read_text())
    keys["source"]["path"] = [str(CONFIG.parent / path) for path in keys["source"]["path"]]
    keys["source"]["linked"]["numbers"]["Number"] = numbers
    keys |= {"model": str(CONFIG.parent / keys["model"]), "alerts": None}
    run = Job(folder / name, [], **keys)
    assert run.run() == 0, run.said
    return json.loads((run.output / "summary.json").read_text())


@pytest.mark.usefixtures("job")
def test_windows_say_what_readings_do_not(tmp_path: Path) -> None:
    """As the README says."""
    windows = yaml.safe_load(CONFIG.read_text())["source"]["linked"]["numbers"]["Number"]
    own = {name: number for name, number in windows.items() if "by" not in number}
    found = scores(tmp_path, "windows", windows)
    assert round(found["average_precision"], 3) == 0.559
    assert round(found["top"]["Fails"]["precision"], 3) == 0.48
    found = scores(tmp_path, "own", own | {"errors": {"of": "errors"}})
    assert round(found["average_precision"], 3) == 0.257
