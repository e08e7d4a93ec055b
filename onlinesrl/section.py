"""What the sections of a configuration have in common, and how one is chosen by its kind."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """A frozen section of the configuration; an empty one has its defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _empty(cls, values: object) -> object:
        return {} if values is None else values


def of_a_file(values: object) -> object:
    """Let a section that does not say its kind be of kind file."""
    values = {} if values is None else values
    return {"kind": "file", **values} if isinstance(values, dict) else values


def kind_of(section: type[BaseModel]) -> str:
    """Return the kind of a section that is one of several, else an empty text."""
    return str(section.model_fields["kind"].default) if "kind" in section.model_fields else ""


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that a key may be, one a kind; none where it is no section."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in get_args(annotation) for section in sections_of(part)]
