"""The base class of configuration sections, and the choice among sections by a tag.

Of a section with a tag there are several classes, the package's own and those of other people's modules.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from traceback import extract_tb
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, PydanticKnownError, core_schema

from onlinesrl.core.errors import UsageError

EXTRAS = {
    "clarabel": "qp",
    "fastavro": "registry",
    "google.protobuf": "registry",
    "grpc_tools": "registry",
    "mlflow": "mlflow",
    "rapidfuzz": "entities",
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


S = TypeVar("S", bound="Section")


class Section(BaseModel):
    """A frozen section of the configuration; an empty one has its defaults."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, defer_build=True, use_attribute_docstrings=True
    )
    tag: ClassVar[str] = "kind"
    """The key whose value names the kind of section."""
    name: ClassVar[str]
    """The name of a kind of section of this package."""
    gone: ClassVar[Mapping[str, str]] = {}
    """Messages about keys of earlier versions."""

    @model_validator(mode="before")
    @classmethod
    def _of_kind(cls, values: object) -> object:
        values = {} if values is None else values
        if cls.tag in cls.model_fields and isinstance(values, dict):
            return {cls.tag: kind_of(cls), **values}
        return values

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


def own(section: type[object]) -> bool:
    """Tell whether a class is one of this package, and not of somebody's module."""
    return section.__module__.partition(".")[0] == __name__.partition(".")[0]


def kind_of(section: type[BaseModel]) -> str:
    """Return the name of a section's kind: its own, or ``module:Class``; empty where there is only one."""
    if not issubclass(section, Section) or section.tag not in section.model_fields:
        return ""
    name = vars(section).get("name") if own(section) else None
    return name or f"{section.__module__}:{section.__qualname__}"


def named(*sections: type[S]) -> dict[str, type[S]]:
    """Return sections by the names of their kinds."""
    return {kind_of(section): section for section in sections}


def not_for(name: str, section: type[BaseModel], kinds: Iterable[type[BaseModel]]) -> str:
    """Return the message that a key belongs to other kinds of a section; empty if it belongs to none."""
    fitting = [kind_of(kind) for kind in kinds if name in kind.model_fields]
    if not fitting or not issubclass(section, Section):
        return ""
    tag = section.tag
    return f"not for {tag} {kind_of(section)}, but for {tag} {' or '.join(fitting)}"


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """Return the section classes that a key allows, one per kind of the package; none for a plain value."""
    if isinstance(annotation, FieldInfo):
        annotation = annotation.rebuild_annotation()
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    kinds = kinds_of(annotation)
    parts = get_args(annotation)
    return [*kinds.own.values()] if kinds else [s for part in parts for s in sections_of(part)]


def kinds_of(annotation: Any) -> Kinds | None:
    """Return the kinds of section that a key allows; None where there is one at most."""
    if isinstance(annotation, FieldInfo):
        annotation = annotation.rebuild_annotation()
    if isinstance(annotation, Kinds):
        return annotation
    return next(filter(None, map(kinds_of, get_args(annotation))), None)


# the choice --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Kinds:
    """The classes that a section may be of, as the metadata of its annotation.

    Those of the package are its ``own`` by name, the standard one first. Others are named ``module:Class``,
    or by an entry point of the ``group`` that an installed package has, or are classes themselves. They
    are subclasses of ``base``, whose tag has the name.
    """

    group: str
    base: type[Section]
    own: Mapping[str, type[Section]]

    def resolve(self, given: object, imports: bool = True) -> type[Section]:
        """Return the class of a name, or check a class.

        Without ``imports`` its module must have been imported before, so that a file that names it runs no
        code. Raises PydanticCustomError with what is wrong.
        """
        name = _name(given)
        if name in self.own:
            return self.own[name]
        if ":" in name:
            section = self._imported(name, imports)
        else:
            from importlib.metadata import entry_points

            points = {point.name: point.value for point in entry_points(group=self.group)}
            if name not in points:
                names = ", ".join(map(repr, [*self.own, *sorted(points)]))
                raise self._wrong(f"expected {names + ' or ' if names else ''}module:Class")
            section = self._imported(points[name], imports=True)
        if not isinstance(section, type) or not issubclass(section, self.base):
            raise self._wrong(f"expected a subclass of onlinesrl.modules.{self.base.__name__}")
        if missing := getattr(section, "__abstractmethods__", None):
            raise self._wrong(f"{name} does not define {', '.join(sorted(missing))}")
        if isinstance(given, type) and section is not given:
            raise self._wrong(f"{name} cannot be imported again; define it at the top of a module")
        return section

    def _imported(self, name: str, imports: bool) -> Any:
        """Return what ``module:Class`` names."""
        module, _, place = name.partition(":")
        if not imports and module not in sys.modules:
            raise self._wrong(
                f"{name} is of a module that a checkpoint must not import: in Python import {module} before; "
                "commands take the configuration, or the file of weights",
                "not_imported",
            )
        try:
            return attrgetter(place)(import_module(module))
        except Exception as error:  # whatever the module does
            last = extract_tb(error.__traceback__)[-1]
            inside = last.filename.endswith(".py") and last.filename != __file__
            where = f" ({last.filename}:{last.lineno})" if inside else ""
            reason = f"{type(error).__name__}: {error}{where}"
            raise self._wrong(f"{name} cannot be imported: {reason}") from error

    def _wrong(
        self, reason: str, kind: Literal["kind", "not_imported"] = "kind"
    ) -> PydanticCustomError:
        return PydanticCustomError(kind, "{reason}", {"reason": reason, "tag": self.base.tag})

    def _chosen(self, values: Any) -> Section:
        """Return the section of given keys, or a section itself."""
        tag = self.base.tag
        if isinstance(values, Section):
            self.resolve(type(values))
            return values
        values = {} if values is None else values
        if not isinstance(values, Mapping):
            raise PydanticKnownError("model_attributes_type")
        given = values.get(tag, next(iter(self.own), ""))
        return self.resolve(given).model_validate({**values, tag: _name(given)})

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Return how pydantic validates such a section."""
        return core_schema.no_info_plain_validator_function(self._chosen)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """Return how JSON schema describes such a section."""
        return {"type": "object"}


def _name(given: object) -> str:
    """Return the name of a class, or the text of what should be a name."""
    if isinstance(given, type):
        kind = kind_of(given) if issubclass(given, Section) else ""
        return kind or f"{given.__module__}:{given.__qualname__}"
    return str(given)
