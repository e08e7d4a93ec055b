"""Rows of CSV (RFC 4180) with a header, in UTF-8: where a row ends, and what its cells are."""

from __future__ import annotations

import csv
import re
from functools import lru_cache
from io import StringIO

from onlinesrl.core.errors import ExampleError

SUFFIXES = (".csv", ".tsv")
"""Of files of rows with a header."""
_DELIMITERS = (b",", b";", b"\t", b"|")
_CLOSING = re.compile(rb'(?:[^"]|"")*"(?!")')

csv.field_size_limit(2**31 - 1)  # the longest example is limited by source.max_bytes


def delimiter_of(header: bytes) -> bytes:
    """Return the delimiter that a header has most often: a comma, a semicolon, a tab or a bar."""
    return max(_DELIMITERS, key=header.count)


def is_open(line: bytes, inside: bool, delimiter: bytes) -> bool:
    """Tell whether a cell in quotes goes on after a line; ``inside``: it began within one."""
    at = 0
    if not inside and line.startswith(b'"'):
        inside, at = True, 1
    while True:
        if inside:
            match = _CLOSING.match(line, at)
            if match is None:
                return True
            at = match.end()
        at = line.find(delimiter + b'"', at) + 2
        if at < 2:
            return False
        inside = True


def row(header: bytes, line: bytes) -> dict[str, str | None]:
    """Return the cells of a row by column; an empty cell is None. Raises ExampleError."""
    names, cells = columns(header), _cells(line, delimiter_of(header).decode())
    if len(cells) != len(names):
        raise ExampleError(f"a row of {len(cells)} cells, where the header has {len(names)}")
    return {name: cell or None for name, cell in zip(names, cells, strict=True)}


@lru_cache
def columns(header: bytes) -> list[str]:
    """Return the names of the columns of a header. Raises ExampleError."""
    names = _cells(header, delimiter_of(header).decode())
    if twice := {name for name in names if names.count(name) > 1}:
        raise ExampleError(f"the header has the column {min(twice)!r} twice")
    return names


def _cells(line: bytes, delimiter: str) -> list[str]:
    try:
        [cells] = csv.reader(StringIO(line.decode(), newline=""), delimiter=delimiter, strict=True)
    except UnicodeDecodeError:
        raise ExampleError("a row that is not UTF-8") from None
    except (csv.Error, ValueError) as error:
        raise ExampleError(f"not a row of CSV: {error}") from None
    return cells
