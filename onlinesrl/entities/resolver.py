"""Which records are of one entity: exact, kept up, and without a trace of what was taken back.

Records with an equal key are compared. A pair speaks for one entity where the weights of its levels sum to
more than 0. Records that neither share a key nor hang together by such pairs are of two entities by
assumption; so in the best joint answer such pairs hold an entity together. The most probable world of the
``rules`` is then the best partition of each component of such pairs (``partition``).
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, combinations, pairwise
from math import comb, exp, fsum, inf, isinf
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import DataError, Infeasible, NotFittedError, UsageError, shown
from onlinesrl.core.example import show_ground_atom
from onlinesrl.core.explain.conflict import impossible
from onlinesrl.core.explain.explanation import Explanation, ExplanationError
from onlinesrl.core.io import checkpoint_file
from onlinesrl.core.io.restoring import converted, restoring
from onlinesrl.core.version import __version__
from onlinesrl.entities.blocking import Blocks, Key
from onlinesrl.entities.comparisons import (
    EXACT,
    NULL,
    Comparison,
    Row,
    Spec,
    agreement,
    agreements,
    level_table,
    text_of,
)
from onlinesrl.entities.explanation import (
    TRANSITIVE,
    TRIES,
    EntityExplanation,
    Level,
    Link,
    Withdrawals,
    pair_explanation,
)
from onlinesrl.entities.fellegi_sunter import UNKNOWN, LevelWeights, estimate, level_counts
from onlinesrl.entities.partition import Partition, best_partition, contradiction, probability
from onlinesrl.logic.atom_index import GroundAtom
from onlinesrl.logic.ground_world import StateCertificate

Pair: TypeAlias = tuple[int, int]
"""The numbers of two records, the older one first."""
Facts: TypeAlias = Mapping[GroundAtom, float]
"""What the rules know of a pair."""
LARGEST = 1_000
"""The most records of a block: half a million pairs."""
WIDEST = 250
"""The most records that hang together: 31,125 pairs are decided together, which takes some seconds."""
MOST_WORK = 100_000
"""The work after which each search for the best answer of a component ends, see ``MlnEngine.max_work``."""
UNSEEN = 255
"""The level of a pair that was not compared."""
MOST_OTHERS = 100_000
"""So many pairs that are no candidates say how often records of two entities agree."""
EQUIVALENCE = f"""
{TRANSITIVE}
Pair(y, z) ^ Same(x, y) ^ Same(x, z) => Same(y, z).
Pair(x, y) ^ Same(x, z) ^ Same(y, z) => Same(x, y).
"""
"""The record whose name is less stands first in an atom, and ``Pair`` says which one of two that is."""
_FIGURES = ("_weights", "_score", "_arrivals", "number", "keyless", "touched")
"""What a step gives a new value, and changes nothing within."""


@dataclass(frozen=True)
class EntityChange:
    """What a step changed.

    ``moved`` has the entity before and after of each record for which they differ; None: the record is new,
    or gone. An entity is named after its oldest record. ``certified``: no joint answer is better.
    """

    moved: dict[str, tuple[str | None, str | None]]
    certified: bool


class Membership(NamedTuple):
    """How sure the entity of a record is.

    ``probability`` is that of this entity, given the entities of all other records, and that nothing joins
    it to others than its component. ``nearest`` is the record whose pair with it speaks most for this, None
    where nothing joins them; ``levels`` has the level of each column in which both have a value.
    """

    entity: str
    probability: float
    nearest: str | None
    levels: Mapping[str, str]


class _Part(NamedTuple):
    """Records that hang together, the oldest first, and their ``best`` partition.

    ``levels`` are those of their pairs, uint8[n, n, columns], ``weight`` is as in ``best_partition``.
    """

    records: list[int]
    levels: NDArray[np.uint8]
    weight: Floats
    best: Partition


class _Step(NamedTuple):
    """What was before a step: rows, labels, figures, and the values of ``tables`` that it changes."""

    rows: Mapping[int, Row | None]
    labels: Mapping[Pair, float | None]
    figures: Mapping[str, object]
    tables: list[tuple[dict[Any, Any], Mapping[Any, Any]]]

    def set(self, table: dict[Any, Any], values: Mapping[Any, Any]) -> None:
        """Give keys of a table values; None takes one away."""
        if values:
            self.tables.append((table, {key: table.get(key) for key in values}))
            _set(table, values)


class _Saved(TypedDict):
    """The header of the file of a resolver."""

    version: str
    block: list[list[str]]
    compare: list[tuple[str, str, list[float]]]
    one_to_one: str | None
    largest: int
    pair: float
    records: list[tuple[str, Row]]
    labels: list[tuple[str, str, float]]


class EntityResolver:
    """Says which records are of one entity, as records come, change and go.

    ``block`` lists keys: a column (``"phone"``, ``"surname[:3]"``), or several that must all be equal. Only
    records with an equal key are candidates. ``compare`` says how each column is compared, see
    ``comparisons.KINDS``. Records with an equal value of ``one_to_one`` are of one entity only where a label
    says so. A key that more than ``largest`` records share is refused.

    ``fit`` estimates the weights, without labels or with some. ``learn`` estimates
    them again, from what was added and labelled since. ``add``, ``remove``, ``label`` and ``learn`` are one
    step each, all or nothing. The answer after any history is that of a new resolver with the same weights
    and the same records in the same order, and has the proof of any exact answer. Raises UsageError.

    >>> names = ["Anna Berg", "Ana Berg", "Bruno Carl", "Bruno Karl", "Carla Diaz", "Dora Egli"]
    >>> rows = {f"r{n}": {"name": name, "letter": name[0]} for n, name in enumerate(names)}
    >>> resolver = EntityResolver(["letter"], {"name": "jaro_winkler"})
    >>> _ = resolver.fit(rows, same=[("r0", "r1")]).add(rows)
    >>> resolver.entities()
    {'r0': ['r0', 'r1'], 'r2': ['r2', 'r3'], 'r4': ['r4'], 'r5': ['r5']}
    """

    def __init__(
        self,
        block: Sequence[Key],
        compare: Mapping[str, Spec],
        *,
        one_to_one: str | None = None,
        largest: int = LARGEST,
    ) -> None:
        self._blocks = Blocks(block, largest)
        self.one_to_one = one_to_one
        """The column of which an entity has no value twice."""
        self._compare = {**compare}
        self._comparisons = [Comparison.of(column, spec) for column, spec in compare.items()]
        if not self._comparisons:
            raise UsageError("compare has no column, expected at least one")
        self._sizes = [1 + len(comparison.levels) for comparison in self._comparisons]
        self._predicates = [_predicate(comparison.column) for comparison in self._comparisons]
        if len({*self._predicates, "Same", "Pair"}) < len(self._predicates) + 2:
            names = ", ".join(self._predicates)
            raise UsageError(f"compare: the predicates {names}, Same and Pair are not distinct")
        self.columns = sorted({*compare, *self._blocks.columns, *filter(None, [one_to_one])})
        """The columns that records must have."""
        self.places = dict[str, int]()
        """A number for each record: the older one has the lower."""
        self._name = dict[int, str]()
        self._arrivals = 0
        self._row = dict[int, Row]()
        self._label = dict[int, dict[int, float]]()
        self._weights: LevelWeights
        self._others: Floats  # the shares of levels of pairs that are no candidates
        self._agreements = dict[Pair, bytes]()  # the levels of candidates
        self._joined = dict[int, set[int]]()  # by pairs that speak for one entity
        self._parts = dict[int, _Part]()  # components of several, by their oldest records
        self._unproven = dict[int, Partition]()
        self._score = Fraction(0)  # of all components, exact after any history
        self._entity = dict[int, int]()  # the oldest record of a record's entity
        self.number = self.keyless = 0
        """How many entities there are, and how many records that have no key."""
        self.touched = 0
        """How many pairs of records the last step decided."""

    # weights -----------------------------------------------------------------------------------------

    def fit(
        self,
        records: Mapping[str, Row],
        same: Iterable[tuple[str, str]] = (),
        different: Iterable[tuple[str, str]] = (),
        seed: int = 0,
    ) -> EntityResolver:
        """Estimate the weights from records, before any is added, and return this resolver.

        ``same`` and ``different`` label pairs of these records by their ids; without labels the weights come
        from the records alone (``fellegi_sunter.estimate``). Raises DataError, also for a pair in both, and
        UsageError where records were added.
        """
        if self._row:
            raise UsageError(
                "fit comes before add: the records that are there were judged by other weights"
            )
        rows = dict(enumerate(self._read(name, row) for name, row in _by_id(records).items()))
        place = {name: n for n, name in enumerate(records)}
        label = {_pair_of(*pair, place): x for pair, x in _labels(same, different).items()}
        blocks = Blocks(self._blocks.keys, self._blocks.largest)
        compared = {(m, n): self._agreement(rows[m], rows[n]) for m, n in label}
        for n, row in rows.items():
            compared |= self._compared(n, blocks.add(n, row), rows)
        others = [
            (pair, self._agreement(*map(rows.__getitem__, pair)))
            for pair in _sample(len(rows), compared, seed)
        ]
        within = self._within(compared, label, self._shares([x for _, x in others]), rows)
        shares = self._shares([levels for pair, levels in others if pair not in within])
        within = self._within(compared, label, shares, rows)  # as ``learn`` finds them
        self._begin(self._estimated(within, label, shares, len(rows)), shares)
        return self

    def learn(self) -> EntityChange:
        """Estimate the weights again, from the records and labels that are there, in one step.

        How often records that are no candidates agree is as ``fit`` saw it, all else is counted anew. So
        these are the weights after any history with these records and labels. Takes the time of all
        candidates. Raises NotFittedError, Unsolved, and DataError where more than ``WIDEST`` hang together.
        """
        self._check_fitted()
        label = {(m, n): x for m, of_m in self._label.items() for n, x in of_m.items() if m < n}
        compared = {pair: self._levels(pair) for pair in label}
        within = self._within(compared | self._agreements, label, self._others, self._row)
        return self._take(self._estimated(within, label, self._others, len(self._row)))

    def _take(self, weights: LevelWeights) -> EntityChange:
        """Judge all records by other weights, in one step."""
        flips = dict.fromkeys(
            (m, n)
            for m, n in self._agreements
            if self._joins(m, n, weights) != (n in self._joined[m])
        )
        return self._apply({}, flips, self._row, weights=weights)

    def _shares(self, agreements: Sequence[bytes]) -> Floats:
        """Return the share of each level of each column in some pairs, ``[column, level]``."""
        table = level_table(agreements, len(self._comparisons))
        return level_counts(table, np.full(len(table), 1 / max(len(table), 1)), self._sizes)

    def _within(
        self,
        compared: Mapping[Pair, bytes],
        label: Mapping[Pair, float],
        others: Floats,
        rows: Mapping[int, Row],
    ) -> dict[Pair, bytes]:
        """Return the levels of candidates, labelled pairs, and all pairs that hang together by these.

        They are the pairs that the answer decides: if the further ones counted as pairs of two, it would seem
        that such agree often. Of components that are too wide for an answer there are no further ones.
        """
        weights = self._estimated(compared, label, others, len(rows))
        joined: dict[int, set[int]] = {n: set() for n in rows}
        for (m, n), levels in compared.items():
            if label.get((m, n), weights.log_odds(levels)) > 0:
                joined[m].add(n)
                joined[n].add(m)
        narrow = (x for x in _components(rows, joined) if len(x) <= WIDEST)
        further = {
            (m, n): self._agreement(rows[m], rows[n])
            for m, n in _pairs(narrow)
            if (m, n) not in compared and not self._excluded(rows[m], rows[n])
        }
        return {**compared, **further}

    def _estimated(
        self,
        compared: Mapping[Pair, bytes],
        label: Mapping[Pair, float],
        others: Floats,
        records: int,
    ) -> LevelWeights:
        """Return the weights of candidates and labelled pairs, and of the shares of levels of all others."""
        count = Counter((a, label.get(pair, UNKNOWN)) for pair, a in compared.items())
        patterns = sorted(count)
        return estimate(
            level_table([a for a, _ in patterns], len(self._comparisons)),
            np.array([x for _, x in patterns]),
            np.array([float(count[pattern]) for pattern in patterns]),
            others * (comb(records, 2) - len(compared)),
            self._sizes,
        )

    def _agreement(self, first: Row, second: Row) -> bytes:
        return agreement(self._comparisons, first, second)

    def _compared(
        self, n: int, others: Iterable[int], rows: Mapping[int, Row]
    ) -> dict[Pair, bytes]:
        """Return the levels of the pairs of a record and others, but for those of one source."""
        row = rows[n]
        numbers = [m for m in others if not self._excluded(rows[m], row)]
        levels = agreements(self._comparisons, row, [rows[m] for m in numbers])
        return {_pair(m, n): of_pair for m, of_pair in zip(numbers, levels, strict=True)}

    def weigh(self, weights: Mapping[int, float]) -> EntityChange:
        """Take weights by their place in ``rules``, 0 without one, in one step.

        Raises as ``learn``, and DataError for a weight that is not finite.
        """
        if not np.isfinite([*weights.values()]).all():
            raise DataError(f"the weights are {shown({**weights})}, expected finite numbers")
        place, level = 1, np.zeros((len(self._comparisons), max(self._sizes)))
        for of_column, size in zip(level, self._sizes, strict=True):
            of_column[EXACT:size] = [weights.get(place + n, 0.0) for n in range(size - EXACT)]
            place += size - EXACT
        new = LevelWeights(float(weights.get(0, 0.0)), level)
        if hasattr(self, "_weights"):
            return self._take(new)
        self._begin(new, np.zeros_like(level))
        return EntityChange({}, certified=True)

    def _begin(self, weights: LevelWeights, others: Floats) -> None:
        """Take weights, before any record."""
        self._weights, self._others = weights, others

    def _check_fitted(self) -> None:
        if not hasattr(self, "_weights"):
            raise NotFittedError("the resolver has no weights: call fit first")

    @property
    def rules(self) -> str:
        """The model: weights of levels, and that ``Same`` is an equivalence. Raises NotFittedError."""
        self._check_fitted()
        lines = [f"{name}(record, record, level)" for name in self._predicates]
        lines += [
            "Pair(record, record)",
            "Same(record, record)",
            f"{self._weights.pair!r} Same(x, y)",
        ]
        columns = zip(
            self._predicates, self._comparisons, self._weights.level.tolist(), strict=True
        )
        for name, comparison, weight in columns:
            for number, level in enumerate(comparison.levels, EXACT):
                lines.append(f"{weight[number]!r} {name}(x, y, {level}) ^ Same(x, y)")
        return "\n".join(lines) + EQUIVALENCE

    # steps -------------------------------------------------------------------------------------------

    def add(
        self,
        records: Mapping[str, Row],
        same: Iterable[tuple[str, str]] = (),
        different: Iterable[tuple[str, str]] = (),
    ) -> EntityChange:
        """Add records, or give those that are there other values, and label pairs, in one step.

        A record with other values is as if it had come with them. ``same`` and ``different`` are labels of
        pairs of records, new ones or not, see ``label``. Raises DataError for an id that is no text, for a
        column that a record has not, for a pair in both, for a key that too many records share and where more
        than ``WIDEST`` hang together, Infeasible where labels contradict each other or ``one_to_one``, and
        NotFittedError; then nothing has changed.
        """
        for name, row in _by_id(records).items():
            if row is None:
                raise DataError(f"record {shown(name)} is None, expected its values by column")
        return self.change(records, _labels(same, different))

    def remove(self, *names: str) -> EntityChange:
        """Take records back, and the labels of their pairs, in one step: as if they had never come.

        Raises DataError for an unknown record; then nothing has changed.
        """
        return self.change(dict.fromkeys(names), {})

    def label(self, a: str, b: str, same: bool | None) -> EntityChange:
        """Say that two records are of one entity, or are not; None takes that back.

        Raises DataError for an unknown record, UsageError for another ``same``, and Infeasible, which names a
        smallest conflict, where labels contradict each other or ``one_to_one``; then nothing has changed.
        """
        if same not in (True, False, None):
            raise UsageError(f"same is {shown(same)}, expected True, False or None")
        return self.change({}, {(a, b): None if same is None else float(same)})

    def change(
        self,
        records: Mapping[str, Row | None],
        labels: Mapping[tuple[str, str], float | None],
        places: Mapping[str, int] = {},
    ) -> EntityChange:
        """Add, replace, remove and label in one step; None takes a record or a label away.

        New records are the youngest, or come at ``places`` that were theirs before. Raises what ``add``,
        ``remove`` and ``label`` raise; then nothing has changed.
        """
        self._check_fitted()
        rows = {
            name: None if row is None else self._read(name, row) for name, row in records.items()
        }
        new, youngest, labelled = dict[str, int](), self._arrivals, {*chain(*labels)}
        for name, row in rows.items():
            if row is None:
                _known(name, self.places)
                if name in labelled:
                    raise DataError(f"record {shown(name)} is removed and labelled in one step")
            elif name not in self.places:
                new[name] = places.get(name, youngest + 1)
                youngest = max(youngest, new[name])
        number = ChainMap(new, self.places)
        of_numbers = {number[name]: row for name, row in rows.items()}
        of_pairs = dict[Pair, float | None]()
        for pair, x in labels.items():
            if x not in (0.0, 1.0, None):
                raise DataError(f"the label of {shown(pair)} is {shown(x)}, expected 1, 0 or None")
            if of_pairs.setdefault(_pair_of(*pair, number), x) != x:
                raise DataError(f"{shown(pair)} has two labels, expected one")
        for n, row in of_numbers.items():
            if row is None:
                of_pairs |= {_pair(n, m): None for m in self._label.get(n, ())}
        return self._apply(of_numbers, of_pairs, names=new)

    def _apply(
        self,
        rows: Mapping[int, Row | None],
        labels: Mapping[Pair, float | None],
        others: Iterable[int] = (),
        names: Mapping[str, int] = {},
        weights: LevelWeights | None = None,
    ) -> EntityChange:
        """Give records other rows and pairs other labels, in one step; None takes them away.

        The components of ``others`` are solved again, too. ``names`` has the numbers of new records, and
        ``weights`` take the place of the present ones. Whatever exception ends the step, nothing has changed.
        """
        step = _Step(
            {n: self._row.get(n) for n in rows},
            {(m, n): self._label.get(m, {}).get(n) for m, n in labels},
            {x: getattr(self, x) for x in _FIGURES},
            [],
        )
        try:  # no context manager: a held traceback would keep its end for later
            try:
                return self._do(step, rows, labels, others, names, weights)
            except BaseException:
                self._go_back(step, rows)
                raise
        except KeyboardInterrupt:  # also one while it went back
            self._go_back(step, rows)
            raise

    def _do(
        self,
        step: _Step,
        rows: Mapping[int, Row | None],
        labels: Mapping[Pair, float | None],
        others: Iterable[int],
        names: Mapping[str, int],
        weights: LevelWeights | None,
    ) -> EntityChange:
        """Do a step, see ``_apply``; what was before is noted in it."""
        changed = {*rows, *chain(*labels), *others}
        old = _components(changed, self._joined)
        step.set(self.places, names)
        step.set(self._name, {n: name for name, n in names.items()})
        self._arrivals = max(self._arrivals, *names.values(), 0)
        self._weights = weights or self._weights
        self._put(rows, labels, step.rows)
        new = _components(chain(changed, *old), self._joined)
        self._check_width(new)
        parts = [self._parts[n] for n in {*chain(*old, *new)} if n in self._parts]
        solved = [self._solved(x, rows, parts) for x in new if len(x) > 1]
        for part in solved:
            self._score += Fraction(part.best.score)
        for part in parts:
            self._score -= Fraction(part.best.score)
        gone = dict.fromkeys(part.records[0] for part in parts)
        step.set(self._parts, gone | {x.records[0]: x for x in solved})
        unproven = {x.records[0]: x.best for x in solved if not x.best.certified}
        step.set(self._unproven, gone | unproven)
        self.touched = sum(comb(len(x), 2) for x in new)
        moved = self._regroup(step, old, new)
        removed = {n: self._name[n] for n, row in rows.items() if row is None}
        step.set(self.places, dict.fromkeys(removed.values()))
        step.set(self._name, dict.fromkeys(removed))
        return EntityChange(moved, not self._unproven)

    def _go_back(self, step: _Step, rows: Mapping[int, Row | None]) -> None:
        """Take back a step that was cut off anywhere; a second time does no harm."""
        for table, before in reversed(step.tables):
            _set(table, before)
        vars(self).update(step.figures)
        self._put(step.rows, step.labels, rows, step.rows)
        vars(self).update(step.figures)

    def _solved(
        self, records: list[int], rows: Mapping[int, Row | None], before: Sequence[_Part]
    ) -> _Part:
        """Solve a component, some of whose records had other ``rows``. Raises Infeasible, Unsolved."""
        place, columns = {n: k for k, n in enumerate(records)}, len(self._comparisons)
        levels = np.full((len(records), len(records), columns), UNSEEN, np.uint8)
        for part in before:
            stay = [
                (place[n], k) for k, n in enumerate(part.records) if n in place and n not in rows
            ]
            now, then = ([*column] for column in zip(*stay, strict=True)) if stay else ([], [])
            levels[np.ix_(now, now)] = part.levels[np.ix_(then, then)]
        for k, j in np.argwhere(np.triu(levels[..., 0] == UNSEEN, 1)).tolist():
            levels[k, j] = levels[j, k] = [*self._levels((records[k], records[j]))]
        levels[np.diag_indices(len(records))] = NULL
        weight = self._weight_of(records, levels)
        if (places := contradiction(weight)) is not None:
            raise self._conflict([records[k] for k in places])
        return _Part(records, levels, weight, best_partition(weight, MOST_WORK))

    def _weight_of(self, records: Sequence[int], levels: NDArray[np.uint8]) -> Floats:
        """Return the log-odds of pairs, float64[n, n], inf and -inf where they are decided."""
        place = {n: k for k, n in enumerate(records)}
        weight = np.full(levels.shape[:2], self._weights.pair)
        for of_column, level in zip(self._weights.level, np.moveaxis(levels, 2, 0), strict=True):
            weight += of_column[level]
        if self.one_to_one is not None:
            sources = [self._row[n][self.one_to_one] for n in records]
            number = {source: k for k, source in enumerate(sources)}
            of_record = np.array(
                [number[x] if x is not None else -1 - k for k, x in enumerate(sources)]
            )
            weight[of_record[:, None] == of_record] = -inf
        for n in records:
            for m, label in self._label.get(n, {}).items():
                if m in place:
                    weight[place[n], place[m]] = inf if label else -inf
        np.fill_diagonal(weight, 0.0)
        return weight

    def _conflict(self, records: Sequence[int]) -> Infeasible:
        """Return the error for a chain of records that are the same, whose ends are not."""
        facts = [show_ground_atom(*self._same(*pair)) for pair in pairwise(records)]
        ends = _pair(records[0], records[-1])
        stated = ends[1] in self._label.get(ends[0], {})
        since = "" if stated else f" since {self._apart(*ends)} (one_to_one)"
        return impossible([TRANSITIVE], [f"!{show_ground_atom(*self._same(*ends))}{since}", *facts])

    @property
    def certificate(self) -> StateCertificate:
        """The certificate of the answer; its score is the sum of the weights of all pairs of one entity."""
        unproven = self._unproven.values()
        return StateCertificate(float(self._score), fsum(x.gap for x in unproven), not unproven)

    def _check_width(self, components: Sequence[Sequence[int]]) -> None:
        """Raise DataError if too many records hang together."""
        widest = max(components, key=len, default=())
        if len(widest) > WIDEST:
            raise DataError(
                f"{len(widest)} records hang together with {shown(self._name[widest[0]])}, and no more than "
                f"{WIDEST} may: compare more columns, or say of two that they are different"
            )

    def _put(
        self,
        rows: Mapping[int, Row | None],
        labels: Mapping[Pair, float | None],
        *present: Mapping[int, Row | None],
    ) -> None:
        """Change rows and labels, and which records are joined; the rows that are ``present`` go."""
        for n, row in chain(*(x.items() for x in present)):
            if row is not None:
                others = self._blocks.remove(n, row)
                for m in others:
                    self._agreements.pop(_pair(m, n), None)
                for m in others.union(self._joined.pop(n, ()), self._label.get(n, ())):
                    self._joined.get(m, set()).discard(n)
                self.keyless -= not any(self._blocks.keys_of(row))
                self._row.pop(n, None)
        for pair, label in labels.items():
            for m, n in (pair, pair[::-1]):
                of_record = self._label.setdefault(m, {})
                of_record.pop(n, None)
                if label is not None:
                    of_record[n] = label
                elif not of_record:
                    del self._label[m]
        candidates, pairs = dict[int, set[int]](), {*labels}
        for n, new in rows.items():
            if new is not None:
                candidates[n] = self._blocks.add(n, new)
                self.keyless += not any(self._blocks.keys_of(new))
                self._row[n], self._joined[n] = new, set()
                pairs.update(_pair(m, n) for m in self._label.get(n, ()))
        for n, others in candidates.items():  # when all blocks are known to be small enough
            compared = self._compared(n, others, self._row)
            self._agreements |= compared
            joining = {x for x in {*compared.values()} if self._weights.log_odds(x) > 0}
            pairs.update(pair for pair, levels in compared.items() if levels in joining)
        for m, n in pairs:
            if m in self._row and n in self._row:
                change = set.add if self._joins(m, n, self._weights) else set.discard
                change(self._joined[m], n)
                change(self._joined[n], m)

    def _joins(self, m: int, n: int, weights: LevelWeights) -> bool:
        """Tell whether a pair speaks for one entity by itself."""
        label, levels = self._decided(m, n), self._agreements.get((m, n))
        if label is not None or levels is None:
            return label == 1.0
        return weights.log_odds(levels) > 0

    def _decided(self, m: int, n: int) -> float | None:
        """Return the label of a pair, or that one source has both; None: it is open."""
        label = self._label.get(m, {}).get(n)
        excluded = label is None and self._excluded(self._row[m], self._row[n])
        return 0.0 if excluded else label

    def _excluded(self, first: Row, second: Row) -> bool:
        """Tell whether two records are of one source, in which no entity has two."""
        column = self.one_to_one
        return column is not None and first[column] is not None and first[column] == second[column]

    def _evidence_of(self, pair: Pair) -> Facts:
        """Return what the rules know of a pair: its order, and the levels of its columns."""
        _, names = self._same(*pair)
        evidence: dict[GroundAtom, float] = {("Pair", names): 1.0}
        of_pair = zip(self._predicates, self._comparisons, self._levels(pair), strict=True)
        for name, comparison, level in of_pair:
            if level != NULL:
                evidence[name, (*names, comparison.levels[level - EXACT])] = 1.0
        return evidence

    def _levels(self, pair: Pair) -> bytes:
        """Return the levels of a pair, by column."""
        first, second = (self._row[n] for n in pair)
        return self._agreements.get(pair) or self._agreement(first, second)

    def _regroup(
        self, step: _Step, old: list[list[int]], new: list[list[int]]
    ) -> dict[str, tuple[str | None, str | None]]:
        """Read the entities of components from their partitions; return which records moved."""
        before = {n: x for n in {*chain(*old, *new)} if (x := self._entity.get(n)) is not None}
        after = dict[int, int]()
        for component in new:
            first = self._parts[component[0]].best.first.tolist() if len(component) > 1 else [0]
            after |= {n: component[k] for n, k in zip(component, first, strict=True)}
        self.number += len({*after.values()}) - len({*before.values()})
        step.set(self._entity, dict.fromkeys(before) | after)
        name, both = self._name, ((n, before.get(n), after.get(n)) for n in sorted(before | after))
        return {
            name[n]: (None if x is None else name[x], None if y is None else name[y])
            for n, x, y in both
            if x != y
        }

    def _same(self, m: int, n: int) -> GroundAtom:
        """Return the atom that says that a pair is of one entity: the names are in order."""
        return "Same", (*sorted((self._name[m], self._name[n])),)

    # answers -----------------------------------------------------------------------------------------

    def entities(self) -> dict[str, list[str]]:
        """Return the records of all entities, by the name of the oldest record, the oldest first."""
        entities = dict[str, list[str]]()
        for n in sorted(self._row):
            entities.setdefault(self._name[self._entity[n]], []).append(self._name[n])
        return entities

    def entity(self, name: str) -> str:
        """Return the entity of a record. Raises DataError for an unknown one."""
        return self._name[self._entity[_known(name, self.places)]]

    def together(self, name: str) -> list[str]:
        """Return the records of the entity of a record, the oldest first. Raises DataError."""
        n = _known(name, self.places)
        records = self._part_of(n).records
        return [self._name[m] for m in records if self._entity[m] == self._entity[n]]

    def probability(self, a: str, b: str) -> float:
        """Return the probability that two records are of one entity.

        It is exact where at most ``MOST_EXACT`` records hang together, and else sampled. It is 0 where
        nothing joins them. Raises DataError for an unknown record.
        """
        (part, i, j) = self._placed(*_pair_of(a, b, self.places))
        return 0.0 if part is None else probability(part.weight, i, j)

    def _placed(self, m: int, n: int) -> tuple[_Part | None, int, int]:
        """Return the component of two records, and their places in it; None: they do not hang together."""
        part = self._part_of(m)
        if n not in part.records:
            return None, 0, 0
        return part, part.records.index(m), part.records.index(n)

    def _part_of(self, n: int) -> _Part:
        """Return the component of a record, also of one that is alone."""
        (records,) = _components([n], self._joined)
        if len(records) > 1:
            return self._parts[records[0]]
        weight = np.zeros((1, 1))
        return _Part(records, np.zeros((1, 1, 0), np.uint8), weight, best_partition(weight))

    def evidence(self, a: str, b: str) -> Facts:
        """Return what the rules know of a pair, also of one with a label. Raises DataError."""
        return self._evidence_of(_pair_of(a, b, self.places))

    def beside(self, a: str, b: str) -> list[tuple[str, str]]:
        """Return the pairs of two records with those that hang together with both. Raises DataError."""
        m, n = _pair_of(a, b, self.places)
        part, *_ = self._placed(m, n)
        others = [self._name[k] for k in part.records if k not in (m, n)] if part else []
        return [pair for c in others for pair in ((a, c), (b, c))]

    def label_of(self, a: str, b: str) -> float | None:
        """Return the label of a pair, 0 for two of one source, None for others. Raises DataError."""
        return self._decided(*_pair_of(a, b, self.places))

    def membership(self, name: str) -> Membership:
        """Return how sure the entity of a record is. Raises DataError for an unknown record."""
        n = _known(name, self.places)
        part, total = self._part_of(n), dict[int | None, float]({None: 0.0})
        of_record = part.weight[part.records.index(n)].tolist()
        score = {m: x for m, x in zip(part.records, of_record, strict=True) if m != n}
        for m, x in score.items():
            total[self._entity[m]] = total.get(self._entity[m], 0.0) + x
        group = [m for m in score if self._entity[m] == self._entity[n]]
        best = max(total.values())
        share = {k: float(x == best) if isinf(best) else exp(x - best) for k, x in total.items()}
        nearest = max(group or score, key=lambda m: (score[m], -m), default=None)
        levels = () if nearest is None else self._link(nearest, n).levels
        return Membership(
            self.entity(name),
            share[self._entity[n] if group else None] / fsum(share.values()),
            None if nearest is None else self._name[nearest],
            {x.column: x.level for x in levels},
        )

    def explain(self, a: str, b: str | None = None, *, tries: int = TRIES) -> Explanation:
        """Return why two records are of one entity or of two, or what holds the entity of one together.

        Of two records it has the levels that speak for one entity and against it, the best answer otherwise,
        and the fewest records without which it would be otherwise, see ``RecordFlip``. Of one it is an
        ``EntityExplanation``. Both solve again without records, as exactly as any step, at most ``tries``
        times. Raises DataError for an unknown record, ExplanationError where nothing joins the two or one
        source has both, and Unsolved.
        """
        if b is None:
            return self._explained(a, tries)
        m, n = _pair_of(a, b, self.places)
        label, (part, i, j) = self._label.get(m, {}).get(n), self._placed(m, n)
        if label is not None and part is not None:
            return Explanation("", show_ground_atom(*self._same(m, n)), label, given=True)
        if part is None or self._decided(m, n) is not None:
            raise ExplanationError(
                f"{shown(a)} and {shown(b)} are of two entities, since {self._apart(m, n)}"
            )
        link, atom = self._link(m, n), "Same(x, y)"
        rules = {atom: link.pair}
        for x in link.levels:
            rules[f"{_predicate(x.column)}(x, y, {x.level}) ^ {atom}"] = x.weight
        records = [self._name[k] for k in part.records]
        explanation = pair_explanation(records, part.weight, part.best, i, j, rules, MOST_WORK)
        flip = Withdrawals(self._around(m), tries).flip(a, b) if tries else None
        return replace(explanation, flip=flip)

    def _explained(self, name: str, tries: int) -> EntityExplanation:
        """Return what holds the entity of a record together."""
        oldest, *later = records = [self.places[record] for record in self.together(name)]
        part = self._part_of(oldest)
        weight, place = part.weight.tolist(), {n: k for k, n in enumerate(part.records)}
        links = list[Link]()
        nearest = {n: (weight[place[oldest]][place[n]], -oldest) for n in later}  # Prim's algorithm
        while nearest:
            n = max(nearest, key=lambda n: (*nearest[n], -n))
            links.append(self._link(-nearest.pop(n)[1], n))
            for m, link in nearest.items():
                nearest[m] = max(link, (weight[place[n]][place[m]], -n))
        trials, names = Withdrawals(self._around(oldest), tries), [self._name[n] for n in records]
        splits, untried = trials.splits(names)
        certified = trials.certified and part.best.certified
        atom = show_ground_atom("Entity", (name, names[0]))
        return EntityExplanation(
            "",
            atom,
            1.0,
            certified,
            records=(*names,),
            links=(*links,),
            splits=splits,
            untried=untried,
        )

    def _link(self, m: int, n: int) -> Link:
        """Return what is known of a pair."""
        levels, weights = self._levels(_pair(m, n)), self._weights
        of_columns = enumerate(zip(self._comparisons, levels, strict=True))
        return Link(
            self._name[m],
            self._name[n],
            weights.pair,
            tuple(
                Level(x.column, x.levels[level - EXACT], float(weights.level[c, level]))
                for c, (x, level) in of_columns
                if level != NULL
            ),
            self._decided(m, n),
        )

    def _apart(self, m: int, n: int) -> str:
        """Return why a pair without an atom is of two entities."""
        if n in self._label.get(m, {}):
            return "a label says so"
        if self._decided(m, n) is not None:
            return f"both have the {self.one_to_one} {shown(self._row[m][self.one_to_one or ''])}"
        key = "" if (m, n) in self._agreements else "they share no key, and "
        return f"{key}nothing joins them ({self._link(m, n)})"

    def _around(self, n: int) -> EntityResolver:
        """Return another resolver with the records that hang together with one, as they are here."""
        records = self._part_of(n).records
        names = {self._name[m] for m in records}
        part = EntityResolver(
            self._blocks.keys,
            self._compare,
            one_to_one=self.one_to_one,
            largest=self._blocks.largest,
        )
        part._begin(self._weights, self._others)
        labels = {pair: x for pair, x in self.labels.items() if names.issuperset(pair)}
        part.change({self._name[m]: self._row[m] for m in records}, labels, self.places)
        return part

    @property
    def candidates(self) -> int:
        """How many pairs of records share a key, and are not of one source."""
        return len(self._agreements)

    @property
    def records(self) -> dict[str, Row]:
        """The values of all records that keys and comparisons need, the oldest record first."""
        return {self._name[n]: {**self._row[n]} for n in sorted(self._row)}

    @property
    def labels(self) -> dict[tuple[str, str], float]:
        """The labels of pairs, 1 or 0, the oldest record first."""
        return {
            (self._name[m], self._name[n]): x
            for m, of_record in sorted(self._label.items())
            for n, x in sorted(of_record.items())
            if m < n
        }

    # files -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write weights, records and labels to a file, whole or not at all. Raises StorageError."""
        self._check_fitted()
        header: _Saved = {
            "version": __version__,
            "block": self._blocks.keys,
            "compare": [(x.column, x.kind, [*x.thresholds]) for x in self._comparisons],
            "one_to_one": self.one_to_one,
            "largest": self._blocks.largest,
            "pair": self._weights.pair,
            "records": [*self.records.items()],
            "labels": [(*pair, x) for pair, x in self.labels.items()],
        }
        checkpoint_file.write(
            Path(path), 1, {**header}, {"level": self._weights.level, "others": self._others}
        )

    @classmethod
    def load(cls, path: str | Path) -> EntityResolver:
        """Return a resolver that was saved; it answers as that one does. Raises StorageError."""
        with restoring(path):
            checkpoint = checkpoint_file.load(Path(path))
            saved = converted(checkpoint.header, _Saved)
            compare = {
                column: kind if kind == "exact" else {kind: thresholds}
                for column, kind, thresholds in saved["compare"]
            }
            resolver = cls(
                saved["block"], compare, one_to_one=saved["one_to_one"], largest=saved["largest"]
            )
            arrays = checkpoint.arrays
            resolver._begin(LevelWeights(saved["pair"], arrays["level"]), arrays["others"])
            labels = {(a, b): x for a, b, x in saved["labels"]}
            resolver.change(dict(saved["records"]), labels)
        return resolver

    # names -------------------------------------------------------------------------------------------

    def _read(self, name: str, row: Row) -> Row:
        """Return the columns that keys and comparisons need, as text. Raises DataError."""
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"the id of a record is {shown(name)}, expected text")
        if not isinstance(row, Mapping):
            raise DataError(f"record {shown(name)} is {shown(row)}, expected its values by column")
        absent = [column for column in self.columns if column not in row]
        if absent:
            there = ", ".join(map(str, row))
            raise DataError(
                f"record {shown(name)} has no column {absent[0]}; its columns are {there}"
            )
        for column in self.columns:
            if not isinstance(row[column], str) and isinstance(row[column], Collection):
                raise DataError(
                    f"record {shown(name)}: the value of {column} is {shown(row[column])}, expected text, a "
                    "number or none"
                )
        return {column: text_of(row[column]) for column in self.columns}


