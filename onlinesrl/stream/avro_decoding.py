"""Which decoder reads data of a schema of Avro, whatever their writer intends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onlinesrl.core.errors import ExampleError


def decoder_of(schema: Any, named: Mapping[str, Any]) -> Any:
    """Return the module of fastavro that decodes data of a parsed schema; ``named`` has its named types.

    It is the one in Python where a type contains itself: the one in C ends the process where data are
    nested too deeply. Raises ExampleError for a schema by which few bytes may be any number of items.
    """
    import fastavro
    from fastavro import _read_py

    types = _Types(named)
    types.take_bytes(schema)
    return _read_py if types.recursive else fastavro


class _Types:
    """The types of a schema; ``recursive``: one contains itself."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self.recursive = False
        self._named = named
        self._inside = set[str]()
        self._known: dict[str, bool] = {}

    def take_bytes(self, schema: Any) -> bool:
        """Tell whether all data of a type take bytes, and look at those within. Raises ExampleError."""
        if isinstance(schema, list):
            return bool([self.take_bytes(part) for part in schema])
        name = schema if isinstance(schema, str) else schema.get("name")
        if name in self._named:
            return self._named_takes(name)
        if isinstance(schema, str):
            return schema != "null"
        if schema["type"] == "array" and not self.take_bytes(schema["items"]):
            raise ExampleError(
                "the schema has an array whose items take no bytes: there may be any number"
            )
        if schema["type"] == "map":
            self.take_bytes(schema["values"])
        return schema["type"] in {"array", "map"} or self.take_bytes(schema["type"])

    def _named_takes(self, name: str) -> bool:
        if name in self._inside:
            self.recursive = True
            return True
        if name not in self._known:
            self._inside.add(name)
            definition = self._named[name]
            fields = [self.take_bytes(field["type"]) for field in definition.get("fields", ())]
            self._known[name] = (
                any(fields) or definition["type"] == "enum" or bool(definition.get("size"))
            )
            self._inside.remove(name)
        return self._known[name]
