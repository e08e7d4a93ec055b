"""Which records are compared at all: those with an equal key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from onlinesrl.core.errors import DataError, UsageError, shown
from onlinesrl.entities.comparisons import Row

Key: TypeAlias = str | Sequence[str]
"""A column, or several that must all be equal."""
_COLUMN = re.compile(r"(.+?)(?:\[:([1-9]\d*)\])?", re.DOTALL)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


class Blocks:
    """The numbers of records by key; two records with an equal key are candidates.

    A key is a column, or several that must all be equal; ``surname[:3]`` is the first three letters of a
    column. A record without one of its columns has no such key. No block may have more than ``largest``
    records. Raises UsageError for a key that is no such text.
    """

    def __init__(self, keys: Sequence[Key], largest: int) -> None:
        self.largest = largest
        lists = [] if not _is_list(keys) else [[x] if isinstance(x, str) else x for x in keys]
        if not lists or not all(_is_list(key) and all(map(_is_text, key)) for key in lists):
            raise UsageError(
                f"block is {shown(keys)}, expected a list of keys: names of columns, or lists of such names"
            )
        self.keys = [[*key] for key in lists]
        self._parts = [[self._part(text) for text in key] for key in self.keys]
        self._records: dict[tuple[Any, ...], set[int]] = {}

    @staticmethod
    def _part(text: str) -> tuple[str, int | None]:
        match = _COLUMN.fullmatch(text)
        assert match is not None  # any text but the empty one
        return match[1], None if match[2] is None else int(match[2])

    @property
    def columns(self) -> set[str]:
        """The columns that keys are made of."""
        return {column for parts in self._parts for column, _ in parts}

    def keys_of(self, row: Row) -> Iterator[tuple[Any, ...]]:
        """Yield the keys of a row."""
        for number, parts in enumerate(self._parts):
            values = [(row.get(column) or "")[:length] for column, length in parts]
            if all(values):
                yield number, *values

    def add(self, number: int, row: Row) -> set[int]:
        """Add a record; return the others that have a key of it.

        Raises DataError for a block that is full; ``remove`` then takes back what was done.
        """
        candidates = set[int]()
        for key in self.keys_of(row):
            block = self._records.setdefault(key, set())
            if len(block) >= self.largest:
                raise DataError(
                    f"the block {self._named(key)} has {len(block):,} records, and none has more than "
                    f"{self.largest:,}: choose a key that fewer records share"
                )
            candidates |= block
            block.add(number)
        return candidates

    def remove(self, number: int, row: Row) -> set[int]:
        """Remove a record, if it is there; return the others that have a key of the row."""
        others = set[int]()
        for key in self.keys_of(row):
            block = self._records.get(key, set())
            block.discard(number)
            others |= block
            if not block:
                self._records.pop(key, None)
        return others

    def _named(self, key: tuple[Any, ...]) -> str:
        names, values = self.keys[key[0]], key[1:]
        return " ".join(
            f"{name} = {shown(value)}" for name, value in zip(names, values, strict=True)
        )
