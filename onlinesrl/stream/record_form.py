"""What the records of a source are: from their bytes to the line of JSON of an example."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol

import msgspec

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import distinct
from onlinesrl.stream.csv_rows import row
from onlinesrl.stream.mapping import Mapper
from onlinesrl.stream.records import Record

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
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
            raise ExampleError(f"not JSON: {error}") from None


def _n_keys(value: Any) -> int:
    """Return how many keys all objects in a value have; each has a colon after it."""
    if isinstance(value, dict):
        return len(value) + sum(map(_n_keys, value.values()))
    return sum(map(_n_keys, value)) if isinstance(value, list) else 0


class RecordForm:
    """Decodes records, opens their envelope, and maps them to examples.

    Without a ``mapper`` a decoded record is an example as it is.
    """

    def __init__(
        self, mapper: Mapper | None, values: Values | None = None, envelope: str | None = None
    ) -> None:
        self.mapper = mapper
        self.values = values or JsonValues()
        self.envelope = envelope

    def line(self, record: Record) -> bytes | None:
        """Return the line of a record's example; None if nothing is left of a row. Raises ExampleError."""
        data = record.value
        try:
            value: Any = row(record.header, data) if record.header else self.values.value(data)
            if self.envelope is not None:
                value = after_image(value)
                if value is None:
                    return None
            if self.mapper is None:
                return _encode(value)
            return self.mapper.line(value, _place(record))
        except ExampleError as error:
            origin = self.values.origin(data)
            raise ExampleError(f"{origin}{error.reason}", error.kind, error.id) from None

    def deleted(self, record: Record) -> str:
        """Return the id of the row that a change deleted. Raises ExampleError."""
        change = self.values.value(record.value)
        row = change.get("payload", change).get("before")
        if self.mapper is None or not isinstance(row, dict):
            raise ExampleError(
                "a deletion without a key: expected one of the message, or a row in before and source.mapping"
            )
        return self.mapper.name(row, _place(record))


def _place(record: Record) -> str:
    name = os.fsencode(Path(record.file).name).decode(errors="backslashreplace")
    return f"{name}:{record.line}"


def after_image(change: Any) -> Any:
    """Return the row after a change, as Debezium has it, with or without its schema; None: it is gone.

    Raises ExampleError.
    """
    if isinstance(change, dict) and "op" not in change:
        change = change.get("payload")
    if not isinstance(change, dict) or not isinstance(operation := change.get("op"), str):
        raise ExampleError("not a change of Debezium: expected an object with the key op")
    if operation in _GONE:
        return None
    if change.get("after") is None:
        raise ExampleError(f"a change of Debezium with op {operation!r} and no row in after")
    return change["after"]
