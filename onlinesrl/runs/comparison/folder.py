"""The folder that a comparison writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from onlinesrl.core.errors import FolderError
from onlinesrl.core.io.atomic_write import storage_errors, write_atomic
from onlinesrl.runs.comparison.cross_validation import Compared
from onlinesrl.runs.comparison.fold_cache import JOURNAL, Journal
from onlinesrl.runs.comparison.page import comparison_page
from onlinesrl.runs.comparison.statistics import Line, csv

TABLE, PAGE = "comparison.csv", "comparison.html"


def opened(folder: Path, fresh: bool) -> Journal:
    """Return the journal of a comparison that has not ended, or a new one.

    Raises FolderError where one has ended there, unless it may be replaced; StorageError.
    """
    if not fresh and (folder / TABLE).exists():
        raise FolderError(f"{folder}: there is a comparison already; --fresh replaces it")
    return Journal(folder, [folder / name for name in (TABLE, PAGE, JOURNAL)] if fresh else ())


def write(
    folder: Path,
    compared: Sequence[Compared],
    lines: Sequence[Line],
    metric: str,
    settings: Mapping[str, Sequence[str]],
) -> None:
    """Write the table of all folds, and the report. Raises StorageError."""
    with storage_errors(folder, "make the folder"):
        folder.mkdir(parents=True, exist_ok=True)
    shown = [(name, "; ".join(of)) for name, of in settings.items() if of]
    write_atomic(folder / PAGE, comparison_page(lines, metric, shown).encode(errors="replace"))
    write_atomic(folder / TABLE, csv(compared, metric).encode())
