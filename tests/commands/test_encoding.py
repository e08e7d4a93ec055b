"""What is printed on a stream that is not UTF-8."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPO

MODEL = "kind={...}\nW(word)\nIs(kind)\nW(+w) => Is(+k)\n"
CONFIG = "model: m.mln\nquery: Is\nsource: {path: x.jsonl}\nlimits: {bad_share: 1}\noutput: out\n"


def example(n: int, predicate: str = "W") -> str:
    truth = {"Is": [[f"k\u00fc{n % 3}"]]}
    of = {"id": f"\u00fc{n}", "evidence": {predicate: [[f"\u00fc{n % 3}"]]}, "truth": truth}
    return json.dumps(of, ensure_ascii=False) + "\n"


def said(folder: Path, encoding: str, *arguments: str) -> str:
    """Run a command whose output has an encoding; return what it printed."""
    environment = os.environ | {"PYTHONPATH": str(REPO), "PYTHONIOENCODING": encoding}
    code = "from onlinesrl.commands.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", code, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
    )
    bad = 65 if arguments[0] == "check" else 0  # one example is bad
    assert done.returncode == bad, done.stderr.decode(encoding)
    return done.stdout.decode(encoding)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with constants, ids and a dead letter that are not ASCII."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "m.mln").write_text(MODEL)
    (folder / "c.yaml").write_text(CONFIG)
    lines = [example(0, "\u00dcber"), *map(example, range(1, 7))]
    (folder / "x.jsonl").write_text("".join(lines), encoding="utf-8")
    said(folder, "utf-8", "run", "c.yaml")
    return folder


COMMANDS = {
    "weights": ["weights", "out", "--top", "9"],
    "explain": ["explain", "out", "--id", "\u00fc1"],
    "dlq list": ["dlq", "list", "out"],
    "dlq show": ["dlq", "show", "out", "1"],
    "check": ["check", "c.yaml"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_what_an_encoding_does_not_have_is_escaped(folder: Path, command: list[str]) -> None:
    escaped = said(folder, "ascii", *command)
    assert "\\xfc" in escaped or "\\xdc" in escaped


def test_what_it_has_is_written_in_it(folder: Path) -> None:
    assert "\u00fc1" in said(folder, "latin-1", "weights", "out")


def test_data_are_in_utf_8(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(REPO), "PYTHONIOENCODING": "ascii"}
    code = "from onlinesrl.commands.cli import main; main()"
    predict = [sys.executable, "-c", code, "predict", "out", "c.yaml"]
    written = subprocess.check_output(
        predict, cwd=folder, env=environment, stderr=subprocess.DEVNULL
    )
    assert "\u00fc1" in written.decode("utf-8")
