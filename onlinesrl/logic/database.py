"""Databases (.db files): the ground atoms of a world."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from onlinesrl.core.errors import DatabaseError, LocatedError
from onlinesrl.core.example import MOST, Constant, GroundAtom, Number, Truth, show_ground_atom
from onlinesrl.logic.ast import Position, Predicate
from onlinesrl.logic.dialect import ALCHEMY, Dialect
from onlinesrl.logic.source import Source, read_text, source
from onlinesrl.logic.text import NAME, spell_atom, unquote

_LETTER = r"[A-Za-z0-9_'\-]"
_NUMBER = r"[+\-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+\-]?[0-9]+)?"
_SEPARATOR = re.compile(r"^[ \t]*---[ \t]*$", re.MULTILINE)


class Signature(Protocol):
    """The signature of a program of either language; PSL's predicates are given by arity."""

    @property
    def predicates(self) -> Mapping[str, Predicate | int]:
        """The predicates by name."""

    @property
    def functions(self) -> Collection[str]:
        """The names of the functions."""


class _Syntax(NamedTuple):
    """Regular expressions of a dialect's databases."""

    atom: re.Pattern[str]
    prefix: re.Pattern[str]
    argument: re.Pattern[str]
    opening: re.Pattern[str]
    item: re.Pattern[str]
    domain: re.Pattern[str]
    complaints: tuple[tuple[str, str, str], ...]


@cache
def _syntax(constant: str) -> _Syntax:
    return _Syntax(
        atom=re.compile(
            rf"\s*+([!?]?)[ \t]*+({NAME})(?:"
            rf"[ \t]*+\([ \t]*+({constant}(?:[ \t]*,[ \t]*{constant})*)?[ \t]*\)"
            rf"|(?!{_LETTER}|[ \t]*[(=]))"
            rf"(?:(?:[ \t]*(=)[ \t]*|[ \t]+)({_NUMBER})(?=[ \t]*(?:\n|$)))?"
        ),
        prefix=re.compile(
            rf"\s*+(?:({constant})[ \t]*=[ \t]*(?={NAME}[ \t]*\()|({_NUMBER})[ \t]+(?=[!?A-Za-z_]))"
        ),
        argument=re.compile(constant),
        opening=re.compile(
            rf"(?:{constant}[ \t]*=|{_NUMBER}[ \t]|[!?])?[ \t]*{NAME}[ \t]*\([ \t]*"
        ),
        item=re.compile(rf"({constant})?[ \t]*(,[ \t]*)?"),
        domain=re.compile(
            rf"\s*+({NAME})[ \t]*=[ \t]*\{{\s*({constant}(?:\s*,\s*{constant})*)?\s*\}}"
        ),
        complaints=tuple(
            (pattern.replace("CONSTANT", constant), message, hint)
            for pattern, message, hint in _COMPLAINTS
        ),
    )


_COMPLAINTS = (
    (
        r"[A-Za-z]\w*[ \t]*=[ \t]*\{",
        "a database has only atoms, not the constants of a type",
        "list them in the model",
    ),
    (r"=", "the value of a function is written before it", "write `Walking_ID1 = walking(ID1)`"),
    (
        r"[!?][ \t]*(?:CONSTANT)[ \t]*=",
        "a function's value has no sign",
        "leave out the false values of a function",
    ),
    (
        rf"[a-z]{_LETTER}*[ \t]*=",
        "a function's value is a constant, and this starts with a lower-case letter",
        "write it with a capital or in quotes",
    ),
    (
        r"(?:CONSTANT)[ \t]*=",
        "expected a function with constants after `=`",
        "write `Walking_ID1 = walking(ID1)`",
    ),
    (_NUMBER, "a value stands before or after an atom", "write `0.7 Smokes(Bob)`"),
)


Domains: TypeAlias = dict[str, dict[str, int]]
"""The lines of constants, by type."""


