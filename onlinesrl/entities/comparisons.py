"""How alike two values of a column are, in levels.

A level is a number: ``NULL`` where a value is absent, ``EXACT`` where both are equal, then one for each
threshold, and a last one for all that is less alike.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any, TypeAlias

import numpy as np

from onlinesrl.core.absence import is_absent
from onlinesrl.core.arrays import Ints
from onlinesrl.core.errors import UsageError, shown
from onlinesrl.core.io.config_section import require

Row: TypeAlias = Mapping[str, Any]
"""The values of a record, by column."""
Spec: TypeAlias = str | Mapping[str, Sequence[float]]
"""A kind of comparison, or one with its thresholds."""
NULL, EXACT = 0, 1


def _jaro_winkler() -> Callable[[str, str], float]:
    from rapidfuzz.distance import JaroWinkler

    return JaroWinkler.similarity


def _edits() -> Callable[[str, str], float]:
    from rapidfuzz.distance import DamerauLevenshtein

    return lambda a, b: -DamerauLevenshtein.distance(a, b)


def _words() -> Callable[[str, str], float]:
    from rapidfuzz.fuzz import token_sort_ratio

    return lambda a, b: token_sort_ratio(a, b) / 100


def _word_set() -> Callable[[str, str], float]:
    from rapidfuzz.fuzz import token_set_ratio

    return lambda a, b: token_set_ratio(a, b) / 100


def _exact() -> Callable[[str, str], float]:
    return lambda a, b: 0.0


KINDS: dict[str, tuple[Callable[[], Callable[[str, str], float]], tuple[float, ...]]] = {
    "exact": (_exact, ()),
    "jaro_winkler": (_jaro_winkler, (0.92, 0.8, 0.7)),
    "edits": (_edits, (1, 2)),
    "words": (_words, (0.9, 0.7, 0.5)),
    "word_set": (_word_set, (0.9, 0.7, 0.5)),
}
"""What may be compared, and from where on values are at the next level.

``jaro_winkler`` is a similarity of names, ``edits`` the number of letters that were added, lost, exchanged or
swapped, and ``words`` a similarity of texts whose words may stand in another order. ``word_set`` is one of
texts of which one may have further words. The similarities are between 0 and 1.
"""
LONGEST = 100_000
"""The largest threshold of ``edits``."""
SIMILARITIES = "similarities above 0, up to 1, the most alike first, and none twice"
EXPECTED = {
    "exact": "none",
    "jaro_winkler": SIMILARITIES,
    "edits": f"whole numbers of letters from 1 to {LONGEST:,}, the least first, and none twice",
    "words": SIMILARITIES,
    "word_set": SIMILARITIES,
}
"""What thresholds are, by kind."""


@dataclass(frozen=True)
class Comparison:
    """The levels of a column. Raises UsageError for an unknown kind, and for thresholds that do not fit.

    All kinds but ``exact`` need the extra ``entities``: without it UsageError is raised, too.

    ``thresholds`` go from the most alike to the least. Those of ``edits`` are whole numbers of letters, the
    others similarities above 0, up to 1.
    """

    column: str
    kind: str
    thresholds: tuple[float, ...]

    @classmethod
    def of(cls, column: str, spec: Spec) -> Comparison:
        """Return the comparison that a name, or a name with thresholds, stands for."""
        kind, given = spec, None
        if isinstance(spec, Mapping) and len(spec) == 1:
            kind, given = next(iter(spec.items()))
        if not isinstance(kind, str) or kind not in KINDS:
            raise UsageError(
                f"compare.{column} is {shown(spec)}, expected one of {', '.join(KINDS)}, or one of "
                "them with its thresholds, such as {'jaro_winkler': [0.9, 0.8]}"
            )
        try:
            comparison = cls(
                column, kind, KINDS[kind][1] if given is None else (*map(float, given),)
            )
        except (TypeError, ValueError):
            comparison = cls(column, kind, (nan,))
        if not comparison._fits():
            raise UsageError(
                f"compare.{column}: the thresholds are {shown(given)}, expected {EXPECTED[kind]}"
            )
        if kind != "exact":
            require("rapidfuzz", f"compare.{column}: {kind}")
        return comparison

    def _fits(self) -> bool:
        """Tell whether thresholds are in order and in their range, and levels have names of their own."""
        t, edits = self.thresholds, self.kind == "edits"
        inside = all((x % 1 == 0 and 1 <= x <= LONGEST) if edits else 0 < x <= 1 for x in t)
        falling = [*t] == sorted(t, reverse=not edits) and len({*self.levels}) == len(self.levels)
        return inside and falling and not (t and self.kind == "exact")

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels from ``EXACT`` on, as the rules write them."""
        names = [
            f"Within{t:g}" if self.kind == "edits" else f"Over{100 * t:g}".replace(".", "_")
            for t in self.thresholds
        ]
        return "Exact", *names, "Other"

    @cached_property
    def _steps(self) -> tuple[Callable[[str, str], float], list[float]]:
        similarity = KINDS[self.kind][0]()
        return similarity, sorted(-t if self.kind == "edits" else t for t in self.thresholds)

    def level(self, a: str | None, b: str | None) -> int:
        """Return the level of two values."""
        if a is None or b is None:
            return NULL
        if a == b:
            return EXACT
        similarity, steps = self._steps
        alike = similarity(a, b) if steps else 0.0
        return EXACT + 1 + len(steps) - bisect(steps, alike)


def text_of(value: Any) -> str | None:
    """Return a value of a column as text without spaces around it; None where there is none."""
    return None if is_absent(value) else str(value).strip() or None


def agreement(comparisons: Sequence[Comparison], a: Row, b: Row) -> bytes:
    """Return the levels of a pair of rows, a byte a column, in whatever order they are."""
    return bytes([x.level(a[x.column], b[x.column]) for x in comparisons])


def agreements(comparisons: Sequence[Comparison], a: Row, others: Sequence[Row]) -> list[bytes]:
    """Return the ``agreement`` of a row and each other one."""
    columns = list[list[int]]()
    for x in comparisons:
        values = [b[x.column] for b in others]
        level = {b: x.level(a[x.column], b) for b in {*values}}  # many are equal
        columns.append([level[b] for b in values])
    return [*map(bytes, zip(*columns, strict=True))]


def level_table(agreements: Sequence[bytes], columns: int) -> Ints:
    """Return the levels of pairs as an array, ``[pair, column]``."""
    table = np.frombuffer(b"".join(agreements), np.uint8)
    return table.reshape(len(agreements), columns).astype(np.int64)
