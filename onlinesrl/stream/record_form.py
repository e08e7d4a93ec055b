"""What the records of a source are: from their bytes to the line of JSON of an example."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import msgspec

from onlinesrl.core.errors import ExampleError, shown
from onlinesrl.core.example import distinct, json_fault
from onlinesrl.stream.csv_rows import UTF_8, row
from onlinesrl.stream.mapping import Mapper
from onlinesrl.stream.optional_names import Columns, OptionalNames
from onlinesrl.stream.records import Record

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted").encode
REMEMBERED = 100_000
"""In so many rows an id that is there twice is looked for."""
_GONE = ("d", "t", "m")
"""Debezium's operations after which there is no row: a deletion, a truncation, a message."""


class Values(Protocol):
    """Decodes the bytes of records."""

    def value(self, data: bytes) -> Any:
        """Return the value, as JSON would have it. Raises ExampleError."""
        ...

    def origin(self, data: bytes) -> str:
        """Return what messages about a value begin with."""
        return ""

    def schema(self, data: bytes) -> int | None:
        """Return the number of a schema whose names a value has all; None where there is none."""
        return None


class JsonValues(Values):
    """Decodes JSON."""

    def value(self, data: bytes) -> Any:
        """Return the value. Raises ExampleError, also for an object that has a key twice."""
        try:
            value = _decode(data)
            if data.count(b":") != _n_keys(value):
                json.loads(data, object_pairs_hook=distinct)
            return value
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ExampleError(f"not JSON: {json_fault(error, data)}") from None


def _n_keys(value: Any) -> int:
    """Return how many keys all objects in a value have; each has a colon after it."""
    if isinstance(value, dict):
        return len(value) + sum(map(_n_keys, value.values()))
    return sum(map(_n_keys, value)) if isinstance(value, list) else 0


