"""Progress says enough and not too much, by a clock that the test turns."""

import io
from typing import Any

import pytest

from onlinesrl.core.evaluation.metric_table import METRIC_TABLE
from onlinesrl.runs.progress import Display, print_summary


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
        progress.update(snapshot(examples), 1234.5)


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


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ({"examples": 0, "regret_bound": None, "updates": 0}, "Examples 0"),
        ({"examples": 1563, "updates": 1561, "bad": 2}, "Bad examples 2 Updates 1,561"),
        ({"f1": 0.9123, "precision": 0.9, "recall": None}, "F1 91.2% Precision 90.0%"),
        ({"weights": 81234, "dropped_weights": 7}, "Dropped weights 7"),
        ({"mae": 0.0625}, "Mean absolute error 0.0625"),
        ({"routes": {"admm": 4}, "unsolved": 1}, "Solver admm 4 Unproven 1 searches"),
        ({"auc": None, "average_precision": 1.0}, "Average precision 100.0%"),
        ({"regret_bound": 12.5, "updates": 5}, "Regret bound per example 2.5"),
        ({"predicates": {"P": {"f1": 0.5}, "Q": {"f1": None}}}, "F1 of P 50.0%"),
    ],
)
def test_the_summary_says_what_there_is(summary, said):
    stream = io.StringIO()
    print_summary({"examples": 1, **summary}, stream)
    assert said in " ".join(stream.getvalue().split())


def test_each_metric_of_the_table_is_in_the_summary():
    stream = io.StringIO()
    print_summary(dict.fromkeys(METRIC_TABLE, 1), stream)
    lines = stream.getvalue().splitlines()
    for entry in METRIC_TABLE.values():
        assert any(line.startswith(f"{entry.title}  ") for line in lines), entry.title


def test_the_summary_names_slow_examples():
    found = [{"id": "c7", "seconds": 40.2, "atoms": 190, "route": "ilp"}]
    quick = [{"id": 3, "seconds": 0.2, "atoms": 5, "route": "ilp"}]
    stream = io.StringIO()
    print_summary(snapshot(2, slowest=found + quick), stream)
    assert "Slowest example c7: 40.2 s (190 atoms, ilp)" in " ".join(stream.getvalue().split())
