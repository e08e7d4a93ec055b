"""YAML as plain values, with the place of each for error messages.

Files are only composed into nodes, so that tags cannot create objects. Scalars follow the core schema
of YAML 1.2 (``1e-3`` is a number, ``no`` is text). Aliases and duplicate keys are errors. Errors are
collected, not raised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import yaml

from onlinesrl.core.errors import LocatedError, printable

Key = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_SCALARS = {
    "null": re.compile(r"~|null|Null|NULL|"),
    "bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "int": re.compile(r"[-+]?[0-9][0-9_]*"),
    "float": re.compile(
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    ),
}


_SECRETIVE = re.compile(r"secu|pass|pasw|sasl|ssl_|://[^\s/]*@|:[^\s/:]*@", re.IGNORECASE)
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_SIGN = re.compile(r"""['"](?:|.|\\.|<[a-z ]+>)['"]""")


def secretive(text: object) -> bool:
    """Return whether a text may contain credentials, which error messages must not repeat.

    Misspelt keys count too: ``securty`` and ``sasl_plain_pasword``; and so does a login in an address.
    """
    return _SECRETIVE.search(str(text)) is not None


def spelled(key: Key) -> str:
    """Return a key with dots, without a part that may be a password."""
    secret = secretive(key)
    public = takewhile(lambda part: not secret or str(part).isidentifier(), key)
    return ".".join(map(str, public))


class _Loader(yaml.SafeLoader):
    """SafeLoader with the plain scalars of YAML 1.2; only its composer is used."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - the declaration is PyYAML's


for _name, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_pattern.pattern})$"), None)


class Unplaced(LocatedError):
    """An error without a line, for example in ``--set key=value``."""

    def __str__(self) -> str:
        """Render ``file: message``."""
        return printable(f"{self.file}: {self.message}")


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a key or value; line 0: ``file`` is the whole place."""

    file: str
    line: int = 0
    column: int = 0

    def problem(self, message: str, source_line: str | None = None) -> LocatedError:
        """Return an error at this place."""
        kind = LocatedError if self.line else Unplaced
        return kind(
            message, file=self.file, line=self.line, column=self.column, source_line=source_line
        )