class RecordForm:
    """Decodes records, opens their envelope, and maps them to examples.

    Without a ``mapper`` a decoded record is an example as it is. ``say`` gets a message, once, for a name of
    an optional rule that is no column of a file, or no field of a schema, and for a row with the id of an
    earlier one. ``names`` looks at the names of all records instead.
    """

    def __init__(
        self,
        mapper: Mapper | None,
        values: Values | None = None,
        envelope: str | None = None,
        encoding: str = UTF_8,
        say: Callable[[str], object] | None = None,
        names: OptionalNames | None = None,
        columns: Columns = tuple,
    ) -> None:
        self.mapper = mapper
        self.values = values or JsonValues()
        self.envelope = envelope
        self.encoding = encoding
        self.say = say
        self.names, self.columns = names, columns
        self._schemas = set[object]()
        self._said = set[tuple[str, str, str]]()
        self._rows: dict[str, tuple[int, int]] | None = None if say is None else {}
        """The places of rows by id, while one that is there twice is looked for."""

    def value(self, record: Record) -> Any:
        """Return the value of a record; None if nothing is left of a row. Raises ExampleError."""
        data = record.value
        value: Any = (
            row(record.header, data, self.encoding) if record.header else self.values.value(data)
        )
        if self.envelope is None:
            return value
        change = _opened(value)
        if change["op"] in _GONE:
            return None
        value = change.get("after")
        if value is None:
            raise ExampleError(f"a change of Debezium with op {change['op']!r} and no row in after")
        return value

    def line(self, record: Record) -> bytes | None:
        """Return the line of a record's example; None if nothing is left of a row. Raises ExampleError."""
        data = record.value
        try:
            value = self.value(record)
            if value is None and self.envelope is not None:
                return None
            if self.mapper is None:
                return _encode(value)
            self._look(record, value)
            place = place_of(record)
            line = self.mapper.line(value, place)
            if record.is_row and self._rows is not None:
                self._compare(record, self.mapper.name(value, place), self._rows)
            return line
        except ExampleError as error:
            origin = self.values.origin(data)
            raise ExampleError(f"{origin}{error.reason}", error.kind, error.id) from None

    def _look(self, record: Record, value: Any) -> None:
        """Look at the names of a record, or of the first with a header or schema."""
        if self.names is not None:
            self.names.look(value)
            return
        schema: object = record.header or record.file
        origin = record.file
        if not record.is_row:
            schema = self.values.schema(record.value)
            origin = f"schema {schema}"
        if self.say is None or self.mapper is None or schema is None or schema in self._schemas:
            return
        self._schemas.add(schema)
        names = OptionalNames(self.mapper.section, deep=False, columns=self.columns)
        names.look(value)
        for name, message in names.messages(f"{origin} has no").items():
            if name not in self._said:
                self.say(message)
            self._said.add(name)

    def _compare(self, record: Record, name: str, rows: dict[str, tuple[int, int]]) -> None:
        """Say it, once, where a row has the id of an earlier one; a row may be decoded again."""
        at = record.index, record.line
        repeated = rows.setdefault(name, at) != at
        if repeated or len(rows) == REMEMBERED:
            self._rows = None
        if repeated and self.say is not None:
            self.say(
                f"{record.file}:{record.line} has the id {shown(name)} of an earlier row "
                "(source.mapping.id): its facts in a world, and its example if one waits, replace the others"
            )

    def change(self, record: Record) -> dict[str, Any]:
        """Return the change in an envelope, without its schema. Raises ExampleError."""
        return _opened(self.values.value(record.value))

    def row_before(self, change: Mapping[str, Any]) -> str:
        """Return the id of the row that a change without a key is of. Raises ExampleError."""
        row = change.get("before")
        name = self.mapper.name(row, "") if self.mapper and isinstance(row, dict) else ""
        if not name:
            raise ExampleError(
                f"a change of Debezium with op {change['op']!r} and without a key: expected one of the "
                "message, or source.mapping.id and the row in before"
            )
        return name

    def key(self, record: Record) -> str | None:
        """Return the id that the key of a record is; None where it has none. Raises ExampleError.

        What the fields of a key say is its id, however they are ordered, spaced or framed. Where the mapping
        makes an id of just these fields, it is that of the row.
        """
        data = record.key
        if not data:
            return None
        origin = self.values.origin(data)
        try:
            value = (self.values if origin else JsonValues()).value(data)
        except ExampleError as error:
            if origin:
                raise ExampleError(f"key: {origin}{error.reason}", error.kind) from None
            return data.decode(errors="backslashreplace")
        has_schema = isinstance(value, dict) and value.keys() == {"schema", "payload"}
        if has_schema and isinstance(value["schema"], dict | None):
            value = value["payload"]
        elif not origin and isinstance(value, int | float):  # 1e2 and 100.0 may be two names
            return data.decode()
        if value is None:
            return None
        name = self._row(value) or value
        return name if isinstance(name, str) else _sorted(name).decode()

    def _row(self, key: Any) -> str | None:
        """Return the id that the mapping makes of the fields of a key, if it needs all of them."""

        def name(fields: Mapping[str, Any]) -> str | None:
            with suppress(ExampleError):
                return None if self.mapper is None else self.mapper.name(fields, "")
            return None

        if not isinstance(key, dict) or any(isinstance(x, dict | list) for x in key.values()):
            return None
        fewer = ({field: key[field] for field in key if field != left_out} for left_out in key)
        return None if any(map(name, fewer)) else name(key)


def place_of(record: Record) -> str:
    """Return where a record is, as the id of an example that has no other."""
    return f"{_name(record.file)}:{record.line}"


@lru_cache
def _name(file: str) -> str:
    return os.fsencode(Path(file).name).decode(errors="backslashreplace")


def _opened(value: Any) -> dict[str, Any]:
    """Return a change of Debezium, which may have its schema beside it. Raises ExampleError."""
    if isinstance(value, dict) and "op" not in value:
        value = value.get("payload")
    if not isinstance(value, dict) or not isinstance(value.get("op"), str):
        raise ExampleError("not a change of Debezium: expected an object with the key op")
    return value
