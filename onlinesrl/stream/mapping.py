"""From records of any shape to examples: which values of a record are the arguments of which atoms.

A path is a JSONPath (RFC 9535) of names, indexes, slices and ``[]``, which stands for ``[:]``. ``$`` is the
record, ``.`` the element that ``from`` is at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from typing import Annotated, Any, NamedTuple, Self, TypeAlias

import msgspec
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    create_model,
    model_validator,
)

from onlinesrl.core.errors import ConfigError, ExampleError, shown
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Name

Step: TypeAlias = str | int | slice
"""A name in an object, an index of a list, or a slice of it: one element after the other."""
Elements: TypeAlias = Sequence[Any]
"""The record, and the elements at which the slices of a path are."""

_STEP = re.compile(
    r"\.?(?P<name>[^.\[\]]+)|\['(?P<quoted>[^']*)'\]|\[(?P<index>-?\d+)\]|\[(?P<loop>(-?\d+)?(:(-?\d+)?)?)\]"
)
_POSITION = re.compile(r"position\((-?\d{1,9})\)")
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_TRUTH = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PARTS = ("evidence", "truth", "query", "unlabelled")
"""The parts of an example that have atoms."""


class Lacking(ExampleError):
    """A record has no value at a path."""


# paths -------------------------------------------------------------------------------------------


class Path(NamedTuple):
    """A path; ``whole``: it starts at the record and not at the element of ``from``."""

    text: str
    whole: bool
    steps: tuple[Step, ...]

    @property
    def loops(self) -> list[int]:
        """The numbers of the steps that are slices."""
        return [n for n, step in enumerate(self.steps) if isinstance(step, slice)]

    def value(self, start: Any, first: int = 0) -> Any:
        """Return the value at the steps from ``first`` on. Raises ExampleError; Lacking if there is none."""
        value = start
        for step in self.steps[first:]:
            if isinstance(step, str) and isinstance(value, dict):
                if step not in value:
                    raise self.lacks(repr(step), value)
                value = value[step]
            elif isinstance(step, int) and isinstance(value, list):
                if not -len(value) <= step < len(value):
                    raise self.lacks(f"[{step}]", value)
                value = value[step]
            elif value is not None:
                kind = "an object" if isinstance(step, str) else "a list"
                raise ExampleError(f"{self.text}: expected {kind}, found {described(value)}")
        if value is None:
            raise self.lacks("a value", value)
        return value

    def lacks(self, expected: str, value: Any) -> Lacking:
        """Return the error for a record without a value at this path."""
        return Lacking(f"{self.text}: expected {expected}, found {described(value)}")


def path_of(text: str) -> Path:
    """Return a path as it is written. Raises ValueError."""
    whole = text == "$" or text.startswith(("$.", "$["))
    rest = text[1:] if whole or text == "." else text
    steps: list[Step] = []
    while rest:
        match = _STEP.match(rest)
        if match is None or (not steps and not whole and rest.startswith(".")):
            raise ValueError(
                f"expected a path such as customer.name or words[].text, found {text!r}"
            )
        name, quoted, index, loop = match.group("name", "quoted", "index", "loop")
        if loop is not None:
            steps.append(slice(*(int(end) if end else None for end in (loop or ":").split(":"))))
        else:
            steps.append(int(index) if index else quoted if name is None else name)
        rest = rest[match.end() :]
    return Path(text, whole, tuple(steps))


def described(value: Any) -> str:
    """Say for people what a value is."""
    if isinstance(value, dict):
        return f"an object with {', '.join(map(repr, value)) or 'no keys'}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    is_plain = value is None or isinstance(value, bool)
    return msgspec.json.encode(value).decode() if is_plain else shown(value)


def constant(value: Any, path: str) -> str:
    """Return a text or a whole number as text, which is the same constant. Raises ExampleError."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        with suppress(ValueError):  # of more digits than Python writes
            return str(value)
    hint = "; true and false may be a `value`" if isinstance(value, bool) else ""
    raise ExampleError(f"{path}: expected text or a whole number, found {described(value)}{hint}")


