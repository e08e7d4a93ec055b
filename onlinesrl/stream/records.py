"""A record of a source: the bytes of one example, and where they are from."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from onlinesrl.core.errors import ExampleError


class Record(msgspec.Struct, frozen=True, gc=False):
    """The bytes of one example, and their place.

    `value` is the line without its end (`kind` "json") or the whole file ("db"), without a UTF-8
    byte order mark at the start of the file. For Kafka it is the value of a message (`kind` "tombstone":
    it has none), `file` is its topic and partition, `line` its offset. Otherwise `line` counts from 1,
    blank lines too. If the example is longer than the source's limit, `too_long` is set and `value` is
    its first part. `index` is the file's number in the source, `offset` the bytes consumed so far
    (in shards of tables, the example's name). Only messages of Kafka have a `key`. `header` is the first
    line of the CSV file, of which the value is a row. `is_row`: the value has all columns of its file.
    `fault` is why the record is known to be bad. A "note" is no example: its `value` says, as JSON, what
    became of a record to who sent it.
    """

    value: bytes
    file: str
    line: int
    index: int
    offset: Any
    kind: Literal["json", "db", "tombstone", "note"] = "json"
    too_long: bool = False
    key: bytes | None = None
    header: bytes = b""
    is_row: bool = False
    fault: ExampleError | None = None
