"""What benchmarks share: their sizes, clocks, and tables.

``@sizes`` gives a benchmark a tiny size, at which it is an ordinary test, and those that the guide's results
quote. The speed of two ways is compared within one run, in turns.
"""

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

import pytest

from tests.support.paths import REPO

ONLINESRL = ("-c", "from onlinesrl.commands.cli import main; main()")
T = TypeVar("T")


class Used(NamedTuple):
    """CPU and wall seconds, the peak memory in MB, and what was written on standard output."""

    cpu: float
    wall: float
    megabytes: float
    output: str


def sizes(names: str, tiny: object, *full: object) -> pytest.MarkDecorator:
    """Run a test with the values of ``tiny``, and with those of ``full`` where benchmarks are asked for."""
    marks = pytest.mark.benchmark
    several = "," in names
    marked = (pytest.param(*(of if several else (of,)), marks=marks) for of in full)  # type: ignore[misc]
    return pytest.mark.parametrize(names, [tiny, *marked])


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the CPU seconds of a call, and what it returns."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def in_turns(rounds: int, *works: Callable[[], object]) -> list[list[float]]:
    """Return the CPU seconds of each work in each round; the first call of each does not count."""
    for work in works:
        work()
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, own in zip(works, seconds, strict=True):
            gc.collect()
            own.append(timed(work)[0])
    return seconds


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the median of ratios of what was measured in the same round."""
    return median(a / b for a, b in zip(one, other, strict=True))


def python(*arguments: str | Path, **environment: str) -> Used:
    """Run this Python with the project on its path; it must succeed."""
    command = [sys.executable, *map(str, arguments)]
    variables = {**os.environ, "PYTHONPATH": str(REPO), **environment}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        files = [(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_DUP2, err.fileno(), 2)]
        began = time.perf_counter()
        process = os.posix_spawn(sys.executable, command, variables, file_actions=files)
        _, status, usage = os.wait4(process, 0)
        wall = time.perf_counter() - began
        out.seek(0)
        err.seek(0)
        assert status == 0, err.read().decode()
        cpu = usage.ru_utime + usage.ru_stime
        return Used(cpu, wall, usage.ru_maxrss / 1024, out.read().decode())


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str | float]]) -> None:
    """Print a table; numbers with three significant digits, aligned."""
    cells = [head, *([x if isinstance(x, str) else f"{x:.3g}" for x in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n\n{title}")
    for row in cells:
        first, *others = (cell.rjust(w) for cell, w in zip(row, widths, strict=True))
        print("  ".join((row[0].ljust(len(first)), *others)))
