"""What is printed on a stream that is not UTF-8."""

import io
import json
import os
import sys
from pathlib import Path

import pytest
from conftest import command

MODEL = "kind={...}\nW(word)\nIs(kind)\nW(+w) => Is(+k)\n"
CONFIG = "model: m.mln\nquery: Is\nsource: {path: x.jsonl}\nlimits: {bad_share: 1}\noutput: out\n"


def example(n: int, predicate: str = "W") -> str:
    truth = {"Is": [[f"k\u00fc{n % 3}"]]}
    of = {"id": f"\u00fc{n}", "evidence": {predicate: [[f"\u00fc{n % 3}"]]}, "truth": truth}
    return json.dumps(of, ensure_ascii=False) + "\n"


def said(folder: Path, encoding: str, *arguments: str, written_in: str = "") -> str:
    """Run a command whose output has an encoding; return what it printed."""
    printed, here, shown = io.TextIOWrapper(io.BytesIO(), encoding=encoding), Path.cwd(), sys.stdout
    os.chdir(folder)
    sys.stdout = printed
    try:
        code = command(*arguments)
    finally:
        sys.stdout = shown
        os.chdir(here)
    assert code == (65 if arguments[0] == "check" else 0)  # one example is bad
    printed.flush()
    return printed.buffer.getvalue().decode(written_in or encoding)  # type: ignore[attr-defined, no-any-return]


@pytest.fixture(scope="module")
def folder(warm, tmp_path_factory):
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


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_what_an_encoding_does_not_have_is_escaped(folder, arguments):
    escaped = said(folder, "ascii", *arguments)
    assert "\\xfc" in escaped or "\\xdc" in escaped


def test_what_it_has_is_written_in_it(folder):
    assert "\u00fc1" in said(folder, "latin-1", "weights", "out")


def test_data_are_in_utf_8(folder):
    assert "\u00fc1" in said(folder, "ascii", "predict", "out", "c.yaml", written_in="utf-8")
