"""From the numbers of groundings back to constants."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from onlinesrl.core.arrays import Ints
from onlinesrl.core.example import Constant
from onlinesrl.mln.ground.model_index import Layout


class AtomNames:
    """Turns the number of a grounding back into constants."""

    def __init__(self, layout: Layout, name: str):
        self.name = name
        order = layout.radix_order(name)
        self.kinds = [layout.type_number[layout.arguments(name)[j]] for j in order]
        self.place = [order.index(j) for j in range(len(order))]
        self.sorted = order == sorted(order)

    def constants(
        self, keys: Sequence[int], names: Sequence[Sequence[Constant]]
    ) -> list[list[Constant]]:
        """Return the argument lists of groundings; ``names`` are those of ``kinds`` in their world."""
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
        """Return for each argument the places in its domain of the constants of groundings."""
        columns: list[Ints] = []
        for domain in reversed(names):
            columns.append(keys % max(len(domain), 1))
            keys //= max(len(domain), 1)
        columns.reverse()
        return [columns[place] for place in self.place]


class Named(NamedTuple):
    """The atoms of a predicate in a world, whose first is its atom ``first``; the numbers of groundings."""

    names: AtomNames
    first: int
    keys: Ints
    domains: Sequence[Sequence[Constant]]

    def rows(self) -> list[list[Constant]]:
        """Return the arguments of all atoms."""
        return self.names.constants(self.keys.tolist(), self.domains)


class WorldAtoms(Sequence[tuple[str, list[Constant]]]):
    """The open atoms of a world, (predicate, arguments), spelled out only when asked for."""

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
            return [self[each] for each in range(*n.indices(len(self)))]
        if not 0 <= n < len(self):
            raise IndexError(n)
        part = self._parts[bisect_right(self._first, n) - 1]
        key = int(part.keys[n - part.first])
        return part.names.name, part.names.constants([key], part.domains)[0]

    def numbers(self, predicates: Collection[str]) -> Ints:
        """Return the numbers of some predicates' atoms."""
        ranges = [
            np.arange(p.first, p.first + len(p.keys))
            for p in self._parts
            if p.names.name in predicates
        ]
        return np.concatenate([np.zeros(0, np.int64), *ranges])

    def ordered(self, numbers: Ints) -> Iterator[tuple[str, Ints, list[list[Constant]]]]:
        """Yield predicates by name: the numbers of their atoms among these, and the columns of arguments.

        In the order of the arguments, numbers before text.
        """
        for part in sorted(self._parts, key=lambda each: each.names.name):
            last = part.first + len(part.keys)
            own = numbers[(numbers >= part.first) & (numbers < last)]
            domains = [part.domains[k] for k in part.names.place]
            columns = part.names.columns(part.keys[own - part.first], part.domains)
            ranks = [
                _ranks(domain)[column] for domain, column in zip(domains, columns, strict=True)
            ]
            order = np.lexsort(ranks[::-1]) if ranks else np.arange(len(own))
            yield (
                part.names.name,
                own[order],
                [[d[i] for i in c[order].tolist()] for d, c in zip(domains, columns, strict=True)],
            )


def _ranks(domain: Sequence[Constant]) -> Ints:
    """Return the place of each constant in their order."""
    order = sorted(range(len(domain)), key=lambda i: _natural(domain[i]))
    ranks = np.zeros(len(domain), np.int64)
    ranks[order] = np.arange(len(domain))
    return ranks


def _natural(constant: Constant) -> tuple[int, int, str]:
    return (0, constant, "") if isinstance(constant, int) else (1, 0, constant)