def number(value: Any, path: str) -> float:
    """Return a number, 1 for true and 0 for false, also if they are given as text. Raises ExampleError.

    In text, yes is true and no is false, and a time of ISO 8601 is a number of seconds since 1970.
    """
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            value = float(text)
        elif _DATE.match(text):
            value = _seconds(text, value)
        else:
            value = _TRUTH.get(text.lower(), value)
    if isinstance(value, bool | int | float):
        try:
            if math.isfinite(result := float(value)):
                return result
        except OverflowError:
            pass
    raise ExampleError(
        f"{path}: expected a number, a time such as 2026-01-31T12:00:00Z, true or false, found "
        f"{described(value)}"
    )


def _seconds(text: str, value: str) -> float | str:
    """Return the seconds from 1970 to a time, which is in UTC if it says no offset; else the value."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return value
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH).total_seconds()


# the configuration -------------------------------------------------------------------------------


def _checked(text: str) -> str:
    path_of(text)
    return text


def _one_or_many(value: object) -> object:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


PathText = Annotated[Name, AfterValidator(_checked)]
Paths = Annotated[
    tuple[PathText, ...],
    BeforeValidator(_one_or_many),
    Field(min_length=1),
    PlainSerializer(lambda paths: paths[0] if len(paths) == 1 else paths),
]
Texts = Annotated[tuple[Name, ...], BeforeValidator(lambda v: tuple(v) if type(v) is list else v)]

_FROM = "the path of what has an atom: the record, or words[] for each element of a list"
_From: Any = create_model(  # type: ignore[call-overload]
    "_From", __base__=Section, **{"from": (PathText, Field("$", description=_FROM))}
)
"""A section with the key from, which is no name in Python."""


class AtomsSection(_From):  # type: ignore[misc]
    """The atoms of a predicate in a record: one for each element of ``from``."""

    arguments: Texts
    """paths of the arguments in that element, or in the record if they begin with $; =red is the
    constant red, position(1) the number of the element in its list, from 1."""
    value: PathText | None = None
    """the path of the atom's value: a truth value for true and false, a number for a numeric
    predicate or PSL; null: the atom is true."""
    optional: bool = False
    """whether a record may lack a value; it then has no such atom, and no truth if all of it lacks."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        Atoms(self)
        return self

    @property
    def steps(self) -> Iterator[tuple[Step, ...]]:
        """The steps of each path, from the record on."""
        origin = path_of(getattr(self, "from"))
        yield origin.steps
        for text in (*self.arguments, *([] if self.value is None else [self.value])):
            if text[0] != "=" and not _POSITION.fullmatch(text):
                path = path_of(text)
                yield path.steps if path.whole else origin.steps + path.steps


Rules = Annotated[tuple[AtomsSection, ...], BeforeValidator(_one_or_many), Field(min_length=1)]


class MappingSection(Section):
    """How a record becomes an example; see `onlinesrl guide mapping`."""

    id: Paths | None = None
    """the path of the example's name, or several, whose values are joined by /; null: file and line, or
    topic, partition and offset."""
    group: PathText | None = None
    """the path of the example's group."""
    time: PathText | None = None
    """the path of the example's time, in seconds."""
    evidence: dict[Name, Rules]
    """by predicate, what is observed."""
    truth: dict[Name, Rules] = {}  # noqa: RUF012
    """by predicate of the query, what is to be predicted."""
    query: dict[Name, Rules] = {}  # noqa: RUF012
    """by predicate of the query, the open atoms, if they are not all."""
    unlabelled: dict[Name, Rules] = {}  # noqa: RUF012
    """by predicate of the query, the open atoms whose truth is not known."""

    @property
    def rules(self) -> dict[str, dict[str, tuple[AtomsSection, ...]]]:
        """The rules by part and predicate."""
        return {part: rules for part in PARTS if (rules := getattr(self, part))}

    @property
    def names(self) -> set[str]:
        """The names of objects and columns in all of the paths."""
        texts = [text for text in (*(self.id or ()), self.group, self.time) if text is not None]
        paths = [path_of(text).steps for text in texts]
        for rules in self.rules.values():
            for rule in chain.from_iterable(rules.values()):
                paths += rule.steps
        return {step for steps in paths for step in steps if isinstance(step, str)}

    def check(
        self,
        argument_types: Mapping[str, Sequence[str | None]],
        query: Sequence[str],
        lists_targets: bool,
        error: Callable[[str, str], ConfigError],
    ) -> None:
        """Raise the ``error`` of a key that does not fit the model's predicates or the query.

        ``lists_targets``: examples list the atoms to predict.
        """
        if lists_targets and not self.query:
            raise error(
                "source.mapping",
                "expected the key query: an example in PSL lists the atoms to predict; it has the rules of "
                "truth, without value",
            )
        for part, predicates in self.rules.items():
            for name, rules in predicates.items():
                key = f"source.mapping.{part}.{name}"
                if name not in argument_types:
                    known = ", ".join(argument_types)
                    raise error(key, f"no predicate of the model; expected one of {known}")
                if part != "evidence" and name not in query:
                    raise error(key, f"expected a predicate of the query ({', '.join(query)})")
                for rule in rules:
                    if len(rule.arguments) != len(argument_types[name]):
                        count = len(argument_types[name])
                        raise error(key, f"expected {count} arguments, found {len(rule.arguments)}")


