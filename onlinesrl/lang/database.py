"""Alchemy's .db files: the ground atoms of one world."""

from __future__ import annotations

import re
from typing import NamedTuple

from onlinesrl.errors import DatabaseError, LocatedError
from onlinesrl.lang.source import Source, source
from onlinesrl.lang.text import NAME, STRING, unquote

_LETTER = r"[A-Za-z0-9_'\-]"
_CONSTANT = rf"(?:{STRING}|[A-Z]{_LETTER}*|-?[0-9]+(?!{_LETTER}|\.))"
_ATOM = re.compile(
    rf"\s*(!?)[ \t]*({NAME})(?:"
    rf"[ \t]*\([ \t]*({_CONSTANT}(?:[ \t]*,[ \t]*{_CONSTANT})*)?[ \t]*\)"
    rf"|(?!{_LETTER}|[ \t]*\())"
)
_ARGUMENT = re.compile(_CONSTANT)
_OPENING = re.compile(rf"!?[ \t]*{NAME}[ \t]*\([ \t]*")
_ITEM = re.compile(rf"({_CONSTANT})?[ \t]*(,[ \t]*)?")

_COMPLAINTS = (
    (r"\?", "unknown atoms (`?`) are not supported yet", "leave the atom out"),
    (
        rf"(?:{_CONSTANT}|{NAME})?[ \t]*=",
        "function values are not supported yet",
        "use a predicate for the function's graph",
    ),
    (
        r"-?[0-9.]*[0-9]",
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
    code = text_source.code().rstrip()
    atoms: list[GroundAtom] = []
    line, offset = 1, 0
    while offset < len(code):
        match = _ATOM.match(code, offset)
        if match is None:
            raise _error(text_source, code, len(code) - len(code[offset:].lstrip()))
        line += code.count("\n", offset, match.start(2))
        arguments = tuple(map(unquote, _ARGUMENT.findall(match[3] or "")))
        atoms.append(GroundAtom(match[2], arguments, not match[1], line))
        offset = match.end()
    return atoms


def _error(text: Source, code: str, offset: int) -> LocatedError:
    """Return the error for the place where an atom should start and none can be read."""
    for pattern, message, hint in _COMPLAINTS:
        if re.compile(pattern).match(code, offset):
            return text.error(message, offset, hint)
    opening = _OPENING.match(code, offset)
    if opening is None:
        return text.error("expected a ground atom", offset, "write `Friends(Anna, Bob)`")
    return _argument_error(text, code, opening.end())


def _argument_error(text: Source, code: str, offset: int) -> LocatedError:
    """Return the error for an atom whose arguments start at ``offset`` and are not right."""
    item = _ITEM.match(code, offset)
    while item and item[1] and item[2]:
        item = _ITEM.match(code, item.end())
    assert item is not None
    name = re.compile(NAME).match(code, item.end())
    if item[1]:
        message = "expected `,` or `)` after this constant"
        hint = f'a constant with blanks in it needs quotes: "{unquote(item[1])} ..."'
    elif name:
        message = f"the constant {name[0]} starts with a lower-case letter"
        hint = f'write it with a capital or in quotes: "{name[0]}"'
    else:
        message = "expected a constant"
        hint = 'put in quotes what is not a name or an integer: "2.5"'
    return text.error(message, item.end(), hint)
