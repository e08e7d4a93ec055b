"""Alchemy's .db files: the ground atoms of one world."""

from __future__ import annotations

import re
from typing import NamedTuple

from onlinesrl.errors import DatabaseError
from onlinesrl.lang.source import Source, source
from onlinesrl.lang.text import NAME, STRING, unquote

_INTEGER = r"-?[0-9]+(?![A-Za-z0-9_'\-.])"
_CONSTANT = rf"(?:{STRING}|[A-Z][A-Za-z0-9_'\-]*|{_INTEGER})"
_ATOM = re.compile(
    rf"(!?)[ \t]*({NAME})(?:[ \t]*\([ \t]*({_CONSTANT}(?:[ \t]*,[ \t]*{_CONSTANT})*)?[ \t]*\))?"
    r"(?=[\s!A-Za-z_]|\Z)(?![ \t]*[=\d.\-])"
)
_ARGUMENT = re.compile(_CONSTANT)
_BLANKS = re.compile(r"\s*")

_COMPLAINTS = (
    (r"\?", "unknown atoms (`?`) are not supported yet", "leave the atom out"),
    (
        r"-?[0-9.]",
        "soft evidence and numeric values are not supported yet",
        "an atom is true as it stands, and false with `!` before it",
    ),
    (
        rf"(?:{_CONSTANT}|{NAME})[ \t]*=",
        "function values are not supported yet",
        "use a predicate for the function's graph",
    ),
    (
        rf"!?[ \t]*{NAME}(?:[ \t]*\([^()\n]*\))?[ \t]*(?=[0-9.\-])",
        "soft evidence and numeric values are not supported yet",
        "an atom is true as it stands, and false with `!` before it",
    ),
)


class GroundAtom(NamedTuple):
    """An atom of a database: true or, with ``!``, false; ``line`` counts from 1."""

    predicate: str
    arguments: tuple[str, ...]
    value: bool
    line: int


def parse_db(text: str, file: str = "<database>") -> list[GroundAtom]:
    """Read the ground atoms of a database in their order.

    Raises DatabaseError at the first mistake, or feature that is not supported.
    """
    text_source = source(text, file, DatabaseError)
    code = text_source.code()
    atoms: list[GroundAtom] = []
    line, counted, offset = 1, 0, 0
    while (offset := _skip(code, offset)) < len(code):
        match = _ATOM.match(code, offset)
        if match is None:
            raise _error(text_source, code, offset)
        line, counted = line + code.count("\n", counted, offset), offset
        arguments = tuple(map(unquote, _ARGUMENT.findall(match[3] or "")))
        atoms.append(GroundAtom(match[2], arguments, not match[1], line))
        offset = match.end()
    return atoms


def _skip(code: str, offset: int) -> int:
    blanks = _BLANKS.match(code, offset)
    return offset if blanks is None else blanks.end()


def _error(text: Source, code: str, offset: int) -> Exception:
    for pattern, message, hint in _COMPLAINTS:
        if re.compile(pattern).match(code, offset):
            return text.error(message, offset, hint)
    start = re.compile(rf"!?[ \t]*{NAME}[ \t]*\([ \t]*").match(code, offset)
    if start is None:
        return text.error("expected a ground atom", offset, "write `Friends(Anna, Bob)`")
    offset = start.end()
    while argument := re.compile(rf"{_CONSTANT}[ \t]*,[ \t]*").match(code, offset):
        offset = argument.end()
    name = re.compile(rf"{NAME}").match(code, offset)
    if name and not name[0][0].isupper():
        return text.error(
            f"the constant {name[0]} starts with a lower-case letter",
            offset,
            f'write it with a capital or in quotes: "{name[0]}"',
        )
    return text.error(
        "expected a constant",
        offset,
        'write a name with a capital, an integer, or anything in quotes: "Anna Lee"',
    )
