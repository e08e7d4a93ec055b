"""What the sections of a configuration have in common, and how one is chosen by its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """A frozen section of the configuration; an empty one has its defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
    tag: ClassVar[str] = "kind"
    """The key that says which of several sections it is."""

    @model_validator(mode="before")
    @classmethod
    def _empty(cls, values: object) -> object:
        return {} if values is None else values


def standard(tag: str, kind: str) -> Callable[[object], object]:
    """Let a section that does not say which of several it is be this one."""

    def filled(values: object) -> object:
        values = {} if values is None else values
        return {tag: kind, **values} if isinstance(values, dict) else values

    return filled


def tag_of(section: type[BaseModel]) -> str:
    """Return the key that says which of several a section is."""
    return section.tag if issubclass(section, Section) else ""


def kind_of(section: type[BaseModel]) -> str:
    """Return which of several a section is, an empty text where it is the only one."""
    field = section.model_fields.get(tag_of(section))
    return "" if field is None else str(field.default)


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that a key may be, one a kind; none where it is no section."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in get_args(annotation) for section in sections_of(part)]
