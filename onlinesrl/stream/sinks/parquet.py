"""The sink that writes predictions to tables, one per predicate, in Parquet files.

DuckDB takes the answers as lines of JSON, in Arrow's buffers, and makes them columns, without an object
for an atom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from onlinesrl.core.errors import FolderError
from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.core.io.restoring import Natural
from onlinesrl.logic.tables import (
    PARQUET,
    VALUE,
    argument_names,
    connect,
    duckdb_errors,
    quoted,
    write_relation,
)
from onlinesrl.stream.predictions import Result
from onlinesrl.stream.run_folder import OutputFile, table_files
from onlinesrl.stream.sink import Sink, SinkSection
from onlinesrl.stream.source import Sections

EXAMPLES = "examples"
"""The table with a row per example."""
MOST_BYTES = 16 << 20
"""How many bytes of answers are held before they are written."""
_ABOUT = {
    "score": "DOUBLE",
    "certified": "BOOLEAN",
    "group": "VARCHAR",
    "hamming": "BIGINT",
    "margin": "DOUBLE",
    "l1": "DOUBLE",
    "probabilities": "VARCHAR",
}


class TablesState(TypedDict):
    """How many parts there are."""

    parts: Natural


class TableSink(Sink):
    """Predictions as tables in a folder: parts ``PREDICATE/part-N.parquet``, a row per atom.

    A row has the example's id, the arguments, and for PSL and for marginals the value. The table
    ``examples`` has a row per example, bad ones too. ``types`` are those of each predicate's arguments.
    Parts that were written after the checkpoint that a run resumes from are removed.
    """

    State = TablesState

    def __init__(
        self, types: Mapping[str, Sequence[str | None]], folder: Path | None = None
    ) -> None:
        self.folder = folder or Path()
        self.part = 0
        self._names = {
            name: argument_names(types_, ("id", VALUE)) for name, types_ in types.items()
        }
        self._clear()

    def _clear(self) -> None:
        self._answers: list[bytes] = []
        self._lines: list[int] = []
        self._bytes = 0

    def open(self, state: Mapping[str, Any] | None, predictions: OutputFile) -> None:
        """Continue the tables beside the file ``predictions``."""
        self.folder = predictions.path.with_suffix("")
        self.part = (state or {}).get("parts", 0)
        with storage_errors(self.folder, "clear"):
            for file in table_files(self.folder):
                if file.name.startswith(".") or int(file.stem.removeprefix("part-")) >= self.part:
                    file.unlink()

    @property
    def due(self) -> bool:
        """Whether many answers are held."""
        return self._bytes >= MOST_BYTES

    def write(self, result: Result) -> None:
        """Add the answer to an example."""
        self._answers.append(result.answer)
        self._lines.append(result.record.line)
        self._bytes += len(self._answers[-1])

    def flush(self) -> None:
        """Write what was added as the next part of each table. Raises StorageError."""
        if not self._answers:
            return
        with duckdb_errors(self.folder), connect(threads=1) as connection:
            connection.register("given", _Answers(self._answers, self._lines))
            connection.execute(
                "CREATE TABLE answers AS SELECT line, answer, answer->'id' AS id FROM given"
            )
            about = [f"(answer->>'{key}')::{kind} AS {quoted(key)}" for key, kind in _ABOUT.items()]
            columns = [*about, "line", "answer->>'error' AS error"]
            self._write(connection, EXAMPLES, "answers", ["id"], columns)
            for predicate, names in self._names.items():
                atoms = (
                    f"coalesce(answer->'marginals', answer->'predicted')->'$.{quoted(predicate)}'"
                )
                constants = [f"args->{n} AS {quoted(name)}" for n, name in enumerate(names)]
                connection.execute(
                    f"CREATE OR REPLACE TABLE atoms AS SELECT {', '.join(['id', *constants, 'value'])} "
                    "FROM (SELECT id, coalesce(atom->'args', atom) AS args, (atom->>'value')::DOUBLE AS "
                    f"value FROM (SELECT id, unnest(from_json({atoms}, '[\"JSON\"]')) AS atom FROM answers))"
                )
                counts = connection.execute("SELECT count(*), count(value) FROM atoms")
                [n_rows, n_values] = counts.fetchone()
                if n_rows:
                    values = [VALUE] * (n_values > 0)
                    self._write(connection, predicate, "atoms", ["id", *names], values)
        self._clear()
        self.part += 1

    def _write(
        self,
        connection: Any,
        name: str,
        table: str,
        constants: Sequence[str],
        expressions: Sequence[str],
    ) -> None:
        """Write columns of constants, as numbers where all are whole numbers, and others to a part."""
        columns = [quoted(column) for column in constants]
        whole = (
            "json_type({0}) IN ('BIGINT', 'UBIGINT') AND TRY_CAST({0}->>'$' AS BIGINT) IS NOT NULL"
        )
        tests = [
            f"bool_and({whole}) FILTER ({{0}}->>'$' IS NOT NULL)".format(column)
            for column in columns
        ]
        numbers = connection.execute(f"SELECT {', '.join(tests)} FROM {table}").fetchall()[0]
        kinds = ["BIGINT" if number else "VARCHAR" for number in numbers]
        chosen = [
            f"({column}->>'$')::{kind} AS {column}"
            for column, kind in zip(columns, kinds, strict=True)
        ]
        relation = connection.sql(f"SELECT {', '.join([*chosen, *expressions])} FROM {table}")
        write_relation(self.folder / name / f"part-{self.part:08d}{PARQUET}", relation)

    def state(self) -> dict[str, Any]:
        """Return the number of parts."""
        return {"parts": self.part}


def new_tables(folder: Path, types: Mapping[str, Sequence[str | None]]) -> TableSink:
    """Return tables in a folder that is empty or not there. Raises FolderError, StorageError."""
    with storage_errors(folder, "make the folder"):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FolderError(f"{folder}: is not empty; choose another folder for the tables")
    return TableSink(types, folder)


class _Answers:
    """Answers and their lines as an Arrow stream of two columns."""

    def __init__(self, answers: Sequence[bytes], lines: Sequence[int]) -> None:
        self.size = len(answers)
        self.stops = np.array([0, *accumulate(map(len, answers))], np.int32)
        self.byte, self.lines = b"".join(answers), np.array(lines, np.int64)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import nanoarrow as na
        from nanoarrow.c_array_stream import CArrayStream

        columns = [
            na.c_array_from_buffers(na.string(), self.size, [None, self.stops, self.byte]),
            na.c_array_from_buffers(na.int64(), self.size, [None, self.lines]),
        ]
        schema = na.struct({"answer": na.string(), "line": na.int64()})
        whole = na.c_array_from_buffers(schema, self.size, [None], children=columns)
        return CArrayStream.from_c_arrays([whole], whole.schema).__arrow_c_stream__()


class ParquetSinkSection(SinkSection):
    """Tables in Parquet files, in the folder ``predictions`` of the run folder."""

    name = "parquet"

    def make(
        self, config: Sections, stopping: Callable[[], bool], say: Callable[[str], None]
    ) -> Sink:
        """Return the sink."""
        return TableSink(config.argument_types())
