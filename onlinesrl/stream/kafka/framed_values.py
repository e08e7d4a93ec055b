"""Values in the framing of a schema registry: a zero, the number of the schema in four bytes, the data.

The framing is Confluent's wire format; before data of Protobuf it has the indexes of the message's type.
"""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from onlinesrl.core.errors import ExampleError, OnlinesrlError
from onlinesrl.stream.avro_decoding import decoder_of
from onlinesrl.stream.kafka.registry import NoSchema, Schema, SchemaRegistry
from onlinesrl.stream.record_form import JsonValues, Values

_ADDRESS = re.compile(r" object at 0x[0-9a-f]+")
_COMPLAINT = re.compile(r"\S+\.proto:")
_BUILT_IN = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta {
          string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4;
        }
        message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
}
"""What a schema of Protobuf may import without a reference: what Kafka Connect writes imports it."""
PREFIX = 5
"""Bytes of the framing."""
COMPILE_SECONDS = 60
AGAIN_SECONDS = 10.0
"""After the registry had no such schema, until it is asked again."""
Read: TypeAlias = Callable[[bytes], Any]
"""Decodes the data behind the framing."""


class FramedValues(Values):
    """Decodes values by the schemas of a registry.

    A field is read under another name that its schema gives it, an alias of Avro or the json_name of
    Protobuf, if that is one of ``names``, and its own is not.
    """

    def __init__(self, registry: SchemaRegistry, names: Collection[str]) -> None:
        self.registry = registry
        self.names = frozenset(names)
        self._reads: dict[int, Read | str] = {}
        self._fixed = set[int]()
        """The schemas whose values have all their names."""
        self._again: dict[int, float] = {}
        """When the registry is asked again for what it did not have."""

    def origin(self, data: bytes) -> str:
        """Return the number of a value's schema, for messages."""
        return f"schema {int.from_bytes(data[1:PREFIX])}: " if _is_framed(data) else ""

    def schema(self, data: bytes) -> int | None:
        """Return the number of a value's schema; None where it may have other names."""
        number = int.from_bytes(data[1:PREFIX])
        return number if number in self._fixed else None

    def value(self, data: bytes) -> Any:
        """Return the value. Raises ExampleError."""
        if not _is_framed(data):
            raise ExampleError(
                "not in the framing of a schema registry: expected a zero and the number of a schema, "
                f"found {data[:PREFIX]!r}"
            )
        number = int.from_bytes(data[1:PREFIX])
        if number not in self._reads or self._again.get(number, math.inf) <= time.monotonic():
            self._reads[number] = self._read(number)
        read = self._reads[number]
        if isinstance(read, str):
            raise ExampleError(read)
        try:
            return read(data[PREFIX:])
        except (ExampleError, MemoryError):
            raise
        except Exception as error:  # of the packages that decode, which have no common type
            raise ExampleError(f"the data are not of this schema: {_said(error)}") from None

    def _read(self, number: int) -> Read | str:
        """Return what reads data of a schema, or why nothing does."""
        self._again.pop(number, None)
        try:
            schema = self.registry.schema(number)
            if schema.kind not in _KINDS:
                return f"a schema of type {schema.kind}; expected {', '.join(_KINDS)}"
            self._fixed |= {number} if schema.kind != "JSON" else set()
            return _KINDS[schema.kind](schema, self.names)
        except NoSchema as error:
            self._again[number] = time.monotonic() + AGAIN_SECONDS
            return error.reason
        except ExampleError as error:
            return error.reason
        except (OnlinesrlError, MemoryError):
            raise
        except Exception as error:  # of the packages that read schemas
            return f"the schema cannot be read: {_said(error)}"


def _said(error: Exception) -> str:
    """Return what an error says, without addresses of memory: dead letters must be the same in each run."""
    return _ADDRESS.sub("", repr(error))


def _is_framed(data: bytes) -> bool:
    return len(data) >= PREFIX and data[0] == 0


# JSON ----------------------------------------------------------------------------------------------


def _json(schema: Schema, names: Collection[str]) -> Read:
    return JsonValues().value


# Avro ----------------------------------------------------------------------------------------------


def _avro(schema: Schema, names: Collection[str]) -> Read:
    named: dict[str, Any] = {}
    parsed = _avro_schema(schema, names, named)
    decoder = decoder_of(parsed, named)

    def read(data: bytes) -> Any:
        stream = io.BytesIO(data)
        value = decoder.schemaless_reader(stream, parsed, None)
        if rest := len(data) - stream.tell():
            more = "1 byte follows" if rest == 1 else f"{rest} bytes follow"
            raise ExampleError(f"{more} the data of this schema")
        return msgspec.to_builtins(value)  # times and decimals to text

    return read


