"""The sink that writes predictions to tables, one per predicate, in Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import FolderError
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.core.learner import Outcome
from onlinesrl.core.storage import storage_errors
from onlinesrl.logic.tables import PARQUET, VALUE, argument_names, write_parquet
from onlinesrl.stream.files import Record
from onlinesrl.stream.folder import OutputFile
from onlinesrl.stream.protocols import Sink

EXAMPLES = "examples"
"""The table with a row per example."""
MOST_ROWS = 100_000
"""How many rows are held before they are written."""


class Tables:
    """Predictions as tables in a folder: parts ``PREDICATE/part-N.parquet``, a row per atom.

    A row has the example's id, the arguments, and for PSL and for marginals the value. The table
    ``examples`` has a row per example, bad ones too. ``types`` are those of each predicate's arguments.
    """

    def __init__(self, folder: Path, types: Mapping[str, Sequence[str | None]], part: int = 0):
        self.folder = folder
        self.part = part
        self.rows = 0
        self._names = {name: argument_names(of) for name, of in types.items()}
        self._columns: dict[str, dict[str, list[Any]]] = {}

    def add(self, record: Record, item: Any, outcome: Outcome) -> None:
        """Add the answer to an example."""
        found = outcome.prediction
        name = item.id if isinstance(item, Example) else None
        row = {"line": record.line, "error": outcome.error}
        about = ("score", "certified", "group", "hamming", "margin", "l1")
        of = {key: None if found is None else getattr(found, key) for key in about}
        self._add(EXAMPLES, {"id": name, **of, **row})
        if found is not None:
            for predicate, atoms in (found.marginals or found.predicted).items():
                for atom in atoms:
                    self._add(predicate, {"id": name, **self._row(predicate, atom)})

    def _row(self, predicate: str, atom: Any) -> dict[str, Any]:
        names = self._names[predicate]
        if isinstance(atom, ValuedAtom):
            return {**dict(zip(names, atom.args, strict=True)), VALUE: atom.value}
        return dict(zip(names, atom, strict=True))

    def _add(self, table: str, row: Mapping[str, Any]) -> None:
        columns = self._columns.setdefault(table, {name: [] for name in row})
        for name, value in row.items():
            columns[name].append(value)
        self.rows += 1

    def write(self) -> None:
        """Write what was added as the next part of each table. Raises StorageError."""
        for table, columns in self._columns.items():
            write_parquet(self.folder / table / f"part-{self.part:08d}{PARQUET}", columns)
        if self._columns:
            self._columns, self.rows = {}, 0
            self.part += 1


class TableSink(Sink):
    """Writes parts of tables; those written after the checkpoint that a run resumes from are removed."""

    def __init__(self, types: Mapping[str, Sequence[str | None]]) -> None:
        self.types = types

    @property
    def due(self) -> bool:
        """Whether many rows are held."""
        return self.tables.rows >= MOST_ROWS

    def open(self, state: Mapping[str, Any] | None, predictions: OutputFile) -> None:
        """Continue the tables beside the file ``predictions``."""
        folder, parts = predictions.path.with_suffix(""), (state or {}).get("parts", 0)
        with storage_errors(folder, "clear"):
            for file in sorted(folder.glob(f"*/*part-*{PARQUET}*")):
                if file.name.startswith(".") or int(file.stem.removeprefix("part-")) >= parts:
                    file.unlink()
        self.tables = Tables(folder, self.types, parts)

    def write(self, record: Record, item: Any, outcome: Outcome) -> None:
        """Add the answer to an example."""
        self.tables.add(record, item, outcome)

    def flush(self) -> None:
        """Write the rows that are held."""
        self.tables.write()

    def state(self) -> dict[str, Any]:
        """Return the number of parts."""
        return {"parts": self.tables.part}


def new_tables(folder: Path, types: Mapping[str, Sequence[str | None]]) -> Tables:
    """Return tables in a folder that is empty or not there. Raises FolderError, StorageError."""
    with storage_errors(folder, "make the folder"):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FolderError(f"{folder}: is not empty; choose another folder for the tables")
    return Tables(folder, types)