class Tree:
    """The places of the keys and values read so far, and the errors found."""

    def __init__(self) -> None:
        self.problems: list[LocatedError] = []
        self._values: dict[Key, Place] = {}
        self._keys: dict[Key, Place] = {}

    def read(self, text: str, place: Place, key: Key = ()) -> Any:
        """Return the plain value of ``text``, as the value of ``key`` in the tree.

        Places are lines and columns of ``place.file`` if ``place`` has a line, else ``place``. They
        replace earlier ones of the same keys. Invalid YAML gives None and an error.
        """
        for stale in [stale for stale in self._values if stale[: len(key)] == key]:
            del self._values[stale]
        for end in range(1, len(key)):
            self._keys.setdefault(key[:end], place)
        if key:
            self._keys[key] = place
        self._values[key] = place
        node = self._compose(text, place)
        return None if node is None else _Walk(self, place).value(node, key)

    def value_place(self, key: Key) -> Place:
        """Return the place of the value of ``key``, or of the innermost enclosing section."""
        return next(place for place in map(self._values.get, _prefixes(key)) if place)

    def key_place(self, key: Key) -> Place:
        """Return the place of ``key`` itself, or of the innermost enclosing section."""
        places = (place for place in map(self._keys.get, _prefixes(key)) if place)
        return next(places, None) or self.value_place(())

    def note(self, key: Key, value: Place, name: Place | None = None) -> None:
        """Record the place of the value of ``key``, and optionally of the key itself."""
        self._values[key] = value
        if name is not None:
            self._keys[key] = name

    def _compose(self, text: str, place: Place) -> yaml.Node | None:
        try:
            return yaml.compose(text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            index = mark.index if mark else 0
            bracket = index > 0 and text[index : index + 1] == "[" and text[index - 1].isalnum()
            hint = "; text with brackets needs quotes here" if bracket else ""
            self._syntax(place, text, (error.problem or str(error)) + hint, index)
        except yaml.reader.ReaderError as error:
            self._syntax(place, text, f"U+{error.character:04X} is not allowed", error.position)
        except RecursionError:
            self._syntax(place, text, "nested too deeply", 0)
        return None

    def _syntax(self, place: Place, text: str, reason: str, index: int) -> None:
        """Record a syntax error at the ``index``-th character."""
        if secretive(text) or secretive(place.file):
            reason = _QUOTED.sub(lambda m: m[0] if _SIGN.fullmatch(m[0]) else "this value", reason)
        message = f"not valid YAML: {reason}"
        if not place.line:
            self.problems.append(place.problem(message))
            return
        start = text.rfind("\n", 0, index) + 1
        location = Place(place.file, text.count("\n", 0, index) + 1, index - start + 1)
        line = text[start:].partition("\n")[0][:200]
        self.problems.append(location.problem(message, None if secretive(text) else line))


def _tag_problem(node: yaml.Node, key: Key) -> str:
    if secretive(key):
        return "a value that begins with `!` needs quotes"
    return f"the tag {node.tag} does not fit"


def _joined(text: str) -> str:
    """Return a text in which pairs of surrogates, as JSON escapes them, are the characters they mean."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _prefixes(key: Key) -> list[Key]:
    """Return ``key`` and its enclosing keys, innermost first."""
    return [key[:end] for end in range(len(key), -1, -1)]


class _Walk:
    """Converts the nodes of one YAML text."""

    def __init__(self, tree: Tree, place: Place) -> None:
        self.tree = tree
        self.place = place
        self.seen: set[int] = set()

    def value(self, node: yaml.Node, key: Key) -> Any:
        """Return the plain value of ``node``."""
        self.tree.note(key, self.at(node))
        if id(node) in self.seen:
            return self.refuse(node, key, "aliases are not supported: write the value again")
        self.seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, key)
        if node.tag not in (_TAG + "seq", _TAG + "map"):
            return self.refuse(node, key, _tag_problem(node, key))
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*key, index)) for index, item in enumerate(node.value)]
        return self.mapping(node, key)

    def mapping(self, node: yaml.Node, key: Key) -> dict[str, Any]:
        """Return the keys and values of ``node``; a key must be a scalar."""
        values: dict[str, Any] = {}
        first: dict[str, int] = {}
        for name, item in node.value:
            if not isinstance(name, yaml.ScalarNode):
                self.refuse(name, key, "expected a key, found a list or a section")
            elif not (text := _joined(name.value)).isprintable():
                self.refuse(name, key, "expected a key that can be printed")
            elif text in values:
                self.refuse(name, (*key, text), f"duplicate key (first on line {first[text]})")
            else:
                first[text] = name.start_mark.line + 1
                values[text] = self.value(item, (*key, text))
                self.tree.note((*key, text), self.at(item), self.at(name))
        return values

    def scalar(self, node: yaml.ScalarNode, key: Key) -> Any:
        """Return null, a boolean, a number or a string, by tag."""
        kind = node.tag.removeprefix(_TAG)
        if kind == "str":
            return _joined(node.value)
        if kind not in _SCALARS or not _SCALARS[kind].fullmatch(node.value):
            return self.refuse(node, key, _tag_problem(node, key))
        if kind == "null":
            return None
        if kind == "bool":
            return node.value.lower() == "true"
        return self.number(node, key, kind)

    def number(self, node: yaml.ScalarNode, key: Key, kind: str) -> int | float | None:
        """Return a number; too many digits are an error."""
        try:
            if kind == "int":
                return int(node.value.replace("_", ""))
            return float(re.sub(r"\.(?=[inIN])", "", node.value))
        except ValueError:
            self.refuse(node, key, "this number has too many digits")
            return None

    def refuse(self, node: yaml.Node, key: Key, reason: str) -> Any:
        """Record an error at ``node`` and return None."""
        name = spelled(key)
        message = f"{name}: {reason}" if name else reason
        self.tree.problems.append(self.at(node).problem(message))

    def at(self, node: yaml.Node) -> Place:
        """Return the place of ``node``."""
        if not self.place.line:
            return self.place
        mark = node.start_mark
        return Place(self.place.file, mark.line + 1, mark.column + 1)
