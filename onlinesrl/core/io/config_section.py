"""The base class of configuration sections, and the choice among sections by a tag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Any, ClassVar, Self, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from onlinesrl.core.errors import UsageError

EXTRAS = {
    "clarabel": "qp",
    "fastavro": "registry",
    "google.protobuf": "registry",
    "grpc_tools": "registry",
    "mlflow": "mlflow",
    "ray": "ray",
    "river": "drift",
    "sklearn": "bayesian",
}
"""The extra with which a module comes."""


def require(module: str, what: str) -> None:
    """Raise UsageError, with the extra, if a module that something needs is not installed."""
    if not installed(module):
        raise UsageError(
            f"{what} needs the extra {EXTRAS[module]}: pip install 'onlinesrl[{EXTRAS[module]}]'"
        )


def installed(module: str) -> bool:
    """Tell whether a module is installed, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


class Section(BaseModel):
    """A frozen section of the configuration; an empty one has its defaults."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, defer_build=True, use_attribute_docstrings=True
    )
    tag: ClassVar[str] = "kind"
    """The key whose value names the kind of section."""
    gone: ClassVar[Mapping[str, str]] = {}
    """Messages about keys of earlier versions."""

    @model_validator(mode="before")
    @classmethod
    def _empty(cls, values: object) -> object:
        return {} if values is None else values

    def needs(self) -> Mapping[str, str]:
        """Return the modules of extras that this section needs, each by the key whose value asks for it."""
        return {}

    @model_validator(mode="after")
    def _installed(self) -> Self:
        for key, module in self.needs().items():
            if not installed(module):
                value, extra = getattr(self, key), EXTRAS[module]
                raise ValueError(
                    f"{key}: {value} needs the extra {extra}: pip install 'onlinesrl[{extra}]'"
                )
        return self


def standard(tag: str, kind: str) -> Callable[[object], object]:
    """Return a validator that sets the default kind of a section."""

    def with_kind(values: object) -> object:
        values = {} if values is None else values
        return {tag: kind, **values} if isinstance(values, dict) else values

    return with_kind


def tag_of(section: type[BaseModel]) -> str:
    """Return the key whose value names the kind of a section."""
    return section.tag if issubclass(section, Section) else ""


def kind_of(section: type[BaseModel]) -> str:
    """Return the kind of a section; empty where there is only one."""
    field = section.model_fields.get(tag_of(section))
    return "" if field is None else str(field.default)


def not_for(name: str, section: type[BaseModel], kinds: Iterable[type[BaseModel]]) -> str:
    """Return the message that a key belongs to other kinds of a section; empty if it belongs to none."""
    tag, fitting = tag_of(section), [kind_of(kind) for kind in kinds if name in kind.model_fields]
    if not fitting:
        return ""
    return f"not for {tag} {kind_of(section)}, but for {tag} {' or '.join(fitting)}"


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """Return the section classes that a key allows, one per kind; none for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in get_args(annotation) for section in sections_of(part)]
