"""The keys of a configuration as a table for people, made from the schema: `onlinesrl guide config`.

What a key means is the docstring under it in `onlinesrl.schema`; the file is read when it is asked for.
"""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from onlinesrl import schema

_HEADINGS = ("key", "default", "[what it may be] what it means")
_NARROWEST = 30
"""Columns for the meanings, below which they are not wrapped."""


class Row(NamedTuple):
    """A key with its dots: its default, what it may be, and what it means."""

    key: str
    default: str
    kind: str
    meaning: str


class Section(NamedTuple):
    """The keys of a section, whose name is empty for a configuration's own."""

    name: str
    meaning: str
    rows: list[Row]


@cache
def meanings() -> Mapping[tuple[str, str], str]:
    """Return what every key means, by the name of its section's class and its own."""
    found = {}
    for section in ast.parse(Path(schema.__file__).read_text(encoding="utf-8")).body:
        if isinstance(section, ast.ClassDef):
            for key, text in zip(section.body, section.body[1:], strict=False):
                if isinstance(key, ast.AnnAssign) and isinstance(text, ast.Expr):
                    said = " ".join(ast.literal_eval(text.value).split()).removesuffix(".")
                    found[section.name, ast.unparse(key.target)] = said
    return found


def sections() -> Iterator[Section]:
    """Yield the sections of a configuration; one that was there before is a key of its section."""
    whole = schema.Config.model_json_schema()
    definitions = {"Config": whole, **whole["$defs"]}
    waiting: list[tuple[str, type[BaseModel]]] = [("", schema.Config)]
    seen = set()
    while waiting:
        name, section = waiting.pop(0)
        described, rows, inner = definitions[section.__name__], [], []
        for key, field in section.model_fields.items():
            kind, dotted = schema.section_of(field.annotation), f"{name}.{key}".removeprefix(".")
            if kind is None or kind in seen:
                allowed = _kind(described["properties"][key]) if kind is None else "section"
                rows.append(Row(dotted, _default(field), allowed, _meaning(section, dotted)))
            else:
                seen.add(kind)
                inner.append((dotted, kind))
        yield Section(name, described["description"].partition("\n")[0].replace("`", ""), rows)
        waiting = inner + waiting


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "-"
    value = field.get_default()
    return value if isinstance(value, str) else json.dumps(value)


def _meaning(section: type[BaseModel], dotted: str) -> str:
    *of, key = dotted.split(".")
    place, only = (*of, key), ""
    for language, keys in (("Markov logic", schema.MARKOV_LOGIC_ONLY), ("PSL", schema.PSL_ONLY)):
        only += f"; {language} only" if place in keys else ""
    return meanings().get((section.__name__, key), "") + only


def _kind(described: Mapping[str, Any]) -> str:
    """Say in a few words what a JSON schema allows."""
    if "anyOf" in described:
        return " | ".join(map(_kind, described["anyOf"]))
    if "enum" in described:
        return " | ".join(described["enum"])
    if described.get("maximum") == 1:
        return f"{described['minimum']} to 1"
    bounds = {"minimum": ">=", "exclusiveMinimum": ">"}
    bound = "".join(f" {sign} {described[n]:g}" for n, sign in bounds.items() if n in described)
    names = {"boolean": "true | false", "array": "list", "string": "text"}
    kind: str = described.get("format", described["type"])
    return names.get(kind, kind) + bound


def config_lines(width: int | None) -> Iterator[str]:
    """Yield the table; meanings are wrapped at ``width`` columns, None: a line a key."""
    table = list(sections())
    rows = [row for section in table for row in section.rows]
    key, default = (max(len(row[n]) for row in rows) for n in (0, 1))

    def line(name: str, value: str, text: str) -> Iterator[str]:
        start, margin = f"{name:<{key}}  {value:<{default}}  ", " " * (key + default + 4)
        room = 0 if width is None else width - len(margin)
        parts = textwrap.wrap(text, room, break_on_hyphens=False) if room >= _NARROWEST else [text]
        yield start + parts[0]
        yield from (margin + part for part in parts[1:])

    yield from line(*_HEADINGS)
    for section in table:
        yield from ("", f"{section.name or 'configuration'}: {section.meaning}")
        for row in section.rows:
            yield from line(row.key, row.default, f"[{row.kind}] {row.meaning}")