# records -----------------------------------------------------------------------------------------


class Atoms:
    """The atoms of one rule in records. Raises ValueError, with the key, for a rule that makes no sense."""

    def __init__(self, rule: AtomsSection) -> None:
        self.origin = path_of(getattr(rule, "from"))
        self.loops = self.origin.loops
        self.optional = rule.optional
        self.arguments = [self._argument(text) for text in rule.arguments]
        self.value = None if rule.value is None else self._getter("value", rule.value, number)
        given = zip(rule.arguments, self.arguments, strict=True)
        self.values = [value for text, value in given if text[0] != "="]
        self.values += [] if self.value is None else [self.value]
        """The functions to what is no constant."""

    def _argument(self, text: str) -> Callable[[Elements, int], Any]:
        """Return the function from elements, and the position of the last, to an argument."""
        if text.startswith("="):
            return lambda values, place: text[1:]
        if match := _POSITION.fullmatch(text):
            if not self.loops:
                raise ValueError(f"arguments: {text} needs a list in `from`, such as words[]")
            first = int(match[1])
            return lambda values, place: str(first + place)
        return self._getter("arguments", text, constant)

    def _getter(
        self, key: str, text: str, typed: Callable[[Any, str], Any]
    ) -> Callable[[Elements, int], Any]:
        """Return the function from elements to the value at a path in them, of a type."""
        try:
            path = path_of(text)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
        loops, level, start = path.loops, -1, 0
        if path.whole:
            level, start = len(loops), loops[-1] + 1 if loops else 0
            if path.steps[:start] != self.origin.steps[:start]:
                raise ValueError(f"{key}: {text}: its lists must be those of `from`")
        elif loops:
            raise ValueError(f"{key}: {text}: a list of elements belongs in `from`")
        elif self.origin.steps:
            path = path._replace(text=f"{self.origin.text}.{text}".removesuffix(".."))
        return lambda values, place: typed(path.value(values[level], start), path.text)

    def of(self, record: Any) -> tuple[list[Any], list[Any]]:
        """Return the atoms of a record, as JSON has them, and those whose value it lacks.

        Raises ExampleError; Lacking where a value is missing that is not optional, or no atom has all.
        """
        atoms: list[Any] = []
        unvalued: list[Any] = []
        lacking: Lacking | None = None
        for values, place, indexes in self._elements((record,), 0, 0, ()):
            arguments: list[Any] | None = None
            try:
                arguments = [argument(values, place) for argument in self.arguments]
                if self.value is None:
                    atoms.append(arguments)
                else:
                    atoms.append({"args": arguments, "value": self.value(values, place)})
            except ExampleError as error:
                if not self.optional or not isinstance(error, Lacking):
                    raise self._located(error, indexes) from None
                lacking = error
                unvalued += [] if arguments is None else [arguments]
        if lacking is not None and not atoms:
            raise lacking
        return atoms, unvalued

    def check_last(self, record: Any) -> None:
        """Raise Lacking where the last value of the record's atom is there, and one before it is not."""
        if self.origin.steps or not self.values:
            return
        *others, last = self.values
        try:
            last((record,), 0)
        except Lacking:
            return
        for other in others:
            other((record,), 0)

    def _elements(
        self, values: Elements, first: int, place: int, indexes: tuple[int, ...]
    ) -> Iterator[tuple[Elements, int, tuple[int, ...]]]:
        """Yield the record and the elements of all slices, with what ``from`` is at.

        With them are the element's position in the last slice, and its indexes in the lists.
        """
        depth, steps = len(values) - 1, self.origin.steps
        try:
            if depth == len(self.loops):
                yield (*values, self.origin.value(values[-1], first)), place, indexes
                return
            loop = self.loops[depth]
            listed = self.origin._replace(steps=steps[:loop]).value(values[-1], first)
            if not isinstance(listed, list):
                raise ExampleError(
                    f"{self.origin.text}: expected a list, found {described(listed)}"
                )
        except ExampleError as error:
            raise self._located(error, indexes) from None
        selected: slice = steps[loop]  # type: ignore[assignment]
        for n, index in enumerate(range(len(listed))[selected]):
            yield from self._elements((*values, listed[index]), loop + 1, n, (*indexes, index))

    def _located(self, error: ExampleError, indexes: Sequence[int]) -> ExampleError:
        """Return the error with the element that it is about, whose indexes in the lists are these."""
        if not indexes:
            return error
        numbers = iter(indexes)
        steps = self.origin.steps[: self.loops[len(indexes) - 1] + 1]
        plain = [next(numbers) if isinstance(step, slice) else step for step in steps]
        path = "".join(f".{step}" if isinstance(step, str) else f"[{step}]" for step in plain)
        return type(error)(f"{error.reason}, in {path.removeprefix('.')}", error.kind)


