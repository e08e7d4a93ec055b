"""Why records are of one entity: the links between them, and without which records they would split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb, inf
from typing import Any, Protocol

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.example import show_ground_atom
from onlinesrl.core.explain.explanation import SHOWN, Explanation, Flip, Other, Reason
from onlinesrl.entities.partition import Partition, best_partition, contradiction

TRANSITIVE = "Same(x, y) ^ Same(y, z) => Same(x, z)."
"""The rule that holds entities together, as it is told."""
TRIES = 1_000
"""So many trials are made at most."""
MOST_PAIRS = 50_000
"""So many pairs of records are solved again at most, in all trials together, which takes some seconds."""


@dataclass(frozen=True)
class Level:
    """The level of agreement of two records in a column, and its weight."""

    column: str
    level: str
    weight: float


@dataclass(frozen=True)
class Link:
    """Two records of one entity: the weight of any pair, and the levels of the columns that both have.

    ``label`` 1.0: somebody says that they are of one entity; None: nobody says anything.
    """

    a: str
    b: str
    pair: float
    levels: tuple[Level, ...]
    label: float | None

    @property
    def log_odds(self) -> float:
        """The log-odds that the two are of one entity, by themselves."""
        return self.pair + sum(level.weight for level in self.levels)

    def __str__(self) -> str:
        levels = "".join(f", {x.column} {x.level} {x.weight:+.3f}" for x in self.levels)
        label = "a label; " if self.label is not None else ""
        return f"{self.a} - {self.b}: {label}{self.log_odds:+.3f} = {self.pair:+.3f}{levels}"


@dataclass(frozen=True)
class Split:
    """A record, and the entities of which the other records would be without it."""

    without: str
    entities: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return f"without {self.without}: {' | '.join(map(', '.join, self.entities))}"


@dataclass(frozen=True)
class EntityExplanation(Explanation):
    """Why some records are one entity.

    ``links`` are the strongest that hold all ``records`` together, the oldest record first. ``splits`` has
    each record without which the others would be of several entities: it is solved again without it.
    ``untried`` counts records for which that would take too long.
    """

    records: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    splits: tuple[Split, ...] = ()
    untried: int = 0

    @property
    def title(self) -> str:
        """The entity and its records."""
        count = len(self.records)
        return f"{self.atom}: {count} record{'s' * (count != 1)}: {', '.join(self.records)}"

    def _rest(self, most: int = SHOWN) -> Iterator[str]:
        """Yield the lines after the title."""
        for part in (self.links, self.splits):
            yield from map(str, part[:most])
            if len(part) > most:
                yield f"... {len(part) - most:,} more"
        if self.untried:
            yield f"whether one of {self.untried:,} other records splits it was not tried"
        elif len(self.records) > 2:
            yield f"no {'other ' if self.splits else ''}record alone splits it"
        if not self.certified:
            yield "not all of these answers are proven to be the best: a search ended early"


def pair_explanation(
    records: Sequence[str],
    weight: Floats,
    best: Partition,
    i: int,
    j: int,
    rules: Mapping[str, float],
    max_work: int,
) -> Explanation:
    """Return why two of the records that hang together are of one entity, or of two.

    ``weight`` and ``best`` are as in ``best_partition``; ``rules`` about the pair, with their weights, sum to
    its own. Raises Unsolved.
    """

    def atom(k: int, j: int) -> str:
        return show_ground_atom("Same", sorted((records[k], records[j])))

    now, otherwise = best.together, weight.copy()
    same = bool(now[i, j])
    sign = 1.0 if same else -1.0
    otherwise[i, j] = otherwise[j, i] = -sign * inf
    other = None
    if contradiction(otherwise) is None:
        alternative = best_partition(otherwise, max_work)
        then = alternative.together
        score = alternative.score if same else alternative.score + float(weight[i, j])
        moved = [x for x in np.argwhere(np.triu(now != then, 1)).tolist() if {*x} != {i, j}]
        changes = sorted((atom(*x), bool(then[*x])) for x in moved)
        other = Other(best.score - score, alternative.certified, (*changes,))
    reasons = (Reason(text, x, sign * x, holds=same) for text, x in rules.items() if x)
    return Explanation(
        "",
        atom(i, j),
        float(same),
        best.certified,
        reasons=(*sorted(reasons, key=lambda reason: -abs(reason.effect)),),
        forbidden=(TRANSITIVE,) if other is None else (),
        other=other,
    )


class RecordFlip(Flip):
    """The fewest records without which two records would be of one entity, or would not."""

    noun = "record"


class Resolver(Protocol):
    """What is needed of an ``EntityResolver``."""

    places: dict[str, int]

    @property
    def records(self) -> dict[str, Mapping[str, Any]]:
        """The values of records."""
        ...

    @property
    def labels(self) -> dict[tuple[str, str], float]:
        """The labels of pairs."""
        ...

    def entity(self, name: str) -> str:
        """Return the entity of a record."""
        ...

    def change(
        self,
        records: Mapping[str, Mapping[str, Any] | None],
        labels: Mapping[tuple[str, str], float | None],
        places: Mapping[str, int] = {},
    ) -> Any:
        """Add and remove records, and label pairs."""
        ...


class Withdrawals:
    """The entities of some records if others were withdrawn; each time they are solved again.

    ``part`` has the records that hang together, and no others; it is changed. They are solved at most
    ``tries`` times, fewer where that would take long.
    """

    def __init__(self, part: Resolver, tries: int = TRIES) -> None:
        self._part = part
        self._records, self._labels, self._places = part.records, part.labels, {**part.places}
        self.tried, self.certified = 0, True
        self._most = min(tries, MOST_PAIRS // max(comb(len(self._records), 2), 1))

    @property
    def over(self) -> bool:
        """Whether no more may be tried."""
        return self.tried >= self._most

    def without(self, *names: str) -> Resolver:
        """Return the records without these, until the next trial."""
        there, present = {*self._part.places}, self._records.keys() - {*names}
        changes = {
            name: self._records[name] if name in present else None
            for name in self._records
            if (name in present) != (name in there)
        }
        labels = {
            pair: x
            for pair, x in self._labels.items()
            if present >= {*pair} and not there >= {*pair}
        }
        self.certified &= self._part.change(changes, labels, self._places).certified
        self.tried += 1
        return self._part

    def flip(self, a: str, b: str) -> RecordFlip | None:
        """Return the fewest other records without which two are of one entity, or are not any more.

        None: there are no others.
        """
        others = [name for name in self._records if name not in (a, b)]
        now = self._part.entity(a) == self._part.entity(b)
        found = partial(RecordFlip, len(others))
        for size in range(1, len(others) + 1):
            for names in combinations(others, size):
                if self.over or not self.certified:
                    return found((), None, size - 1, self.tried, complete=False)
                part = self.without(*names)
                if (part.entity(a) == part.entity(b)) != now:
                    change = tuple((name, False) for name in names)
                    becomes = "false" if now else "true"
                    return found(change, becomes, size - 1, self.tried, self.certified)
        return found((), None, len(others), self.tried, complete=True) if others else None

    def splits(self, records: Sequence[str]) -> tuple[tuple[Split, ...], int]:
        """Return each record without which the other records of an entity split, and how many are untried."""
        splits, names = list[Split](), dict.fromkeys([*records, *self._records])
        for n, name in enumerate(names):
            if self.over:
                return (*splits,), len(names) - n
            part, parts = self.without(name), dict[str, list[str]]()
            for record in records:
                if record != name:
                    parts.setdefault(part.entity(record), []).append(record)
            if len(parts) > 1:
                splits.append(Split(name, tuple(map(tuple, parts.values()))))
        return (*splits,), 0