def _avro_schema(schema: Schema, names: Collection[str], named: dict[str, Any]) -> Any:
    import fastavro

    for reference in schema.references.values():
        _avro_schema(reference, names, named)
    return fastavro.parse_schema(_renamed(json.loads(schema.text), names), named)


def _renamed(schema: Any, names: Collection[str]) -> Any:
    """Return a schema of Avro with fields under an alias; the names are not in the data."""
    if isinstance(schema, list):
        return [_renamed(part, names) for part in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {
        key: _renamed(value, names) if key in ("type", "items", "values") else value
        for key, value in schema.items()
    }
    if "fields" in schema:
        own = {field["name"] for field in schema["fields"]}
        renamed["fields"] = [
            {
                **_renamed(field, names),
                "name": _name(field["name"], field.get("aliases", ()), names, own),
            }
            for field in schema["fields"]
        ]
    return renamed


def _name(name: str, others: Iterable[str], names: Collection[str], own: Collection[str]) -> str:
    """Return a field's name or, of its other names, the first that is asked for and no field's own."""
    wanted = (other for other in others if other in names and other not in own)
    return name if name in names else next(wanted, name)


# Protobuf --------------------------------------------------------------------------------------------


def _protobuf(schema: Schema, names: Collection[str]) -> Read:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message_factory import GetMessageClass

    files = FileDescriptorSet.FromString(_compiled(schema)).file
    pool = DescriptorPool()
    for file in files:
        for message in file.message_type:
            _rename(message, names)
        pool.Add(file)
    main = files[-1]  # behind those that it imports
    classes: dict[tuple[int, ...], Any] = {}

    def read(data: bytes) -> Any:
        path, start = _indexes(data)
        if path not in classes:
            classes[path] = GetMessageClass(pool.FindMessageTypeByName(_full_name(main, path)))
        message = classes[path].FromString(data[start:])
        value = MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=pool,
        )
        return (
            dict.fromkeys(field.name for field in message.DESCRIPTOR.fields) | value
            if names
            else value
        )

    return read


def _rename(message: Any, names: Collection[str]) -> None:
    """Give the fields of a message of Protobuf, and of those in it, the names in JSON that are asked for."""
    own = {field.name for field in message.field}
    for field in message.field:
        field.name = _name(field.name, [field.json_name], names, own)
    for nested in message.nested_type:
        _rename(nested, names)


def _compiled(schema: Schema) -> bytes:
    """Return the descriptors of a .proto file and of those that it imports, itself last."""
    import grpc_tools

    with tempfile.TemporaryDirectory(prefix="onlinesrl-") as folder:
        main = "onlinesrl_schema.proto"
        for name, text in _BUILT_IN.items():
            _write(Path(folder), name, Schema("PROTOBUF", text, {}))
        _write(Path(folder), main, schema)
        well_known = Path(grpc_tools.__file__).with_name("_proto")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{well_known}"]
        command += ["--include_imports", f"--descriptor_set_out={folder}/descriptors", main]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False
        )
        if done.returncode:
            said = done.stderr.replace(f"{folder}/", "").splitlines()
            complaints = "; ".join(line for line in said if _COMPLAINT.match(line))
            raise ExampleError(f"the schema cannot be compiled: {complaints}")
        return Path(folder, "descriptors").read_bytes()


def _write(folder: Path, name: str, schema: Schema) -> None:
    """Write a .proto file and its imports. Raises ExampleError for a name that leads out of the folder."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ExampleError(f"the schema imports {name}, which is no name of a file in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(schema.text)
    for imported, reference in schema.references.items():
        _write(folder, imported, reference)


def _indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes of a message's type, and where the message begins."""
    count, at = _zigzag(data, 0)
    if not 0 <= count <= 100:
        raise ExampleError(f"expected the indexes of a message's type, found {count} of them")
    path: list[int] = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        path.append(index)
    return tuple(path) or (0,), at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it."""
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ExampleError("the data end within the indexes of a message's type")
        number |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return (number >> 1) ^ -(number & 1), at


def _full_name(file: Any, path: tuple[int, ...]) -> str:
    """Return the full name of the message at a path of indexes."""
    names, inside = ([file.package] if file.package else []), file.message_type
    for index in path:
        if not 0 <= index < len(inside):
            raise ExampleError(f"the schema has no message at {list(path)}")
        names.append(inside[index].name)
        inside = inside[index].nested_type
    return ".".join(names)


_KINDS = {"AVRO": _avro, "JSON": _json, "PROTOBUF": _protobuf}
