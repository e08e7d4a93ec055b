"""The progress display of a run, and its summary.

On a terminal it is a table that redraws itself, elsewhere a plain line at intervals.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, TextIO

from onlinesrl.core import search_status
from onlinesrl.core.errors import printable
from onlinesrl.core.evaluation.metric_table import METRIC_TABLE
from onlinesrl.runs.console import acknowledge
from onlinesrl.stream.observer import Observer, Progress

if TYPE_CHECKING:
    from rich.live import Live

Snapshot = Mapping[str, Any]

_REDRAW_SECONDS = 0.125
_LINE_SECONDS = 60.0
_STATUS_SECONDS = 10.0
_SLOW_SECONDS = 2.0
_FORMATS = {"count": "{:,}", "percent": "{:.1%}", "figure": "{:,.4g}"}
"""How a metric of the table is shown, by its format."""
SEARCH_SHOWN, SEARCH_ADVISED = 5.0, 60.0
"""Seconds after which a search is shown, and after which there is advice."""


class Shows(Observer):
    """What shows the progress of a run; a context manager. These methods show nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def working(self, example: str, seconds: float) -> None:
        """Show the example being solved."""

    def stopping(self) -> None:
        """Show that a signal has asked to stop; for signal handlers."""


class Display(Shows):
    """Shows the progress of a run; a context manager, which restores the terminal."""

    def __init__(
        self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._view = _Table(self._stream) if terminal else _Lines(self._stream)
        self._next_examples = 1
        self._next_time = clock() + self._view.seconds
        self._at_power = 0, 0
        """The examples and the weights at the last power of two of examples."""
        self._saved_at: float | None = None
        self._cells_drawn: dict[str, str] = {}
        self._working = ("", 0.0, _SLOW_SECONDS)

    def __enter__(self) -> Self:
        """Start to draw."""
        self._view.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Clear the table, if there is one."""
        self._view.stop()

    def batch(self, progress: Progress) -> None:
        """Show a line of metrics, if one is due."""
        examples, now = progress.examples, self._clock()
        if examples < self._next_examples and now < self._next_time:
            return
        rate, lag = examples / max(progress.seconds, 1e-9), progress.lag()
        snapshot = progress.line() | ({"lag": sum(lag.values())} if lag else {})
        self._next_time = now + self._view.seconds
        power = examples >= self._next_examples
        if power:
            self._next_examples = 1 << examples.bit_length()
        self._cells_drawn = self._cells(snapshot, rate, now)
        self._view.draw(self._cells_drawn)
        if power:
            self._at_power = examples, snapshot.get("weights") or 0

    def working(self, example: str, seconds: float) -> None:
        """Show the example being solved: in a table every second, as lines at growing intervals."""
        last_example, before, due = self._working
        if example != last_example or seconds < before:
            due = _SLOW_SECONDS
        if seconds >= due:
            name = printable(example if len(example) <= 40 else example[:40] + "...")
            self._view.draw({**self._cells_drawn, f"example {name}:": f"{seconds:.0f} s"})
            due = self._view.later(seconds)
        self._working = (example, seconds, due)

    def stopping(self) -> None:
        """Replace the table by the message that a signal has asked to stop; for signal handlers."""
        self._view.stop()
        acknowledge(self._stream)

    def saved(self) -> None:
        """Note that a checkpoint has been written just now."""
        self._saved_at = self._clock()

    def _cells(self, snapshot: Snapshot, rate: float, now: float) -> dict[str, str]:
        """Return what is shown, by name, without unknown figures."""
        weights, (since, weights_then) = snapshot.get("weights"), self._at_power
        new = "" if weights is None else f" ({weights - weights_then:+,} since example {since:,})"
        cells = {
            "examples": f"{snapshot['examples']:,}",
            "rate": f"{rate:,.0f}/s",
            "F1": _show(snapshot.get("f1"), "{:.1%}"),
            "error": _show(snapshot.get("mae"), "{:.3f}"),
            "loss": _show(snapshot.get("loss"), "{:.3g}"),
            "regret bound": _show(_mean(snapshot), "{:.3g} per example"),
            "drift": _drift(snapshot.get("drift")),
            "weights": _show(weights, "{:,}") + new,
            "facts": _show(snapshot.get("facts"), "{:,}"),
            "answers changed": _show(snapshot.get("changed_atoms"), "{:,}"),
            "solver": ", ".join(f"{k} {v:,}" for k, v in (snapshot.get("routes") or {}).items()),
            "bad": f"{snapshot['bad']:,}" if snapshot.get("bad") else "",
            "lag": _show(snapshot.get("lag"), "{:,}"),
            "checkpoint": "" if self._saved_at is None else f"{now - self._saved_at:.0f} s ago",
        }
        return {name: cell for name, cell in cells.items() if cell}


class Status:
    """A status line: on a terminal it is overwritten, elsewhere lines follow each other.

    However often it is called, it writes at most 8 times per second, elsewhere every 10 seconds.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._next = 0.0
        self._width = 0

    def __call__(self, text: str) -> None:
        """Show what is being done now."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (_REDRAW_SECONDS if self._terminal else _STATUS_SECONDS)
        with contextlib.suppress(OSError):
            before, after = ("\r", "") if self._terminal else ("", "\n")
            print(f"{before}{text:<{self._width}}", end=after, file=self._stream, flush=True)
            self._width = len(text) if self._terminal else 0

    def tell(self, text: str) -> None:
        """Write a line that stays."""
        self.close()
        with contextlib.suppress(OSError):
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Clear the line of a terminal."""
        self._next = 0.0
        if self._terminal:
            self("")
            print("\r", end="", file=self._stream, flush=True)


class Search:
    """Shows what a search does, each time it is called, once the search has taken some seconds.

    After a minute it shows ``advice``, once.
    """

    def __init__(self, status: Status, advice: str | None) -> None:
        self._status, self._advice = status, advice
        self._begun = time.monotonic()

    def __call__(self) -> None:
        """Show what is being done now."""
        seconds = time.monotonic() - self._begun
        if seconds >= SEARCH_SHOWN:
            self._status(f"{search_status.description()}: {seconds:.0f} s")
        if seconds >= SEARCH_ADVISED and self._advice is not None:
            self._status.tell(self._advice)
            self._advice = None


class _Lines:
    """Cells as plain lines, every ``seconds`` at most; the run continues if nobody reads them."""

    seconds = _LINE_SECONDS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def start(self) -> None:
        """Do nothing: lines need no start."""

    def later(self, seconds: float) -> float:
        """Return when to report again that an example is still being solved."""
        return 2.0 * seconds

    def draw(self, cells: Mapping[str, str]) -> None:
        """Write the cells."""
        with contextlib.suppress(OSError):
            print(" | ".join(f"{name} {cell}" for name, cell in cells.items()), file=self._stream)
            self._stream.flush()

    def stop(self) -> None:
        """Do nothing: lines need no end."""


class _Table(_Lines):
    """A table that redraws itself in place; rich is imported only here."""

    seconds = _REDRAW_SECONDS
    _live: Live | None = None

    def start(self) -> None:
        """Take over the bottom of the terminal."""
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._stream)
        self._live = Live(
            console=console, auto_refresh=False, redirect_stdout=False, transient=True
        )
        self._live.start()

    def later(self, seconds: float) -> float:
        """Return when to report again that an example is still being solved."""
        return seconds + 1.0

    def draw(self, cells: Mapping[str, str]) -> None:
        """Draw the cells over the ones before."""
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for name, cell in cells.items():
            table.add_row(Text(name, style="dim"), Text(cell, style="bold"))
        if self._live is not None:
            self._live.update(table, refresh=True)

    def stop(self) -> None:
        """Give the terminal back."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()


def print_summary(summary: Snapshot, stream: TextIO) -> None:
    """Write the summary of a run, as in summary.json, in aligned lines of plain text."""
    get = summary.get
    lines = [
        (entry.title, _FORMATS[entry.format].format(get(key)))
        for key, entry in METRIC_TABLE.items()
        if get(key) is not None and (get(key) or entry.format != "count" or key == "examples")
    ]
    predicates = get("predicates") or {}
    for name, scores in predicates.items() if len(predicates) > 1 else ():
        lines.append((f"F1 of {name}", _show(scores["f1"], "{:.1%}")))
    limit = (
        "at the last iteration"
        if "mae" in summary
        else "at the limit (inference.max_work, max_nodes)"
    )
    solved = [f"{route} {n:,}" for route, n in (get("routes") or {}).items()]
    slowest = [
        f"example {entry['id']}: {entry['seconds']:,.1f} s ({entry['atoms']:,} atoms, {entry['route']})"
        for entry in get("slowest") or ()
        if entry["seconds"] >= _SLOW_SECONDS
    ]
    config = get("config") or {}
    lines += [
        *((name, _show(value, "{:.6g}")) for name, value in (get("own") or {}).items()),
        *_top(get("top") or {}, (config.get("metrics") or {}).get("top")),
        *_sets(get("sets") or {}),
        ("Regret bound per example", _show(_mean(summary), "{:.3g}")),
        ("Drift", _drift(get("drift")) or ("none" if config.get("drift") else "")),
        ("Seconds", _show(get("seconds"), "{:,.1f}")),
        ("Examples per second", _show(get("examples_per_second"), "{:,.0f}")),
        ("Seconds of import", _show(get("import_seconds"), "{:.1f}")),
        ("Seconds of compilation", _show(get("compile_seconds"), "{:.1f}")),
        ("Solver", ", ".join(solved)),
        ("Unproven", _show(get("unsolved") or None, f"{{:,}} ended {limit}")),
        ("Slowest", ", ".join(slowest)),
        (
            "Left out",
            _show(get("skipped"), "{:,} ground rules with an atom neither observed nor a target"),
        ),
        ("Results", str(config.get("output", ""))),
    ]
    known = [(name, text) for name, text in lines if text]
    width = max(len(name) for name, _ in known)
    for name, text in known:
        print(printable(f"{name:<{width}}  {text}"), file=stream)


def _top(top: Snapshot, budget: Any) -> Iterator[tuple[str, str]]:
    """Yield lines about the most probable atoms of each predicate by period."""
    for name, figures in top.items():
        cells = [_show(figures[key], f"{key} {{:.1%}}") for key in ("precision", "recall")]
        cells.append(f"over {figures['periods']:,} periods")
        yield f"Top {budget['k']} of {name} per {budget['per']}", ", ".join(filter(None, cells))


def _sets(sets: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield lines about the sets of labels of each predicate, or about those of answers."""
    for name, figures in sets.items():
        text = f"{_show(figures['coverage'], '{:.1%}')} have the truth, {figures['size']:.2f} members each"
        yield f"Sets of {name}", f"{text}, {figures['abstain']:,} empty or with all"


def _mean(figures: Snapshot) -> float | None:
    """Return the regret bound per example, where there is one."""
    bound, updates = figures.get("regret_bound"), figures.get("updates", 0)
    return bound / updates if bound is not None and updates else None


def _drift(drift: Snapshot | None) -> str:
    """Say how many signals of drift there were, and when the last came; empty where there was none."""
    if not drift:
        return ""
    signals, last = drift["signals"], drift["at"][-1]
    return f"{signals:,} signal{'s' * (signals > 1)}, the last at example {last:,}"


def _show(value: float | None, form: str) -> str:
    """Format a figure; empty if there is none."""
    return "" if value is None else form.format(value)
