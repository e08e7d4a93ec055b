"""The rows of Parquet files and of Avro's object container files, each as a line of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from onlinesrl.core.errors import StorageError
from onlinesrl.core.io.config_section import require
from onlinesrl.logic.tables import PARQUET, connect, duckdb_errors
from onlinesrl.stream.avro_decoding import decoder_of

AVRO = ".avro"
SUFFIXES = (PARQUET, AVRO)
"""Of files of rows that are read whole, and cannot grow."""
CHUNK_ROWS = 1024

_encode = msgspec.json.Encoder().encode


def is_row_file(file: str) -> bool:
    """Tell whether a file has rows with a schema."""
    return file.endswith(SUFFIXES)


def check_packages(files: list[str]) -> None:
    """Raise UsageError if a package that reads one of the files is missing."""
    if any(file.endswith(AVRO) for file in files):
        require("fastavro", "Avro")


def rows_of(file: str, first: int) -> Iterator[bytes]:
    """Yield the rows of a file from the number ``first`` on, from 0. Raises StorageError."""
    rows = _parquet_rows(file, first) if file.endswith(PARQUET) else _avro_rows(file, first)
    return map(_encode, rows)


def _parquet_rows(file: str, first: int) -> Iterator[dict[str, Any]]:
    with duckdb_errors(Path(file)), connect(threads=1, memory_limit="512MiB") as connection:
        query = "SELECT * FROM read_parquet(?)"
        names = [
            column[0] for column in connection.execute(f"{query} LIMIT 0", [[file]]).description
        ]
        if "file_row_number" in map(str.lower, names):  # not the number that DuckDB has
            cursor = connection.execute(f"{query} OFFSET ?", [[file], first])
        else:  # passes over groups of rows without reading them
            cursor = connection.execute(f"{query} WHERE file_row_number >= ?", [[file], first])
        while chunk := cursor.fetchmany(CHUNK_ROWS):
            yield from (dict(zip(names, row, strict=True)) for row in chunk)


def _avro_rows(file: str, first: int) -> Iterator[Any]:
    import fastavro

    with Path(file).open("rb") as stream:
        try:
            named: dict[str, Any] = {}
            schema = fastavro.parse_schema(fastavro.reader(stream).writer_schema, named)
            decoder = decoder_of(schema, named)
            stream.seek(0)
            for block in decoder.block_reader(stream):
                yield from islice(block, first, None) if first < block.num_records else ()
                first = max(0, first - block.num_records)
        except Exception as error:  # fastavro has no type for errors of damaged data
            raise StorageError(f"{file}: cannot be read as Avro: {error}") from error