def _by_id(records: Mapping[str, Row]) -> Mapping[str, Row]:
    """Return records as they are. Raises DataError unless they are a mapping."""
    if not isinstance(records, Mapping):
        raise DataError(
            f"records are {shown(records)}, expected a mapping of ids to values by column"
        )
    return records


def _known(name: str, numbers: Mapping[str, int]) -> int:
    """Return the number of a record. Raises DataError for an unknown one."""
    if name not in numbers:
        raise DataError(f"there is no record {shown(name)}")
    return numbers[name]


def _pair_of(a: str, b: str, numbers: Mapping[str, int]) -> Pair:
    """Return the pair of two records. Raises DataError for unknown ones, and for one record."""
    m, n = (_known(name, numbers) for name in (a, b))
    if m == n:
        raise DataError(f"{shown(a)} and {shown(b)} are one record, expected two")
    return _pair(m, n)


def _labels(
    same: Iterable[tuple[str, str]], different: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], float]:
    """Return the labels of pairs. Raises DataError for a pair in both, and for what is no pair."""
    labels = dict[tuple[str, str], float]()
    for value, pairs in ((1.0, same), (0.0, different)):
        for pair in pairs:
            if isinstance(pair, str) or len(pair) != 2:
                raise DataError(f"{shown(pair)} is in same or different, expected two ids")
            a, b = pair
            if labels.setdefault((b, a) if (b, a) in labels else (a, b), value) != value:
                raise DataError(f"{shown(a)} and {shown(b)} are both in same and in different")
    return labels


