"""Tables that experiments print, and write for the page beside the papers."""

import csv
from collections.abc import Sequence
from pathlib import Path

Rows = Sequence[Sequence[str | float]]


def keep(folder: Path, name: str, head: Sequence[str], rows: Rows) -> None:
    """Write a table to ``folder/name.csv``, numbers with four digits."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows([_written(cell) for cell in row] for row in rows)


def _written(cell: str | float) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"


def show_and_keep(folder: Path, name: str, head: Sequence[str], rows: Rows) -> None:
    """Print a table, and write it."""
    keep(folder, name, head, rows)
    print((folder / f"{name}.csv").read_text(encoding="utf-8"))
