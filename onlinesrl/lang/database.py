"""Alchemy's .db files: the ground atoms of one world."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from onlinesrl.errors import DatabaseError, LocatedError
from onlinesrl.lang.source import Source, source
from onlinesrl.lang.text import NAME, STRING, unquote

_LETTER = r"[A-Za-z0-9_'\-]"
_CONSTANT = rf"(?:{STRING}|[A-Z]{_LETTER}*|-?[0-9]+(?!{_LETTER}|\.))"
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+\-]?[0-9]+)?"
_ATOM = re.compile(
    rf"\s*([!?]?)[ \t]*({NAME})(?:"
    rf"[ \t]*\([ \t]*({_CONSTANT}(?:[ \t]*,[ \t]*{_CONSTANT})*)?[ \t]*\)"
    rf"|(?!{_LETTER}|[ \t]*[(=]))"
    rf"(?:[ \t]+({_NUMBER})(?=[ \t]*(?:\n|$)))?"
)
_PREFIX = re.compile(
    rf"\s*(?:({_CONSTANT})[ \t]*=[ \t]*(?={NAME}[ \t]*\()|({_NUMBER})[ \t]+(?=[!?A-Za-z_]))"
)
_ARGUMENT = re.compile(_CONSTANT)
_OPENING = re.compile(rf"(?:{_CONSTANT}[ \t]*=|{_NUMBER}[ \t]|[!?])?[ \t]*{NAME}[ \t]*\([ \t]*")
_ITEM = re.compile(rf"({_CONSTANT})?[ \t]*(,[ \t]*)?")

_COMPLAINTS = (
    (
        r"=",
        "a function's value comes before it",
        "write `Walking_ID1 = walking(ID1)`",
    ),
    (
        rf"[!?][ \t]*{_CONSTANT}[ \t]*=",
        "a function's value has no sign",
        "leave out what a function does not give",
    ),
    (
        rf"[a-z]{_LETTER}*[ \t]*=",
        "a function's value is a constant, and this starts with a lower-case letter",
        "write it with a capital or in quotes",
    ),
    (
        rf"{_CONSTANT}[ \t]*=",
        "expected a function with constants after `=`",
        "write `Walking_ID1 = walking(ID1)`",
    ),
    (_NUMBER, "a value stands before or after an atom", "write `0.7 Smokes(Bob)`"),
)

Truth: TypeAlias = bool | float | None
"""True or false, the probability of being true, or None for unknown."""


class GroundAtom(NamedTuple):
    """An atom of a database; ``line`` counts from 1.

    The mapping ``Result = f(A, B)`` of a function is the true atom f(A, B, Result).
    """

    predicate: str
    arguments: tuple[str, ...]
    value: Truth
    line: int


def parse_db(text: str, file: str = "<database>") -> list[GroundAtom]:
    """Read the ground atoms of a database in their order.

    An atom is true, false after ``!``, unknown after ``?``, or has its probability before or
    after it, where one that is 0 or 1 is false or true. Raises DatabaseError at the first mistake.
    """
    text_source = source(text, file, DatabaseError)
    code = text_source.code().rstrip()
    atoms: list[GroundAtom] = []
    line, offset = 1, 0
    while offset < len(code):
        match, prefix = _ATOM.match(code, offset), None
        if match is None:
            prefix = _PREFIX.match(code, offset)
            match = _ATOM.match(code, prefix.end()) if prefix else None
        if match is None:
            raise _error(text_source, code, len(code) - len(code[offset:].lstrip()))
        line += code.count("\n", offset, match.start(2))
        sign, name, constants, number = match.groups()
        arguments = tuple(map(unquote, _ARGUMENT.findall(constants or "")))
        value: Truth = not sign
        if prefix or number or sign == "?":
            value = _value(text_source, code, match, prefix)
        if prefix and prefix[1]:
            arguments = (*arguments, unquote(prefix[1]))
        atoms.append(GroundAtom(name, arguments, value, line))
        offset = match.end()
    return atoms


def _value(text: Source, code: str, atom: re.Match[str], prefix: re.Match[str] | None) -> Truth:
    """Return the truth of an atom that is not simply true or false."""
    sign, number = atom[1], atom[4]
    before = prefix[2] if prefix else None
    if number is None and before is None:
        return None if sign else True
    place = atom.start(4) if number is not None or prefix is None else prefix.start(2)
    if sign or (number and prefix):
        message = "an atom has a sign or one value, and a function's value has none"
        raise text.error(message, place)
    if prefix and code[code.rfind("\n", 0, place) + 1 : place].strip():
        message = "it is not clear which atom this value belongs to"
        raise text.error(message, place, "put each atom with a value on a line of its own")
    value = float(number or before or 0)
    if not 0 <= value <= 1:
        message = "the value of an atom is a probability, from 0 to 1"
        raise text.error(message, place, "other numeric values are not supported yet")
    return value if 0 < value < 1 else value == 1


def _error(text: Source, code: str, offset: int) -> LocatedError:
    """Return the error for the place where an atom should start and none can be read."""
    opening = _OPENING.match(code, offset)
    if opening is not None:
        return _argument_error(text, code, opening.end())
    for pattern, message, hint in _COMPLAINTS:
        if re.compile(pattern).match(code, offset):
            return text.error(message, offset, hint)
    return text.error("expected a ground atom", offset, "write `Friends(Anna, Bob)`")


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
