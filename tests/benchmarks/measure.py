"""What the benchmarks share: what a process uses, and tables."""

import csv
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).parents[2]
SHARED = REPO.parent / "shared"
ONLINESRL = ("-c", "from onlinesrl.commands.cli import main; main()")


class Used(NamedTuple):
    """What a process used, in seconds, and what it wrote on standard output."""

    cpu: float
    wall: float
    output: str


def python(*arguments: str | Path, **environment: str) -> Used:
    """Run this Python with the project on its path; it must succeed."""
    command = [sys.executable, *map(str, arguments)]
    variables = {**os.environ, "PYTHONPATH": str(REPO), **environment}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        files = [(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_DUP2, err.fileno(), 2)]
        started = time.perf_counter()
        process = os.posix_spawn(sys.executable, command, variables, file_actions=files)
        _, status, usage = os.wait4(process, 0)
        wall = time.perf_counter() - started
        out.seek(0)
        err.seek(0)
        assert status == 0, err.read().decode()
        return Used(usage.ru_utime + usage.ru_stime, wall, out.read().decode())


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str | float]]) -> None:
    """Print a table; numbers with three significant digits, aligned."""
    cells = [head, *([x if isinstance(x, str) else f"{x:.3g}" for x in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n\n{title}")
    for row in cells:
        first, *others = (cell.rjust(w) for cell, w in zip(row, widths, strict=True))
        print("  ".join((row[0].ljust(len(first)), *others)))


def keep(
    folder: Path, name: str, head: Sequence[str], rows: Sequence[Sequence[str | float]]
) -> None:
    """Write a table to ``folder/name.csv``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows([_written(cell) for cell in row] for row in rows)


def _written(cell: str | float) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"


def show_and_keep(
    folder: Path, name: str, head: Sequence[str], rows: Sequence[Sequence[str | float]]
) -> None:
    """Print a table, and write it."""
    show(name, head, rows)
    keep(folder, name, head, rows)
