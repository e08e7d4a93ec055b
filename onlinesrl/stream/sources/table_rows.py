"""The lines of examples whose rows are in tables, one per predicate.

DuckDB writes rows as JSON and hands them over in Arrow's buffers, where those of an example are next to
each other: a line is put together from a piece of each table, without an object for a row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from onlinesrl.core.errors import StorageError, TableError
from onlinesrl.core.example import Constant
from onlinesrl.logic.tables import (
    FLOATS,
    VALUE,
    column_types,
    is_large,
    kind_of,
    plain,
    quoted,
)
from onlinesrl.stream.kernels import sorted_rows as k
from onlinesrl.stream.sources.read_log import AGAIN

Rows: TypeAlias = Iterator[tuple[list[Any], list[bytes]]]
"""Names of some examples, in ascending order, and the atoms of each, as JSON between commas."""
_END: tuple[list[Any], list[bytes]] = ([], [])
_encode = msgspec.json.Encoder().encode


class Relation(NamedTuple):
    """A table in DuckDB: what SQL has after FROM, its parameters, and the columns that order its rows."""

    source: str
    given: list[Any]
    order: str


def types(cursor: Any, of: Relation, by: str, name: str, key: str = "") -> dict[str, str]:
    """Return the types of a table's columns; its ``name`` and the ``key`` that says ``by`` are for messages.

    Raises TableError where a column has not the right type, unless there is no row.
    """
    found = column_types(cursor, of.source, of.given, name)
    if by not in found:
        raise TableError(
            f"{name}: no column {by}, which says the example{key}; it has {', '.join(found)}"
        )
    return found


def lacking(kinds: Mapping[str, str]) -> Iterator[str]:
    """Yield the SQL that says where a column of such a type has a null, or no finite number."""
    for name, kind in kinds.items():
        yield f"{quoted(name)} IS NULL"
        if kind in FLOATS:
            yield f"NOT isfinite({quoted(name)})"


def rows(cursor: Any, of: Relation, kinds: Mapping[str, str], by: str, most: int) -> Rows:
    """Yield the rows of a table, whose columns have such types, by example; those of one keep their order.

    They are sorted unless they are in order already. Of an example with more than ``most`` bytes some may
    be left out. Raises TableError for a null in ``by``, StorageError where rows change while they are read.
    """
    example, source, kind = quoted(by), of.source, kind_of(kinds[by])
    ascends = f"{example} IS NOT NULL AND {example} >= coalesce(lag({example}) OVER (), {example})"
    cursor.execute(f"SELECT bool_and(a) FROM (SELECT {ascends} a FROM {source})", of.given)
    if cursor.fetchall() == [(False,)]:
        source += f" ORDER BY {example} NULLS FIRST, {of.order}"
    query = f"SELECT {example}::VARCHAR, {_atom(kinds, by)}::VARCHAR || ',' FROM {source}"
    held, text = None, b""
    for names, texts in _batches(cursor.sql(query, params=of.given)):
        found: list[Any] = [*map(int if kind is int else bytes.decode, names)]
        if found[0] == held:
            texts[0] = text + b"," + texts[0] if len(text) <= most else text
        elif held is not None:
            found.insert(0, held)
            texts.insert(0, text)
        if found != sorted(set(found)):
            raise StorageError(f"{of.given}: changed while it was read; {AGAIN}")
        held, text = found.pop(), texts.pop()
        if found:
            yield found, texts
    if held is not None:
        yield [held], [text]


def _atom(kinds: Mapping[str, str], by: str) -> str:
    """Return the SQL for the atom of a row, as JSON."""
    constants = (
        plain(name, sql) + ("::JSON" if is_large(sql) else "")
        for name, sql in kinds.items()
        if name not in {by, VALUE}
    )
    arguments = f"json_array({', '.join(constants)})"
    if VALUE not in kinds:
        return arguments
    value, sql = VALUE, kinds[VALUE]
    if sql == "BOOLEAN":
        value = f"{VALUE}::TINYINT"
    elif sql in FLOATS:
        value = f"CASE WHEN isfinite({VALUE}) THEN {VALUE} END"
    elif is_large(sql) or kind_of(sql) is float:
        value = f"{VALUE}::DOUBLE"
    return f"json_object('args', {arguments}, '{VALUE}', {value})"


def _batches(relation: Any) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yield the names of examples in two columns of text, sorted by the first, and the text of each."""
    import nanoarrow

    for batch in nanoarrow.c_array_stream(relation):
        names, texts = (batch.view().child(n) for n in (0, 1))
        if names.null_count:
            raise TableError("expected an example, found a null")
        start, row = np.array(names.buffer(1)), np.array(texts.buffer(1))
        name, text = bytes(names.buffer(2)), bytes(texts.buffer(2))
        first = np.zeros(batch.length, np.int64)
        first = first[: k.first_rows(np.frombuffer(bytearray(name), np.uint8), start, first)]
        stops = [*row[first].tolist(), int(row[-1])]
        yield (
            [
                name[a:b]
                for a, b in zip(start[first].tolist(), start[first + 1].tolist(), strict=True)
            ],
            [text[a : b - 1] for a, b in pairwise(stops)],
        )


def lines(
    tables: Mapping[tuple[str, str], Rows], parts: Sequence[str]
) -> Iterator[tuple[Constant, bytes]]:
    """Yield examples in ascending order of their names, as lines of JSON, from rows by part and predicate.

    Each has all these ``parts``, with or without atoms. Raises TableError where names are numbers in a
    table and text in another.
    """
    numbers = [[n for n, of in enumerate(tables) if of[0] == part] for part in parts]
    line = "".join(f',"{part}":{{%b}}' for part in parts).join(['{"id":%b', "}"]).encode()
    keys = [_encode(predicate) + b":[" for _, predicate in tables]
    blocks = [next(rows, _END) for rows in tables.values()]
    _check_kinds({of: names[0] for of, (names, _) in zip(tables, blocks, strict=True) if names})
    while ends := [names[-1] for names, _ in blocks if names]:
        end, found = min(ends), []
        for n, (rows, (names, texts)) in enumerate(zip(tables.values(), blocks, strict=True)):
            cut = bisect_right(names, end)
            atoms = [keys[n] + text + b"]" for text in texts[:cut]]
            found.append(dict(zip(names[:cut], atoms, strict=True)))
            blocks[n] = (names[cut:], texts[cut:]) if cut < len(names) else next(rows, _END)
        order = sorted(set().union(*found))
        inside = [_together([found[n] for n in of], order) for of in numbers]
        written = zip(map(_encode, order), *inside, strict=True)
        yield from zip(order, map(line.__mod__, written), strict=True)


def _together(tables: Sequence[Mapping[Constant, bytes]], order: Sequence[Constant]) -> list[bytes]:
    """Return what tables have for each example, one after the other."""
    columns = [[*map(of.get, order, repeat(b""))] for of in tables] or [[b""] * len(order)]
    if len(columns) == 1:
        return columns[0]
    return [b",".join(filter(None, each)) for each in zip(*columns, strict=True)]


def _check_kinds(names: Mapping[tuple[str, str], Constant]) -> None:
    kinds = {type(name): key for key, name in names.items()}
    if len(kinds) > 1:
        text, number = (" ".join(kinds[kind]) for kind in (str, int))
        raise TableError(f"examples have text as names in {text}, and numbers in {number}")