def parse_db(
    text: str, file: str = "<database>", dialect: Dialect = ALCHEMY, domains: Domains | None = None
) -> list[GroundAtom]:
    """Read the ground atoms of a database in order.

    An atom is true, false after ``!``, unknown after ``?``, or has a probability before or after it,
    where 0 is false and 1 is true; a numeric atom has a number after ``=``. Constants of types, as in
    ``person = {Ann, Bob}``, are added to ``domains``. Raises DatabaseError at the first mistake or form that
    the dialect does not have.
    """
    text_source = source(text, file, DatabaseError)
    code = text_source.code().rstrip()
    syntax = _syntax(dialect.constant)
    atoms: list[GroundAtom] = []
    line, offset = 1, 0
    while offset < len(code):
        if (
            domains is not None
            and dialect.typed_databases
            and (listed := syntax.domain.match(code, offset)) is not None
        ):
            line += code.count("\n", offset, listed.start(1))
            names = map(unquote, syntax.argument.findall(listed[2] or ""))
            domains.setdefault(listed[1], {}).update(dict.fromkeys(names, line))
            line += code.count("\n", listed.start(1), listed.end())
            offset = listed.end()
            continue
        match, prefix = syntax.atom.match(code, offset), None
        if match is None:
            prefix = syntax.prefix.match(code, offset)
            match = syntax.atom.match(code, prefix.end()) if prefix else None
        if match is None:
            place = len(code) - len(code[offset:].lstrip())
            raise _error(text_source, code, place, dialect)
        line += code.count("\n", offset, match.start(2))
        sign, name, constants, _, number = match.groups()
        arguments = tuple(map(unquote, syntax.argument.findall(constants or "")))
        value: Truth = not sign
        if prefix or number or sign == "?":
            value = _value(text_source, code, match, prefix, dialect)
        if prefix and prefix[1]:
            arguments = (*arguments, unquote(prefix[1]))
        atoms.append(GroundAtom(name, arguments, value, line))
        offset = match.end()
    return atoms


def separate(text: str) -> list[str]:
    """Split a text at ``---`` lines into databases, each padded to keep its line numbers."""
    ends = [match.span() for match in _SEPARATOR.finditer(text)]
    starts = (0, *(end for _, end in ends))
    stops = (*(start for start, _ in ends), len(text))
    parts = zip(starts, stops, strict=True)
    return ["\n" * text.count("\n", 0, a) + text[a:b] for a, b in parts if text[a:b].strip()]


def load_db(
    path: str | Path, program: Signature, dialect: Dialect = ALCHEMY, domains: Domains | None = None
) -> list[GroundAtom]:
    """Read a file of ground atoms of a program's predicates and functions; ``domains`` is as in `parse_db`.

    Raises DatabaseError as `parse_db` and for atoms not of the program; StorageError if the file cannot
    be read.
    """
    text = source(read_text(path), str(path), DatabaseError)
    atoms = parse_db(text.text, text.file, dialect, domains)
    for atom in atoms:
        complaint = complaint_of(atom, program)
        if complaint is not None:
            column = text.text.split("\n")[atom.line - 1].index(atom.predicate) + 1
            raise text.error(complaint[0], Position(atom.line, column), complaint[1])
    return atoms


def valued_atom(
    name: str, arguments: Iterable[Constant], value: float | None, line: int, program: Signature
) -> GroundAtom:
    """Return an atom of a program with a numeric value: 1 is true, 0 is false, others are probabilities.

    An atom without a value is true. An atom of a numeric predicate has any number as its value. Raises
    ValueError for an atom that does not fit the program, or a value out of range.
    """
    numeric = _numeric(name, program)
    truth: Truth = True if value is None else Number(value) if numeric else value
    truth = bool(truth) if not numeric and truth in {0.0, 1.0} else truth
    atom = GroundAtom(name, tuple(map(str, arguments)), truth, line)
    complaint = complaint_of(atom, program)
    if complaint is not None:
        raise ValueError("; ".join(complaint))
    if value is not None and not (numeric or 0 <= value <= 1):
        raise ValueError(f"{show_ground_atom(*atom[:2])} has the value {value:g}; expected 0 to 1")
    return atom


def _numeric(name: str, program: Signature) -> bool:
    declared = program.predicates.get(name)
    return isinstance(declared, Predicate) and declared.numeric