def _pair(m: int, n: int) -> Pair:
    return (m, n) if m < n else (n, m)


def _sample(records: int, candidates: Collection[Pair], seed: int) -> list[Pair]:
    """Return pairs that are no candidates: all where they are few, and else some that are drawn."""
    if comb(records, 2) <= MOST_OTHERS:
        return [pair for pair in combinations(range(records), 2) if pair not in candidates]
    draw = np.random.default_rng(seed).integers(records, size=(MOST_OTHERS, 2)).tolist()
    drawn = (_pair(m, n) for m, n in draw if m != n)
    return [pair for pair in drawn if pair not in candidates]


def _set(table: dict[Any, Any], values: Mapping[Any, Any]) -> None:
    """Give keys of a table values; None takes one away."""
    for key, value in values.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


def _pairs(components: Iterable[Sequence[int]]) -> Iterator[Pair]:
    """Yield all pairs of records that hang together."""
    return chain.from_iterable(combinations(component, 2) for component in components)


def _components(numbers: Iterable[int], joined: Mapping[int, set[int]]) -> list[list[int]]:
    """Return the records that hang together with those of ``numbers`` that are there, in components."""
    seen, components = set[int](), []
    for start in numbers:
        if start in seen or start not in joined:
            continue
        waiting, component = [start], {start}
        while waiting:
            further = joined[waiting.pop()] - component
            component |= further
            waiting += further
        seen |= component
        components.append(sorted(component))
    return components


def _predicate(column: str) -> str:
    """Return the name of a column in the rules."""
    name = re.sub(r"\W", "_", column, flags=re.ASCII)
    plain = name[:1].isalpha() and name.lower() not in {"exist", "forall"}  # words of the logic
    return name[:1].upper() + name[1:] if plain else f"Column_{name}"
