"""A stream of orders, its model and mapping, and its records in each form that a source reads."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import fastavro
import pyarrow
import pyarrow.parquet

MODEL = """
Customer(order, customer)
Item(order, sku)
Express(order)
Returned(order)

Customer(o, +c) => Returned(o)
Item(o, +s) => Returned(o)
Express(o) => Returned(o)
"""
MAPPING = {
    "id": "order",
    "evidence": {
        "Customer": {"arguments": ["order", "customer"]},
        "Item": {"arguments": ["order", "sku"]},
        "Express": {"arguments": ["order"], "value": "express"},
    },
    "truth": {"Returned": {"arguments": ["order"], "value": "returned", "optional": True}},
}
ORDERS: list[dict[str, Any]] = [
    {
        "order": n,
        "customer": f"c{n % 3}",
        "sku": ["shirt", "the, shoe", "two\nlines"][n % 7 % 3],
        "express": n % 2 == 0,
        "returned": None if n == 40 else n % 3 == 1 or n % 5 == 0,
    }
    for n in range(1, 61)
]
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "sku", "type": "string"},
        {"name": "express", "type": "boolean"},
        {"name": "returned", "type": ["null", "boolean"]},
    ],
}
PROTOBUF = """
syntax = "proto3";
package shop;
message Unused { string text = 1; }
message Orders {
  message Order {
    int64 order = 1;
    string customer = 2;
    string sku = 3;
    bool express = 4;
    optional bool returned = 5;
  }
}
"""
PATH = b"\x04\x02\x00"
"""The indexes of shop.Orders.Order in the framing: two of them, 1 and 0."""


def as_json(records: Iterable[Any]) -> list[bytes]:
    return [json.dumps(record).encode() + b"\n" for record in records]


def as_csv(records: Sequence[Mapping[str, Any]]) -> list[bytes]:
    def cell(value: Any) -> str:
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text

    rows = [[*records[0]], *(record.values() for record in records)]
    return [",".join(map(cell, row)).encode() + b"\n" for row in rows]


def as_file(records: Sequence[Mapping[str, Any]], file: str) -> bytes:
    """The bytes of a Parquet or Avro file, in small groups of rows."""
    stream = io.BytesIO()
    if file.endswith(".parquet"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), stream, row_group_size=7)
    else:
        fastavro.writer(stream, AVRO, records, sync_interval=100, sync_marker=bytes(16))
    return stream.getvalue()


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


def as_avro(record: Any, schema: Any = AVRO) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), record)
    return stream.getvalue()


def as_protobuf(record: Mapping[str, Any]) -> bytes:
    """An order as shop.Orders.Order, written by hand; defaults are left out, as proto3 does."""
    fields = {1: "order", 2: "customer", 3: "sku", 4: "express", 5: "returned"}
    message = b""
    for number, name in fields.items():
        value = record[name]
        if isinstance(value, str) and value:
            text = value.encode()
            message += bytes([number << 3 | 2]) + _varint(len(text)) + text
        elif value or (value is False and name == "returned"):
            message += bytes([number << 3]) + _varint(int(value))
    return message


def _varint(number: int) -> bytes:
    more = bytes([number & 127 | 128]) if number > 127 else b""
    return more + _varint(number >> 7) if more else bytes([number])
