"""Progress says enough and not too much, by a clock that the test turns."""

import io
import subprocess
import sys
from typing import Any

import pytest

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


def test_a_line_says_it_all():
    stream, clock = io.StringIO(), Clock()
    with Display(stream, 2000, clock=clock) as progress:
        progress.update(snapshot(512), 1234.5)
        progress.saved()
        clock.now += 12.2
        progress.update(snapshot(1024, bad=2), 99.0)
    assert stream.getvalue().splitlines() == [
        "examples 512 of 2,000 | rate 1,234/s | F1 91.2% | loss 3.14 | "
        "regret bound 0.00977 per example | weights 5,120 (+5,120 since example 0) | "
        "solver elimination 512, ilp 1",
        "examples 1,024 of 2,000 | rate 99/s | F1 91.2% | loss 3.14 | "
        "regret bound 0.00488 per example | weights 10,240 (+5,120 since example 512) | "
        "solver elimination 1,024, ilp 1 | bad 2 | checkpoint 12 s ago",
    ]


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


def test_rich_is_imported_on_a_terminal_only():
    program = """
import io, sys
from onlinesrl.runs.progress import Display
with Display(io.StringIO()) as progress:
    progress.update({"examples": 1}, 1.0)
assert "rich" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_summary_is_aligned():
    stream = io.StringIO()
    summary = {
        "examples": 1563,
        "updates": 1561,
        "bad": 2,
        "seconds": 2.81,
        "examples_per_second": 4875.2,
        "import_seconds": 0.7,
        "compile_seconds": 3.2,
        "f1": 0.91234,
        "precision": 0.9,
        "recall": 0.92,
        "accuracy": 0.91,
        "hamming": 2.1,
        "regret_bound": 181.64,
        "weights": 81234,
        "dropped_weights": 7,
        "routes": {"elimination": 1560, "ilp": 3},
        "config": {"output": "runs/x"},
    }
    print_summary(summary, stream)
    assert (
        stream.getvalue()
        == """\
Examples      1,563, 1,561 learned from, 2 bad (see deadletter.jsonl)
Time          2.8 s, 4,875 examples per second; 0.7 s of import, 3.2 s of compilation
F1            91.2%, precision 90.0%, recall 92.0%
Accuracy      91.0% of the units to label got the right label
Hamming loss  2.1 wrong atoms per example
Regret bound  181.6 in total, 0.116 per example
Weights       81,234, 7 dropped (learner.max_weights)
Solver        elimination 1,560, ilp 3
Results       runs/x
"""
    )


def test_the_summary_names_slow_examples():
    found = [{"id": "c7", "seconds": 40.2, "atoms": 190, "route": "ilp"}]
    quick = [{"id": 3, "seconds": 0.2, "atoms": 5, "route": "ilp"}]
    stream = io.StringIO()
    print_summary(snapshot(2, slowest=found + quick), stream)
    assert "Slowest       example c7: 40.2 s (190 atoms, ilp)\n" in stream.getvalue()


def test_the_summary_of_little_is_short():
    stream = io.StringIO()
    print_summary({"examples": 0, "regret_bound": None, "updates": 0}, stream)
    assert stream.getvalue() == "Examples  0, 0 learned from\n"


def test_the_summary_of_a_psl_program_speaks_of_values():
    stream = io.StringIO()
    summary = {"mae": 0.0625, "accuracy": 0.75, "routes": {"admm": 4}, "unsolved": 1, "f1": 0.5}
    print_summary(summary, stream)
    assert (
        stream.getvalue()
        == """\
F1          50.0%
Mean error  0.0625 between predicted and true values of atoms
Accuracy    75.0% of the atoms are on the right side of 1/2
Solver      admm 4; 1 ended at its last iteration, unproven
"""
    )


def test_the_summary_of_what_is_all_true_has_no_auc():
    stream = io.StringIO()
    ranked = {"auc": None, "average_precision": 1.0, "best_f1": 1.0, "best_threshold": 0.25}
    print_summary({"examples": 1, "mae": 0.0, **ranked}, stream)
    (line,) = [line for line in stream.getvalue().splitlines() if line.startswith("Ranking")]
    assert line.split(maxsplit=1)[1] == (
        "average precision 100.0%, best F1 100.0% at threshold 0.25"
    )
