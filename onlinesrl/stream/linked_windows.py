"""Numbers over the rows in a window that moves on with time.

Rows come and go in any order; those before the window leave it as time goes on, and time never goes back. A
row may also have a time that has not come.
Sums are whole numbers of the smallest float, and so exact: a number depends on the rows in its window alone,
and not on those that have left it. It is what its definition makes of these rows, to the bit. A row costs a
few steps, of which finding its place takes the logarithm of the window's size.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

Entry: TypeAlias = tuple[float, int, Any]
"""A row in a window: its time, its number, and its value."""
FLOAT_BITS, FRACTION_BITS = 1074, 52
"""Each finite float is a whole multiple of ``2**-FLOAT_BITS``, one from 1 to 2 of ``2**-FRACTION_BITS``."""
UNIT = 1 << FLOAT_BITS
HALVES = 100
"""After so many halves a row counts nothing in a rate: less than 1e-30."""


class Window:
    """The rows from ``now - within`` on, this time too, and how many they are."""

    __slots__ = ("begin", "entries", "first", "half", "within")

    def __init__(self, within: float, half: float) -> None:
        self.within, self.half = within, half
        self.entries: list[Entry] = []
        """By time and number; those before the position ``first`` have left."""
        self.first, self.begin = 0, -math.inf

    def __len__(self) -> int:
        return len(self.entries) - self.first

    def add(self, entry: Entry, now: float) -> None:
        """Put a row in its place, unless it is before the window at a time."""
        self.move(now)
        if entry[0] >= self.begin:
            insort(self.entries, entry, self.first)
            self.enter(entry)

    def remove(self, entry: Entry, now: float) -> None:
        """Take a row away, if it has not left."""
        if entry[0] >= self.begin:
            del self.entries[bisect_left(self.entries, entry, self.first)]
            self.leave(entry)

    def at(self, time: float, now: float) -> float | None:
        """Return the number at a time, which has come or has not; None without rows. Raises OverflowError."""
        if now - self.within > self.begin:
            self.move(now)
        if time > now:
            return self._ahead(time)
        return self.number(time) if self.first < len(self.entries) else None

    def move(self, now: float) -> None:
        """Let rows leave for good that are too old now."""
        self.begin = begin = max(self.begin, now - self.within)
        entries, first = self.entries, self.first
        while first < len(entries) and entries[first][0] < begin:
            self.leave(entries[first])
            first += 1
        if 2 * first > len(entries):
            del entries[:first]
            first = 0
        self.first = first

    def _ahead(self, time: float) -> float | None:
        """Return the number at a time that has not come; rows that will have left come back."""
        first = self.first
        self.first = bisect_left(self.entries, (time - self.within,), first)
        gone = self.entries[first : self.first]
        for entry in gone:
            self.leave(entry)
        try:
            return self.number(time) if self.first < len(self.entries) else None
        finally:
            self.first = first
            for entry in gone:
                self.enter(entry)

    def enter(self, entry: Entry) -> None:
        """Count a row in."""

    def leave(self, entry: Entry) -> None:
        """Count a row out."""

    def number(self, time: float) -> float:
        """Return the number of rows that are not none. Raises OverflowError."""
        return len(self.entries) - self.first


class Since(Window):
    """The seconds since the last row."""

    __slots__ = ()

    def number(self, time: float) -> float:
        """See ``Window.number``."""
        return max(0.0, time - self.entries[-1][0])


class Last(Window):
    """The value of the last row."""

    __slots__ = ()

    def number(self, time: float) -> float:
        """See ``Window.number``."""
        value: float = self.entries[-1][2]
        return value


class Sum(Window):
    """The sum of values, rounded once."""

    __slots__ = ("sum",)

    def __init__(self, within: float, half: float) -> None:
        super().__init__(within, half)
        self.sum = 0

    def enter(self, entry: Entry) -> None:
        """See ``Window.enter``."""
        self.sum += _units(entry[2])

    def leave(self, entry: Entry) -> None:
        """See ``Window.leave``."""
        self.sum -= _units(entry[2])

    def number(self, time: float) -> float:
        """See ``Window.number``."""
        return self.sum / UNIT


class Mean(Sum):
    """The mean of values, rounded once."""

    __slots__ = ()

    def number(self, time: float) -> float:
        """See ``Window.number``."""
        return self.sum / (len(self) * UNIT)


class Deviation(Sum):
    """The standard deviation of values as the population: the root of the variance, which is rounded once."""

    __slots__ = ("squares",)

    def __init__(self, within: float, half: float) -> None:
        super().__init__(within, half)
        self.squares = 0

    def enter(self, entry: Entry) -> None:
        """See ``Window.enter``."""
        units = _units(entry[2])
        self.sum += units
        self.squares += units * units

    def leave(self, entry: Entry) -> None:
        """See ``Window.leave``."""
        units = _units(entry[2])
        self.sum -= units
        self.squares -= units * units

    def number(self, time: float) -> float:
        """See ``Window.number``."""
        n = len(self)
        return math.sqrt((n * self.squares - self.sum**2) / (n * UNIT) ** 2)


class Least(Window):
    """The least value, at the top of a heap; rows that have left stay in it until they come to the top."""

    __slots__ = ("gone", "heap")
    sign = 1.0

    def __init__(self, within: float, half: float) -> None:
        super().__init__(within, half)
        self.heap: list[tuple[float, int]] = []
        self.gone = set[int]()
        """The numbers of the rows in the heap that have left."""

    def enter(self, entry: Entry) -> None:
        """See ``Window.enter``; a row that comes back has the same value."""
        if entry[1] in self.gone:
            self.gone.remove(entry[1])
        else:
            heappush(self.heap, (self.sign * entry[2], entry[1]))

    def leave(self, entry: Entry) -> None:
        """See ``Window.leave``."""
        self.gone.add(entry[1])

    def number(self, time: float) -> float:
        """See ``Window.number``."""
        heap, gone = self.heap, self.gone
        if len(heap) > 2 * len(self):
            heap[:] = [(self.sign * value, n) for _, n, value in self.entries[self.first :]]
            heapify(heap)
            gone.clear()
        while heap[0][1] in gone:
            gone.remove(heappop(heap)[1])
        return self.sign * heap[0][0]


class Most(Least):
    """The greatest value."""

    __slots__ = ()
    sign = -1.0


class Distinct(Window):
    """How many values differ."""

    __slots__ = ("counts",)

    def __init__(self, within: float, half: float) -> None:
        super().__init__(within, half)
        self.counts: dict[str, int] = {}

    def enter(self, entry: Entry) -> None:
        """See ``Window.enter``."""
        self.counts[entry[2]] = self.counts.get(entry[2], 0) + 1

    def leave(self, entry: Entry) -> None:
        """See ``Window.leave``."""
        self.counts[entry[2]] -= 1
        if not self.counts[entry[2]]:
            del self.counts[entry[2]]

    def number(self, time: float) -> float:
        """See ``Window.number``."""
        return len(self.counts)


class Rate(Window):
    """The sum of ``2**(-age / half)`` over rows; the age of one whose time has not come is 0.

    A time is ``half * (whole + part)`` with a whole number and a part below 1. The exact sum of
    ``2**(whole + part)``, whose first factor only shifts bits, has ``2**(base - FRACTION_BITS)`` as its unit.
    """

    __slots__ = ("base", "sum")

    def __init__(self, within: float, half: float) -> None:
        super().__init__(min(within, HALVES * half), half)
        self.sum = self.base = 0

    def enter(self, entry: Entry) -> None:
        """See ``Window.enter``."""
        whole, units = self._weight(entry[0])
        if not self.sum:
            self.base = whole
        self._rebase(min(whole, self.base))
        self.sum += units << whole - self.base

    def leave(self, entry: Entry) -> None:
        """See ``Window.leave``."""
        whole, units = self._weight(entry[0])
        self.sum -= units << whole - self.base

    def number(self, time: float) -> float:
        """See ``Window.number``."""
        latest, units = self._weight(time)
        self._rebase(min(latest, self._weight(self.entries[self.first][0])[0]))
        total = self.sum
        for early, _, _ in self.entries[bisect_left(self.entries, (time, math.inf), self.first) :]:
            whole, more = self._weight(early)
            total += (units << latest - self.base) - (more << whole - self.base)
        factor: float = 2.0 ** (-(time % self.half) / self.half)
        return math.ldexp(float(total), self.base - latest - FRACTION_BITS) * factor

    def _weight(self, time: float) -> tuple[int, int]:
        """Return the whole number of a time, and the second factor in units."""
        whole, part = divmod(time, self.half)
        return int(whole), int(math.ldexp(2.0 ** (part / self.half), FRACTION_BITS))

    def _rebase(self, base: int) -> None:
        """Let the sum have another unit, of which all its terms are whole multiples."""
        shift = self.base - base
        self.sum = self.sum << shift if shift > 0 else self.sum >> -shift
        self.base = base


def _units(value: float) -> int:
    """Return a value as a multiple of the smallest float."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << FLOAT_BITS + 1 - denominator.bit_length()


WINDOWS: dict[str, type[Window]] = {
    "count": Window,
    "sum": Sum,
    "mean": Mean,
    "std": Deviation,
    "min": Least,
    "max": Most,
    "distinct": Distinct,
    "last": Last,
    "since": Since,
    "rate": Rate,
}
"""By measure, the window that computes it."""
