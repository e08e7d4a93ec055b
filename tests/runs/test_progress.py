"""Progress says enough and not too much, by a clock that the test turns."""

import io
import json
from functools import partial
from typing import Any

import pytest
from conftest import REPO

from onlinesrl.core.evaluation.metric_table import METRIC_TABLE
from onlinesrl.runs.progress import Display, print_summary
from onlinesrl.stream.observer import Progress
from tests.support import golden


class Clock:
    """A clock that stands still until told otherwise."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and counts what rich clears or draws."""

    def isatty(self) -> bool:
        return True


def snapshot(examples: int, **more: Any) -> dict[str, Any]:
    return {
        "examples": examples,
        "updates": examples,
        "f1": 0.912,
        "loss": 3.14159,
        "regret_bound": 5.0,
        "weights": 10 * examples,
        "routes": {"elimination": examples, "ilp": 1},
    } | more


def feed(progress: Display, counts: range) -> None:
    for examples in counts:
        line = partial(snapshot, examples)
        progress.batch(Progress([], [], examples, 0.0, examples / 1234.5, None, line, dict))


def test_a_reader_that_is_gone_does_not_stop_the_run():
    class Broken(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    feed(Display(Broken(), clock=Clock()), range(1, 5))


def test_the_terminal_is_given_back_after_an_error(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with pytest.raises(ZeroDivisionError), Display(stream, clock=Clock()) as progress:
        feed(progress, range(1, 3))
        raise ZeroDivisionError
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


def test_a_dumb_terminal_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Display(stream, clock=Clock()) as progress:
        feed(progress, range(1, 3))
    assert "\x1b" not in stream.getvalue()


def test_the_summary_says_what_there_is():
    def said(summary):
        stream = io.StringIO()
        print_summary({"examples": 1, **json.loads(summary)}, stream)
        return stream.getvalue()

    golden.check(REPO / "tests" / "runs" / "golden" / "summaries.txt", said)


def test_each_metric_of_the_table_is_in_the_summary():
    stream = io.StringIO()
    print_summary(dict.fromkeys(METRIC_TABLE, 1), stream)
    lines = stream.getvalue().splitlines()
    for entry in METRIC_TABLE.values():
        assert any(line.startswith(f"{entry.title}  ") for line in lines), entry.title
