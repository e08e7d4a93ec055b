"""Constants come back as they were given: inside a model, ``17`` and ``"17"`` are one constant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from onlinesrl.core.example import Atoms, Constant, Example, arguments

Kind: TypeAlias = str | tuple[str, int]
"""The type of an argument; where it has none (PSL), its predicate and place."""
Named: TypeAlias = tuple[Kind, str]
"""A constant inside a model, by the kind of its arguments."""
Types: TypeAlias = Mapping[str, Sequence[str | None]]
"""The types of each predicate's arguments."""


def is_number(text: str) -> bool:
    """Tell whether a text reads as a whole number."""
    return text.removeprefix("-").isdigit()


def kinds_of(types: Types, name: str) -> Sequence[Kind]:
    """Return the kinds of a predicate's arguments."""
    return [kind or (name, place) for place, kind in enumerate(types.get(name, ()))]


def numerals(types: Types, parts: Iterable[Atoms]) -> Iterator[tuple[Named, Constant]]:
    """Yield the constants of atoms that are or read as whole numbers, as they were given."""
    for atoms in parts:
        for name, rows in atoms.items():
            kinds = kinds_of(types, name)
            for row in rows:
                for kind, constant in zip(kinds, arguments(row), strict=False):
                    if isinstance(constant, int) or is_number(constant):
                        yield (kind, str(constant)), constant


def texts(types: Types, parts: Iterable[Atoms]) -> frozenset[Named]:
    """Return the constants that read as whole numbers and were given as text."""
    return frozenset(named for named, of in numerals(types, parts) if isinstance(of, str))


def parts_of(example: Example) -> list[Atoms]:
    """Return the atoms of an example."""
    return [example.evidence, example.truth or {}, example.query or {}]


def restored(
    types: Types, parts: Iterable[Atoms], before: frozenset[Named] = frozenset()
) -> Callable[[str, int, Constant], Constant]:
    """Return what gives a constant, at a predicate's place, as it was given in some atoms.

    What these do not have is text if it was ``before``. What was given as text and as a number is text.
    """
    known: dict[Named, Constant] = {}
    for named, constant in numerals(types, parts):
        if isinstance(constant, str) or named not in known:
            known[named] = constant
    kinds = {name: kinds_of(types, name) for name in types}

    def restore(name: str, place: int, constant: Constant) -> Constant:
        named = kinds[name][place], str(constant)
        return known.get(named, named[1] if named in before else constant)

    return restore
