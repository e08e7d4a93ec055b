"""The arguments of ground atoms, decoded from the numbers of groundings."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from onlinesrl.core.arrays import Ints
from onlinesrl.core.example import Constant
from onlinesrl.mln.ground.model_index import Layout


class AtomNames:
    """The decoder of a predicate's grounding numbers to constants."""

    def __init__(self, layout: Layout, name: str):
        self.name = name
        order = layout.radix_order(name)
        self.kinds = [layout.type_number[layout.arguments(name)[j]] for j in order]
        self.place = [order.index(j) for j in range(len(order))]
        self.sorted = order == sorted(order)

    def constants(
        self, keys: Sequence[int], names: Sequence[Sequence[Constant]]
    ) -> list[list[Constant]]:
        """Return the arguments of groundings; ``names`` has the world's constants of each of ``kinds``."""
        if len(names) == 2 and self.sorted:
            first, last = names
            n = len(last)
            return [[first[key // n], last[key % n]] for key in keys]
        rows: list[list[Constant]] = []
        for key in keys:
            row, rest = list[Constant](), key
            for column in reversed(names):
                row.append(column[rest % len(column)])
                rest //= len(column)
            row.reverse()
            rows.append([row[place] for place in self.place])
        return rows

    def columns(self, keys: Ints, names: Sequence[Sequence[Constant]]) -> list[Ints]:
        """Return, for each argument, the index of each grounding's constant in the argument's domain."""
        columns: list[Ints] = []
        for domain in reversed(names):
            columns.append(keys % max(len(domain), 1))
            keys //= max(len(domain), 1)
        columns.reverse()
        return [columns[place] for place in self.place]


class Named(NamedTuple):
    """The atoms of a predicate in a world.

    ``first`` is the number of the first atom in the world; ``keys`` are the grounding numbers.
    """

    names: AtomNames
    first: int
    keys: Ints
    domains: Sequence[Sequence[Constant]]

    def rows(self) -> list[list[Constant]]:
        """Return the arguments of all atoms."""
        return self.names.constants(self.keys.tolist(), self.domains)


class WorldAtoms(Sequence[tuple[str, list[Constant]]]):
    """The open atoms of a world as (predicate, arguments), decoded on access."""

    def __init__(self, parts: Sequence[Named]) -> None:
        self._parts = parts
        self._first = [part.first for part in parts]

    def __len__(self) -> int:
        return sum(len(part.keys) for part in self._parts)

    def __iter__(self) -> Iterator[tuple[str, list[Constant]]]:
        for part in self._parts:
            for key in part.keys.tolist():
                yield part.names.name, part.names.constants([key], part.domains)[0]

    @overload
    def __getitem__(self, n: int) -> tuple[str, list[Constant]]: ...
    @overload
    def __getitem__(self, n: slice) -> Sequence[tuple[str, list[Constant]]]: ...
    def __getitem__(self, n: Any) -> Any:
        if isinstance(n, slice):
            return [self[i] for i in range(*n.indices(len(self)))]
        if not 0 <= n < len(self):
            raise IndexError(n)
        part = self._parts[bisect_right(self._first, n) - 1]
        key = int(part.keys[n - part.first])
        return part.names.name, part.names.constants([key], part.domains)[0]

    def numbers(self, predicates: Collection[str]) -> Ints:
        """Return the numbers of all atoms of ``predicates``."""
        ranges = [
            np.arange(p.first, p.first + len(p.keys))
            for p in self._parts
            if p.names.name in predicates
        ]
        return np.concatenate([np.zeros(0, np.int64), *ranges])

    def ordered(self, numbers: Ints) -> Iterator[tuple[str, Ints, list[list[Constant]]]]:
        """Yield each predicate in alphabetical order, the numbers of its atoms, and columns of arguments.

        Only the atoms in ``numbers`` are included. They are sorted by arguments, integers before text.
        """
        for part in sorted(self._parts, key=lambda named: named.names.name):
            last = part.first + len(part.keys)
            selected = numbers[(numbers >= part.first) & (numbers < last)]
            domains = [part.domains[k] for k in part.names.place]
            columns = part.names.columns(part.keys[selected - part.first], part.domains)
            ranks = [
                _ranks(domain)[column] for domain, column in zip(domains, columns, strict=True)
            ]
            order = np.lexsort(ranks[::-1]) if ranks else np.arange(len(selected))
            yield (
                part.names.name,
                selected[order],
                [[d[i] for i in c[order].tolist()] for d, c in zip(domains, columns, strict=True)],
            )


def _ranks(domain: Sequence[Constant]) -> Ints:
    """Return the rank of each constant, integers before text."""
    order = sorted(range(len(domain)), key=lambda i: (isinstance(domain[i], str), domain[i]))
    ranks = np.zeros(len(domain), np.int64)
    ranks[order] = np.arange(len(domain))
    return ranks
