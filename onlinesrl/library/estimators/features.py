"""Features by name, as CRF tools write them: numbered, with the number by which each counts.

A position has a mapping from names to values, or a list of names. A string makes the feature ``name:value``;
true and a number make the feature ``name``, counted by that number, and false and 0 none; a list or set of
strings makes a feature of each, and a mapping one of each of its own, under ``name:``.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import repeat
from numbers import Real
from typing import Any

import msgspec
import numpy as np

from onlinesrl.core.errors import InputError, shown
from onlinesrl.core.example import MOST
from onlinesrl.library.estimators.samples import listed


class Rows:
    """The features of positions, which follow one another."""

    def __init__(self) -> None:
        self.first = array("q", [0])
        self.feature = array("i")
        self._other: dict[int, float] = {}

    def add(self, feature: int, number: float) -> None:
        """Add a feature to the present position."""
        if number != 1.0 and feature >= 0:
            self._other[len(self.feature)] = number
        self.feature.append(feature)

    @property
    def number(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The numbers by which the features count; none where each counts by 1."""
        if not self._other:
            return np.empty(0)
        number = np.ones(len(self.feature))
        number[[*self._other]] = [*self._other.values()]
        return number


class Features:
    """Numbers features in the order in which they are first met."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: dict[str, int] = {name: n for n, name in enumerate(names)}
        self._known: dict[str, dict[Any, int]] = {}

    def __len__(self) -> int:
        return len(self.names)

    def forget(self, size: int) -> None:
        """Forget all but the first so many features."""
        if len(self.names) > size:
            self.names = dict([*self.names.items()][:size])
            self._known = {}

    def __getstate__(self) -> bytes:
        """Return the names, compressed; pairs of names and values are known again once they are met."""
        return zlib.compress(msgspec.json.encode([*self.names]), 1)

    def __setstate__(self, state: bytes) -> None:
        self.__init__(msgspec.json.decode(zlib.decompress(state)))  # type: ignore[misc]

    def read(self, position: Any, rows: Rows, adding: bool) -> None:
        """Add a position's features; with ``adding`` new ones are numbered, else they are -1.

        Raises InputError.
        """
        self._add(pairs(position), rows, adding)
        rows.first.append(len(rows.feature))

    def _add(self, features: Iterable[tuple[Any, Any]], rows: Rows, adding: bool) -> None:
        numbers, add = self._known, rows.feature.append
        for name, value in features:
            try:
                add(numbers[name][value])
            except (KeyError, TypeError):
                if isinstance(value, Mapping) and isinstance(name, str):
                    inside = ((f"{name}:{key}", number) for key, number in value.items())
                    self._add(inside, rows, adding)
                else:
                    self._meet(name, value, rows, adding)

    def _meet(self, name: Any, value: Any, rows: Rows, adding: bool) -> None:
        """Add the features of a name and a value that are not known together."""
        for feature, number in flat(name, value):
            check_text(feature)
            n = self.names.get(feature, -1) if number else -1
            if n < 0 and number and adding:
                n = self.names[feature] = len(self.names)
            rows.add(n, number)
            if isinstance(value, str | bool | np.bool_) and (n >= 0 or not number):
                self._known.setdefault(name, {})[value] = n


def pairs(position: Any) -> Iterable[tuple[Any, Any]]:
    """Return the names and values of a position, a mapping or a list of names. Raises InputError."""
    if isinstance(position, dict):
        return position.items()
    if isinstance(position, Mapping):
        return [*position.items()]
    names = listed(position, "it", "a mapping of features or a list of their names")
    return zip(names, repeat(True))


def flat(name: Any, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the features of a name and value, with the number by which each counts. Raises InputError."""
    if not isinstance(name, str):
        raise InputError(f"the name of a feature is {shown(name)}, expected a string")
    match value:
        case str():
            yield f"{name}:{value}", 1.0
        case np.bool_() | Real():
            yield name, finite(name, value)
        case Mapping():
            for key, number in value.items():
                yield from flat(f"{name}:{key}", number)
        case list() | tuple() | AbstractSet() if all(isinstance(item, str) for item in value):
            for item in sorted(value):
                yield f"{name}:{item}", 1.0
        case _:
            kind = type(value).__name__
            expected = "expected a string, a bool, a number, strings or a mapping"
            raise InputError(f"feature {name!r} is {shown(value)} ({kind}), {expected}")


def check_text(feature: str) -> None:
    """Raise InputError for the name of a feature that is not Unicode."""
    try:
        feature.encode()
    except UnicodeEncodeError:
        raise InputError(f"feature {feature!r}: expected Unicode without lone surrogates") from None


def finite(name: Any, value: Any) -> float:
    """Return the number of a feature. Raises InputError where it is not finite, or too large."""
    with suppress(OverflowError):
        if abs(number := float(value)) <= MOST:
            return number
    raise InputError(
        f"feature {name!r} is {shown(value)}, expected a finite number, from {-MOST:g} to {MOST:g}"
    )
