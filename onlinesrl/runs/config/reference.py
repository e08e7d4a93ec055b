"""The keys of a configuration as a table for people, made from the schema: `onlinesrl guide config`.

The meaning of a key is the docstring under it.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from pydantic import BaseModel

from onlinesrl.core.io.config_section import Section, kind_of, sections_of
from onlinesrl.core.language import languages
from onlinesrl.runs.config import schema
from onlinesrl.runs.config.mln_batch import MlnBatch
from onlinesrl.runs.config.psl_batch import PslBatch

_HEADINGS = ("key", "default", "[what it may be] what it means")
Kinds: TypeAlias = Sequence[type[BaseModel]]
_NARROWEST = 30
"""Columns for the meanings, below which they are not wrapped."""


class KeyRow(NamedTuple):
    """A dotted key: its default, its possible values, and its meaning."""

    key: str
    default: str
    kind: str
    meaning: str


class Part(NamedTuple):
    """The keys of a section; the name of the top level is empty."""

    name: str
    meaning: str
    rows: list[KeyRow]


def meaning(section: type[BaseModel], key: str) -> str:
    """Return the meaning of a key of a section, or of the base class that describes it."""
    places = (place for place in section.__mro__ if issubclass(place, Section))
    fields = (place.model_fields.get(key) for place in places)
    description = next((field.description for field in fields if field and field.description), "")
    return " ".join(description.split()).removesuffix(".")


def sections(*roots: type[schema.Root]) -> Iterator[Part]:
    """Yield the sections of a configuration; a section that occurs again is shown as a key.

    ``roots`` are the outermost sections by language, by default those of a run.
    """
    roots = roots or (schema.MlnConfig, schema.PslConfig)
    waiting: list[tuple[str, list[Kinds]]] = [("", [[root] for root in roots])]
    seen = set[type[BaseModel]]()
    while waiting:
        name, languages = waiting.pop(0)
        kinds = [*dict.fromkeys(chain(*languages))]
        rows, inner = [], []
        for key in dict.fromkeys(key for kind in kinds for key in kind.model_fields):
            dotted = f"{name}.{key}".removeprefix(".")
            having = [[kind for kind in part if key in kind.model_fields] for part in languages]
            inside: list[Kinds] = [
                sections_of(part[0].model_fields[key]) if part else [] for part in having
            ]
            if any(inside) and not seen.issuperset(chain(*inside)):
                seen.update(chain(*inside))
                inner.append((dotted, inside))
                continue
            for alike in _alike([*dict.fromkeys(chain(*having))], key):
                by_language = [[kind for kind in part if kind in alike] for part in having]
                rows.append(_row(dotted, kinds, by_language))
        yield Part(name, _described(kinds), rows)
        waiting = inner + waiting


def _alike(kinds: Kinds, key: str) -> list[Kinds]:
    """Group the kinds of a section for which a key has the same meaning and default; it may name the kind."""
    if _names_kind(kinds, key):
        return [kinds]
    groups: dict[tuple[str, str], list[type[BaseModel]]] = {}
    for kind in kinds:
        alike = meaning(kind, key), _default(kind, key)
        groups.setdefault(alike, []).append(kind)
    return [*groups.values()]


def _described(kinds: Kinds) -> str:
    """Return the description of a section: that of the common base of its kinds."""
    common = next(place for place in kinds[0].__mro__ if all(issubclass(k, place) for k in kinds))
    return str(common.__doc__).partition("\n")[0].replace("`", "")


def _row(dotted: str, kinds: Kinds, by_language: Sequence[Kinds]) -> KeyRow:
    """Return the row of a key of a section of these kinds, and by language those of them that have it."""
    *section, key = dotted.split(".")
    having = [*dict.fromkeys(chain(*by_language))]
    allowed = ["section"]
    if not sections_of(having[0].model_fields[key]):
        naming = _names_kind(kinds, key)
        allowed = [kind_of(kind) if naming else _kind(_properties(kind)[key]) for kind in having]
    every = all(kind in having for kind in kinds)
    text = "" if every else f"{', '.join(map(kind_of, having))}: "
    text += meaning(having[0], key)
    if _names_kind(kinds, key):
        text += ". " + "; ".join(f"{kind_of(kind)}: {_described([kind])}" for kind in kinds)
        text = text.replace(".;", ";").removesuffix(".")
    fitting = [
        language.name
        for language, knowing in zip(languages(), by_language, strict=False)
        if knowing and (*section, key) not in language.foreign
    ]
    if len(fitting) < len(by_language):
        text += f"; {' and '.join(fitting)} only"
    default = " or ".join(dict.fromkeys(_default(kinds[0], key) for kinds in by_language if kinds))
    return KeyRow(
        dotted, default, " | ".join(dict.fromkeys(" | ".join(allowed).split(" | "))), text
    )


@cache
def _properties(kind: type[BaseModel]) -> Mapping[str, Any]:
    """Return the JSON schema of a section's keys."""
    properties: Mapping[str, Any] = kind.model_json_schema()["properties"]
    return properties


def _names_kind(kinds: Kinds, key: str) -> bool:
    """Tell whether a key names the kind of its section."""
    return len(kinds) > 1 and issubclass(kinds[0], Section) and key == kinds[0].tag


def _default(section: type[BaseModel], key: str) -> str:
    field = section.model_fields[key]
    if issubclass(section, Section) and key == section.tag:
        return kind_of(section)
    if field.is_required():
        return "-"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Section):
        return kind_of(type(value))
    return value if isinstance(value, str) else json.dumps(value)


def _kind(described: Mapping[str, Any]) -> str:
    """Describe briefly what a JSON schema allows."""
    if "anyOf" in described:
        return " | ".join(map(_kind, described["anyOf"]))
    if "const" in described:
        return str(described["const"])
    if "enum" in described:
        return " | ".join(described["enum"])
    if described.get("maximum") == 1:
        return f"{described['minimum']} to 1"
    bounds = {"minimum": ">=", "exclusiveMinimum": ">"}
    bound = "".join(f" {sign} {described[n]:g}" for n, sign in bounds.items() if n in described)
    names = {"boolean": "true | false", "array": "list", "string": "text"}
    kind: str = described.get("format", described["type"])
    return names.get(kind, kind) + bound


def config_lines(width: int | None, learning: bool = False) -> Iterator[str]:
    """Yield the table of a run, or of ``learning`` from a batch, for PSL and for Markov logic.

    Meanings are wrapped at ``width`` columns; None: one line per key.
    """
    roots: list[tuple[type[schema.Root], ...]] = [(PslBatch,), (MlnBatch,)] if learning else [()]
    table = [section for languages_ in roots for section in sections(*languages_)]
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