class Mapper:
    """Makes the lines of examples from records, by a mapping.

    ``whole``: a record that has the last value of a rule, and gives no rule all, is bad.
    """

    def __init__(self, section: MappingSection, whole: bool = False) -> None:
        self.section, self.whole = section, whole
        self.id = [path_of(text) for text in section.id or ()]
        self.group, self.time = (
            None if text is None else path_of(text) for text in (section.group, section.time)
        )
        self.parts = {
            part: [(name, Atoms(rule)) for name, rules in predicates.items() for rule in rules]
            for part, predicates in section.rules.items()
        }
        self.says_false = any(rule.value is not None for _, rule in self.parts.get("truth", ()))
        """Whether the truth lists false atoms, and those without a value are unlabelled."""
        self.encode = msgspec.json.Encoder().encode

    def name(self, record: Any, place: str) -> str:
        """Return the id of a record's example. Raises ExampleError."""
        parts = [constant(path.value(record), path.text) for path in self.id]
        if len(parts) > 1:  # different values have different names, as in a JSON Pointer (RFC 6901)
            parts = [part.replace("~", "~0").replace("/", "~1") for part in parts]
        return "/".join(parts) if parts else place

    def line(self, record: Any, place: str) -> bytes:
        """Return the line of JSON of a record's example, whose id is its place if the mapping has none.

        Raises ExampleError with the key of the mapping, the path, and what is there.
        """
        example: dict[str, Any] = {"evidence": {}}
        key = "id"
        try:
            example["id"] = self.name(record, place)
            unlabelled = dict[str, list[Any]]()
            for part, rules in self.parts.items():
                atoms: dict[str, list[Any]] = {}
                for name, rule in rules:
                    key = f"{part}.{name}"
                    try:
                        valued, unvalued = rule.of(record)
                    except Lacking:
                        if rule.optional:
                            continue
                        raise
                    atoms.setdefault(name, []).extend(valued)
                    if unvalued and part == "truth":
                        unlabelled.setdefault(name, []).extend(unvalued)
                if atoms:
                    example[part] = atoms
            if self.whole and not example["evidence"] and "truth" not in example:
                for part, rules in self.parts.items():
                    for name, rule in rules:
                        key = f"{part}.{name}"
                        rule.check_last(record)
            if "truth" in example and (unlabelled or self.says_false):
                listed = example.setdefault("unlabelled", {})
                for name, rows in unlabelled.items():
                    listed.setdefault(name, []).extend(rows)
            key = "group"
            if self.group is not None:
                example[key] = constant(self.group.value(record), self.group.text)
            key = "time"
            if self.time is not None:
                example[key] = number(self.time.value(record), self.time.text)
        except ExampleError as error:
            raise ExampleError(
                f"mapping.{key}: {error.reason}", example_id=example.get("id")
            ) from None
        return self.encode(example)
