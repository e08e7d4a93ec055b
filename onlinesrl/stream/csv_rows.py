"""Rows of CSV (RFC 4180) with a header: where a row ends, and what its cells are.

Blanks around a cell do not count, unless they are within its quotes.
"""

from __future__ import annotations

import re
from functools import lru_cache

from onlinesrl.core.errors import ExampleError

SUFFIXES = (".csv", ".tsv")
"""Of files of rows with a header."""
_DELIMITERS = (b",", b";", b"\t", b"|")
_CLOSING = re.compile(rb'(?:[^"]|"")*"(?!")')
_SPECIAL = re.compile(r'["\r\n]')
UTF_8 = "utf-8"


def delimiter_of(header: bytes) -> bytes:
    """Return the delimiter that a header has most often: a comma, a semicolon, a tab or a bar."""
    return max(_DELIMITERS, key=header.count)


def is_open(line: bytes, inside: bool, delimiter: bytes) -> bool:
    """Tell whether a cell in quotes goes on after a line; ``inside``: it began within one."""
    blanks = _blanks(delimiter.decode())
    at, opening = 0, re.compile(f'\\{delimiter.decode()}[{blanks}]*"'.encode())
    if not inside and line.lstrip(blanks.encode()).startswith(b'"'):
        inside, at = True, line.index(b'"') + 1
    while True:
        if inside:
            match = _CLOSING.match(line, at)
            if match is None:
                return True
            at = match.end()
        start = opening.search(line, at)
        if start is None:
            return False
        inside, at = True, start.end()


def _blanks(delimiter: str) -> str:
    return " " if delimiter == "\t" else " \t"


def row(header: bytes, line: bytes, encoding: str = UTF_8) -> dict[str, str | None]:
    """Return the cells of a row by column; an empty cell is None. Raises ExampleError."""
    names, cells = columns(header, encoding), _cells(line, delimiter_of(header).decode(), encoding)
    if len(cells) != len(names):
        raise ExampleError(f"a row of {len(cells)} cells, where the header has {len(names)}")
    return {name: cell or None for name, cell in zip(names, cells, strict=True)}


@lru_cache
def columns(header: bytes, encoding: str = UTF_8) -> list[str]:
    """Return the names of the columns of a header. Raises ExampleError."""
    names = _cells(header, delimiter_of(header).decode(), encoding)
    if twice := {name for name in names if names.count(name) > 1}:
        raise ExampleError(f"the header has the column {min(twice)!r} twice")
    return names


def _cells(line: bytes, delimiter: str, encoding: str) -> list[str]:
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        column, byte = error.start + 1, line[error.start]
        raise ExampleError(
            f"column {column}: the byte {byte:#04x} is not {encoding.upper()}; say the file's encoding in "
            "source.encoding, such as cp1252 or latin-1, or write the file in UTF-8"
        ) from None
    cells, at, blanks = list[str](), 0, _blanks(delimiter)
    if _SPECIAL.search(text) is None:
        return [cell.strip(blanks) for cell in text.split(delimiter)]
    closed = re.compile(f'[{blanks}]*"([^"]*(?:""[^"]*)*)"[{blanks}]*')
    while True:
        quoted = closed.match(text, at)
        if quoted is not None:
            cells.append(quoted[1].replace('""', '"'))
            at = quoted.end()
            if not text.startswith(delimiter, at) and at < len(text):
                raise ExampleError(f"not a row of CSV: {delimiter!r} expected after '\"'")
        else:
            end = text.find(delimiter, at)
            cell, at = text[at : None if end < 0 else end], len(text) if end < 0 else end
            if cell.lstrip(blanks).startswith('"'):
                raise ExampleError("not a row of CSV: a quote that is not closed")
            if "\r" in cell or "\n" in cell:
                raise ExampleError("not a row of CSV: a line end in a cell without quotes")
            cells.append(cell.strip(blanks))
        if at >= len(text):
            return cells
        at += len(delimiter)
