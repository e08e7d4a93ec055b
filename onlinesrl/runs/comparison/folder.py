"""The folder that a comparison writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onlinesrl.core.errors import FolderError
from onlinesrl.core.storage import storage_errors, write_atomic
from onlinesrl.runs.comparison.figures import Line, csv
from onlinesrl.runs.comparison.page import comparison_page
from onlinesrl.runs.comparison.validation import Compared

TABLE, PAGE = "comparison.csv", "comparison.html"


def check_free(folder: Path, fresh: bool) -> None:
    """Raise FolderError where a comparison is there already, unless it may be replaced."""
    if not fresh and (folder / TABLE).exists():
        raise FolderError(f"{folder}: there is a comparison already; --fresh replaces it")


def write(
    folder: Path,
    compared: Sequence[Compared],
    lines: Sequence[Line],
    metric: str,
    settings: Sequence[tuple[str, str]],
) -> None:
    """Write the table of all folds, and the report. Raises StorageError."""
    with storage_errors(folder, "make the folder"):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / PAGE, comparison_page(lines, metric, settings).encode(errors="replace"))
    write_atomic(folder / TABLE, csv(compared, metric).encode())
