"""Examples from tables in CSV files, one per predicate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import ExampleError, TableError, UsageError
from onlinesrl.core.io.config_types import Name
from onlinesrl.logic.tables import PARQUET, VALUE, quoted
from onlinesrl.stream.csv_rows import columns, delimiter_of
from onlinesrl.stream.source import Source, SourceContext
from onlinesrl.stream.sources.line_reader import LineReader
from onlinesrl.stream.sources.parquet import ParquetSection, TableSource

ALONE = " example "
"""The column that says the example, where all rows are of one."""
_NUMBER = (
    f"CASE WHEN lower(trim({VALUE})) IN ('true', 'yes') THEN 1 WHEN lower(trim({VALUE})) IN ('false', 'no') "
    f"THEN 0 ELSE {VALUE}::DOUBLE END"
)


class CsvTableSource(TableSource):
    """The examples of a folder of CSV files, as those of one of Parquet files.

    All constants are text, and a column ``value`` numbers, true (or yes) or false (or no). The names of
    examples are whole numbers if all of them can be; without ``by`` all rows are of one example, named after
    the folder.
    """

    suffix = ".csv"

    def __init__(self, path: Path, by: str | None, max_bytes: int) -> None:
        super().__init__(path, by or ALONE, max_bytes)

    def _readable(self, connection: Any, spill: str) -> Mapping[tuple[str, str], Sequence[str]]:
        """Copy the tables to Parquet files, and return these."""
        copies: dict[tuple[str, str], list[str]] = {}
        for number, (key, files) in enumerate(self.tables.items()):
            for part, file in enumerate(files):
                copy = f"{spill}/{number}-{part}{PARQUET}"
                self._copy(connection, file, copy)
                copies.setdefault(key, []).append(copy)
        by, every = quoted(self.by), [copy for listed in copies.values() for copy in listed]
        whole = f"bool_and(coalesce(TRY_CAST({by} AS BIGINT)::VARCHAR = {by}, false))"
        wholes = (f"SELECT {whole} FROM '{copy}'" for copy in every)
        if all(connection.execute(query).fetchone()[0] is not False for query in wholes):
            for copy in every:
                typed = f"SELECT * REPLACE ({by}::BIGINT AS {by}) FROM '{copy}'"
                connection.execute(f"COPY ({typed}) TO '{copy}.typed' (FORMAT parquet)")
                Path(f"{copy}.typed").replace(copy)
        return copies

    def _copy(self, connection: Any, file: Path, copy: str) -> None:
        """Copy the rows of a file. Raises TableError."""
        import duckdb

        header = _header(file)
        try:
            names = columns(header)
            kinds = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
            cells = {quoted(name): _NUMBER if name == VALUE else _trimmed(name) for name in names}
            selected = ", ".join(f"{cell} AS {name}" for name, cell in cells.items())
            if self.by == ALONE:
                selected += f", {_text(self.path.name)} AS {quoted(ALONE)}"
            elif self.by not in names:
                raise TableError(
                    f"{file}: no column {self.by}, which says the example (source.by); it has "
                    f"{', '.join(names)}"
                )
            rows = (
                f"SELECT {selected} FROM read_csv(?, auto_detect=false, header=true, strict_mode=true, "
                f"delim=?, quote='\"', escape='\"', columns={{{kinds}}}, max_line_size={self.max_bytes})"
            )
            parameters = [str(file), delimiter_of(header).decode()]
            connection.execute(f"COPY ({rows}) TO '{copy}'", parameters)
        except (ExampleError, duckdb.DataError, duckdb.InvalidInputException) as error:
            reason = " ".join(str(error).partition("\n\n")[0].split("\n")[:3])
            raise TableError(f"{file}: {reason}") from error
        nulls = f"SELECT 1 FROM '{copy}' WHERE {quoted(self.by)} IS NULL LIMIT 1"
        if connection.execute(nulls).fetchall():
            raise TableError(f"{file}, column {self.by}: expected an example, found an empty cell")


def _trimmed(name: str) -> str:
    """Return the SQL for a cell without blanks around it; one of blanks alone keeps them."""
    return f"coalesce(nullif(trim({quoted(name)}, ' \t'), ''), {quoted(name)})"


def _text(text: str) -> str:
    """Return a text for SQL."""
    return "'" + text.replace("'", "''") + "'"


def _header(file: Path) -> bytes:
    """Return the first row of a file. Raises TableError if there is none."""
    with LineReader(str(file), rows=True) as opened:
        line = opened.next_line(1 << 20) or opened.last_line() or b""
    header = line.rstrip(b"\r\n").removeprefix(b"\xef\xbb\xbf")
    if not header:
        raise TableError(f"{file}: no header in the first line")
    return header


class CsvSection(ParquetSection):
    """Tables, one per predicate, in CSV files."""

    name = "csv"
    by: Name | None = "id"  # type: ignore[assignment]
    """the column that says which example a row belongs to; null: all rows are of one example."""

    @property
    def uncut(self) -> str | None:
        """See ``SourceSection.uncut``."""
        return "distribute: tables of CSV cannot be cut into shards; leave it out"

    def make(self, setting: SourceContext) -> Source:
        """Return the tables' examples. Raises UsageError for a run without an end."""
        if setting.until == "forever":
            raise UsageError(f"{self.path}: tables have an end; leave out --until forever")
        return CsvTableSource(self.path, self.by, self.max_bytes)