def complaint_of(atom: GroundAtom, program: Signature) -> tuple[str, str] | None:
    """Return message and hint for an atom that does not fit a program's signature, else None."""
    name, predicates = atom.predicate, program.predicates
    if name not in predicates:
        close = get_close_matches(name, predicates, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(sorted(predicates))}"
        return f"the model does not declare {name}", hint
    declared = predicates[name]
    types = declared.types if isinstance(declared, Predicate) else declared * ("_",)
    if len(types) != len(atom.arguments):
        form = f"{name}({', '.join(types)})"
        if name in program.functions:
            form = f"{types[-1]} = {name}({', '.join(types[:-1])})"
        message = f"{name} has another number of arguments here than in the model"
        return message, f"there it is {form}"
    numeric, value = _numeric(name, program), atom.value
    if numeric and not isinstance(value, Number):
        hint = f"write `{spell_atom(name, atom.arguments)} = 0.7`, or in a table give its value"
        return f"{name} is numeric: its atoms have numbers", hint
    if isinstance(value, Number) and not numeric:
        hint = f"the model may declare it numeric, `{name}(...): real`"
        return f"{name} is not numeric: its atoms are true or false", hint
    if isinstance(value, Number) and not abs(value) <= MOST:
        message = f"{spell_atom(name, atom.arguments)} has the number {value:g}"
        return message, f"expected one from {-MOST:g} to {MOST:g}"
    return None


def _value(
    text: Source, code: str, atom: re.Match[str], prefix: re.Match[str] | None, dialect: Dialect
) -> Truth:
    """Return the truth value of an atom that is unknown or has a number."""
    sign, number = atom[1], atom[5]
    before = prefix[2] if prefix else None
    if atom[4] is not None:
        if sign or prefix:
            message = "a numeric atom has one number, and no sign"
            raise text.error(message, atom.start(5), "write `Score(Bob) = 0.7`")
        return Number(number)
    if sign == "?" and not dialect.unknown:
        message = f"{dialect.title} has no unknown atoms (`?`)"
        raise text.error(message, atom.start(1), "leave the atom out to make it unknown")
    if number is None and before is None:
        return None if sign else True
    place = atom.start(5) if number is not None or prefix is None else prefix.start(2)
    if ("after" if number is not None else "before") not in dialect.soft:
        message = f"{dialect.title} has no value of an atom here"
        forms = {"before": "write `0.7 Smokes(Bob)`", "after": "write `Smokes(Bob) 0.7`"}
        hint = next((forms[form] for form in dialect.soft), "an atom is true, or false after `!`")
        raise text.error(message, place, hint)
    turned = sign == "!" and dialect.soft == ("before",)
    if (sign and not turned) or (number and prefix):
        message = "an atom has a sign or one value, and a function's value has none"
        raise text.error(message, place)
    if prefix and code[code.rfind("\n", 0, place) + 1 : place].strip():
        message = "this value could belong to the atom before or after it"
        raise text.error(message, place, "put each atom with a value on a line of its own")
    value = float(number or before or 0)
    if not 0 <= value <= 1:
        message = "the value of an atom is a probability, from 0 to 1"
        raise text.error(message, place, "a numeric atom has its number after `=`")
    value = 1 - value if turned else value
    return value if 0 < value < 1 else value == 1


def _error(text: Source, code: str, offset: int, dialect: Dialect) -> LocatedError:
    """Return the error for a place where an atom is expected."""
    syntax = _syntax(dialect.constant)
    if _SEPARATOR.match(code, offset):
        message = "`---` starts another database, but one world is expected"
        hint = "put each database in its own file; `onlinesrl replay` makes an example of each"
        return text.error(message, offset, hint)
    opening = syntax.opening.match(code, offset)
    if opening is not None:  # the arguments are wrong
        item = syntax.item.match(code, opening.end())
        while item and item[1] and item[2]:
            item = syntax.item.match(code, item.end())
        assert item is not None
        name = re.compile(NAME).match(code, item.end())
        if item[1]:
            message = "expected `,` or `)` after this constant"
            hint = f'a constant with blanks needs quotes: "{unquote(item[1])} ..."'
        elif name:
            message = f"the constant {name[0]} starts with a lower-case letter"
            hint = f'write it with a capital or in quotes: "{name[0]}"'
        else:
            message = "expected a constant"
            hint = 'a constant that is not a name or an integer needs quotes: "2.5"'
        return text.error(message, item.end(), hint)
    for pattern, message, hint in syntax.complaints:
        if re.compile(pattern).match(code, offset):
            return text.error(message, offset, hint)
    return text.error("expected a ground atom", offset, "write `Friends(Anna, Bob)`")
