"""Constants come back as they were given: inside a model, ``17`` and ``"17"`` are one constant."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from onlinesrl.core.example import Atoms, Constant, Example, listed_unlabelled
from onlinesrl.logic.text import WHOLE

Kind: TypeAlias = str | tuple[str, int]
"""The type of an argument; where it has none (PSL), its predicate and place."""
Named: TypeAlias = tuple[Kind, str]
"""A constant inside a model, by the kind of its arguments."""
Types: TypeAlias = Mapping[str, Sequence[str | None]]
"""The types of each predicate's arguments."""
Restore: TypeAlias = Callable[[str, int, Constant], Constant]
"""Returns a constant of a predicate, at a place, as it was given."""


def is_number(constant: Constant) -> bool:
    """Tell whether a constant is a text that reads as a whole number."""
    return isinstance(constant, str) and WHOLE.fullmatch(constant) is not None


def is_other_in_markov_logic(constant: Constant) -> bool:
    """Tell whether a constant of Markov logic may change its type: text that reads as a whole number does."""
    return is_number(str(constant)) == isinstance(constant, str)


def is_other_in_psl(constant: Constant) -> bool:
    """Tell whether a constant of PSL changes its type: whole numbers do, since PSL has text alone."""
    return isinstance(constant, int)


def kinds_of(types: Types, name: str) -> Sequence[Kind]:
    """Return the kinds of a predicate's arguments."""
    return [kind or (name, place) for place, kind in enumerate(types.get(name, ()))]


def chosen(
    types: Types, parts: Iterable[Atoms], kinds: Container[Kind], choose: Callable[[Constant], bool]
) -> Iterator[tuple[Named, Constant]]:
    """Yield constants of some kinds as atoms have them, and what they are inside a model."""
    for atoms in parts:
        for name, rows in atoms.items():
            for place, kind in enumerate(kinds_of(types, name)):
                if kind in kinds:
                    lists = [row if isinstance(row, list) else row.args for row in rows]
                    for constant in filter(choose, {r[place] for r in lists if len(r) > place}):
                        yield (kind, str(constant)), constant


def texts(types: Types, parts: Iterable[Atoms], kinds: Container[Kind]) -> frozenset[Named]:
    """Return the constants of some kinds that read as whole numbers and were given as text."""
    return frozenset(named for named, _ in chosen(types, parts, kinds, is_number))


def parts_of(example: Example) -> list[Atoms]:
    """Return the atoms of an example."""
    return [example.evidence, example.truth or {}, example.query or {}, listed_unlabelled(example)]


def restored(
    types: Types,
    names: Iterable[str],
    parts: Iterable[Atoms],
    is_other: Callable[[Constant], bool],
    before: frozenset[Named] = frozenset(),
) -> Restore | None:
    """Return what gives a constant of some predicates as it was given in atoms; None: it is so already.

    What the atoms do not have is text if it was ``before``; what was given as text and as a number is text.
    ``is_other`` tells which constants may be others inside the model.
    """
    places = {name: kinds_of(types, name) for name in names}
    kinds = {*chain.from_iterable(places.values())}
    texts_seen: dict[Named, Constant] = {}
    for named, constant in chosen(types, parts, kinds, (lambda _: True) if before else is_other):
        if isinstance(constant, str) or named not in texts_seen:
            texts_seen[named] = constant
    if not texts_seen and not before:
        return None

    def restore(name: str, place: int, constant: Constant) -> Constant:
        named = places[name][place], str(constant)
        return texts_seen.get(named, named[1] if named in before else constant)

    return restore
