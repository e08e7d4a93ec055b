"""Sets of labels that have the truth as often as asked for, whatever the sequence.

A unit is an atom, true or false, or a group of atoms of which at most one is true. Its set has the labels
that are at least as probable as a threshold, which the share 1 - a of the newest true labels reached. After
each truth the share a that may be missed makes a step,

    ln a <- ln a - r (missed - alpha),

with missed 1 where the set that was given has not the true label, else 0, and alpha the share asked for. This
is adaptive conformal inference (Gibbs & Candes, NeurIPS 2021, eq. 2) in the logarithm, an integrator of
errors (Angelopoulos, Candes & Tibshirani, NeurIPS 2023). A set has every label where a < 1 / (RECENT + 1),
and none where a >= 1. So ln a stays in a range of width ln (RECENT + 1) + r m, where m truths are open at
once, and the steps add up: after T truths, without any assumption on probabilities and truths,

    |misses - alpha T| <= ln (RECENT + 1) / r + m.

That is their argument for long-run coverage on any sequence (proposition 4.1), with the range of ln a in
place of that of a. The rate r never grows, and the bound holds for the last one, as for the decreasing steps
of Angelopoulos, Barber & Bates (ICML 2024). It bounds the share of misses over time, not the probability of
any single one. Where truths come late and r has shrunk, m counts 1 + ln (RATE / r) times. A label of
probability 1 is in every set: with it there may be fewer misses than that, never more.

Shards make steps of their own, all from one ln a, and after a round each goes to the mean of theirs, whether
it had truths or none; one that has ended is left out. These moves add up to 0, and count by one r, that of
the largest m. So the steps of P shards add up as those of one do, each in its range, and |misses - alpha T|
is at most P times as large. One process that goes on from the mean goes on as one of the shards, and adds
nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import compress, repeat, zip_longest
from operator import itemgetter, le
from typing import Annotated, Any, TypeAlias

import msgspec

from onlinesrl.core.evaluation.class_balance import LABELS
from onlinesrl.core.example import Constant, ValuedAtom
from onlinesrl.core.io.restoring import Misfit, Natural, converted

RECENT = 1000
"""The threshold is one of the probabilities of so many of the newest true labels."""
RATE = 0.2
"""The first rate of steps: misses are off by 35 at most where truths come one by one.

Shares are of ranks, whatever the probabilities, so that one rate does for all models.
"""
SPAN = 0.2
"""Truths that are open at once, none of them missed, move ln a by at most this."""
MOST_CLASSES = 64
"""So many classes of a predicate have thresholds and figures of their own; later ones are one, ``OTHER``."""
OTHER, NEITHER = "(other)", "(none)"
ANSWERS = "(answers)"
"""What stands for a predicate in sets of whole answers; see ``mln.online.answer_sets``."""
Label: TypeAlias = bool | Constant | tuple[Constant, ...] | None
"""Whether an atom is true, or the constants of the true atom of a group; None: no atom of it is."""
BOTH: list[Label] = [False, True]
"""The labels of an atom that is a unit."""
Marginals: TypeAlias = Mapping[str, Sequence[ValuedAtom]]
Truths: TypeAlias = Mapping[str, list[bool | None]]
"""By predicate whether each atom is true; None: it is not known."""
Groups: TypeAlias = Mapping[str, tuple[tuple[int, ...], bool]]
"""By predicate the arguments in which the atoms of a group differ, and whether exactly one is true."""
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]


class LabelSet(msgspec.Struct, frozen=True, gc=False):
    """The ``labels`` of a unit, ``args`` are the arguments that its atoms share."""

    args: Sequence[Constant]
    labels: Sequence[Label]

    def abstains(self, labels: Sequence[Label]) -> bool:
        """Tell whether the set is empty, or has all ``labels`` of its unit."""
        return not self.labels or len(self.labels) == len(labels)


class Unit(msgspec.Struct, frozen=True, gc=False):
    """The arguments that the atoms of a unit share, its labels, and their probabilities.

    ``true`` is the place of the true label; None: it is not known, or not open.
    """

    args: list[Constant]
    labels: Sequence[Label]
    probabilities: list[float]
    true: int | None


class Covered(msgspec.Struct, frozen=True, gc=False):
    """A unit whose truth is known: its true label as text, with its probability, and the size of its set."""

    predicate: str
    label: str
    probability: float
    missed: bool
    size: int
    abstains: bool
    """Whether the set is empty, or has every label."""


def text_of(label: Label) -> str:
    """Return a label as the name of a class."""
    if isinstance(label, str):
        return label
    if isinstance(label, bool):
        return LABELS[label]
    if isinstance(label, tuple):
        return ", ".join(map(str, label))
    return NEITHER if label is None else str(label)


def class_of(classes: Mapping[str, Any], label: str) -> str:
    """Return the name under which a label counts in a table of classes."""
    return label if label in classes or len(classes) < MOST_CLASSES else OTHER


class Threshold:
    """The least probability of a label of a set, by the ``log`` of the share that may be missed.

    ``recent`` has the probabilities of true labels in the order in which they came, ``ranked`` rising.
    ``new`` counts those since it was restored.
    """

    def __init__(self, log: float, recent: Sequence[float] = ()) -> None:
        self.log = log
        self.recent = deque(recent)
        self.ranked = sorted(recent)
        self.new = 0
        self._include_sure()

    def value(self) -> float:
        """Return the k-th largest of n probabilities, k = ceil((1 - a) (n + 1))."""
        n = len(self.ranked)
        k = math.ceil((1.0 - math.exp(self.log)) * (n + 1))
        return 0.0 if k > n else math.inf if k < 1 else self.ranked[n - k]

    def add(self, probability: float, step: float) -> None:
        """Add the probability of a true label, and a step of ``log``."""
        self.log += step
        self.new += 1
        ranked, recent = self.ranked, self.recent
        if len(recent) == RECENT:
            del ranked[bisect_left(ranked, recent.popleft())]
        recent.append(probability)
        insort(ranked, probability)
        self._include_sure()

    def _include_sure(self) -> None:
        """Lower ``log`` until sets have every label of probability 1, if such a label was true."""
        if self.ranked and self.ranked[-1] >= 1.0:
            n = len(self.ranked)
            sure = n - bisect_left(self.ranked, 1.0)
            self.log = min(self.log, math.log1p((0.5 - sure) / (n + 1)))


class LabelSets:
    """The sets of units by a threshold of each predicate, ``by_class`` of each of its labels; in checkpoints.

    >>> sets = LabelSets(0.5, {})
    >>> for probability in (0.9, 0.8, 0.6):
    ...     units = sets.units({"Fraud": [ValuedAtom(["t"], probability)]}, {"Fraud": [True]})
    ...     _ = sets.learn(units, sets.of(units), sets.truths)
    >>> sets.of(sets.units({"Fraud": [ValuedAtom(["t"], 0.9), ValuedAtom(["u"], 0.45)]}, {}))
    {'Fraud': [LabelSet(args=['t'], labels=[True]), LabelSet(args=['u'], labels=[])]}
    """

    def __init__(
        self, coverage: float, groups: Groups, by_class: bool = False, rate: float = RATE
    ) -> None:
        self.alpha, self.rate = round(1.0 - coverage, 12), rate
        self.groups, self.by_class = groups, by_class
        self.thresholds: defaultdict[str, dict[str, Threshold]] = defaultdict(dict)
        self.truths = 0
        self.most_open = 1
        """The most truths that came after a set was given, until those of its example had come."""

    def units(self, marginals: Marginals, truths: Truths) -> dict[str, list[Unit]]:
        """Return the units of open atoms by predicate, in their order."""
        return {
            name: self._units(name, atoms, truths.get(name)) for name, atoms in marginals.items()
        }

    def _units(
        self, name: str, atoms: Sequence[ValuedAtom], truths: Sequence[bool | None] | None
    ) -> list[Unit]:
        rows: list[Any] = [atom.args for atom in atoms]
        values: list[Any] = [atom.number for atom in atoms]  # all atoms with a probability have one
        truths = truths or [None] * len(rows)
        if name not in self.groups or not atoms:
            return [
                Unit(row, BOTH, [1.0 - p, p], true if true is None else int(true))
                for row, p, true in zip(rows, values, truths, strict=True)
            ]
        exclusive, exactly = self.groups[name]
        none: list[Label] = [] if exactly else [None]
        columns = [*zip(*rows, strict=True)]
        rest = [column for place, column in enumerate(columns) if place not in exclusive]
        keys = [*zip(*rest, strict=True)] if rest else [()] * len(rows)
        labels: list[Label] = [*map(itemgetter(*exclusive), rows)]
        size = keys.count(keys[0])
        heads, first = keys[::size], labels[:size]
        shares: list[list[float]]
        known: list[Sequence[bool | None]]
        if (
            labels == len(heads) * first
            and len({*heads}) == len(heads)
            and all(keys[n::size] == heads for n in range(1, size))
        ):  # groups one after another
            parts = [slice(n, n + size) for n in range(0, len(rows), size)]
            every: Iterable[list[Label]] = repeat([*first, *none], len(parts))
            shares, known = [values[part] for part in parts], [truths[part] for part in parts]
        else:
            places: dict[Any, list[int]] = {}
            for n, key in enumerate(keys):
                places.setdefault(key, []).append(n)
            heads, groups = [*places], places.values()
            every = ([*(labels[n] for n in group), *none] for group in groups)
            shares = [[values[n] for n in group] for group in groups]
            known = [[truths[n] for n in group] for group in groups]
        units = list[Unit]()
        true: int | None
        for key, alternatives, probabilities, is_true in zip(
            heads, every, shares, known, strict=True
        ):
            if none:
                left = 1.0 - sum(probabilities)
                probabilities.append(left if left > 0.0 else 0.0)
            if True in is_true:
                true = is_true.index(True)
            else:
                true = None if exactly or None in is_true else len(is_true)
            units.append(Unit([*key], alternatives, probabilities, true))
        return units

    def of(self, units: Mapping[str, Sequence[Unit]]) -> dict[str, list[LabelSet]]:
        """Return the set of each unit."""
        return {name: self._sets(name, several) for name, several in units.items()}

    def _sets(self, name: str, units: Sequence[Unit]) -> list[LabelSet]:
        least = {label: one.value() for label, one in self.thresholds.get(name, {}).items()}
        other = least.get(OTHER, 0.0)
        if not self.by_class:
            enough = partial(le, other)
            return [
                LabelSet(unit.args, [*compress(unit.labels, map(enough, unit.probabilities))])
                for unit in units
            ]
        sets = list[LabelSet]()
        for unit in units:
            pairs = zip(unit.labels, unit.probabilities, strict=True)
            chosen = [x for x, p in pairs if p >= least.get(text_of(x), other)]
            sets.append(LabelSet(unit.args, chosen))
        return sets

    def learn(
        self,
        units: Mapping[str, Sequence[Unit]],
        sets: Mapping[str, Sequence[LabelSet]],
        truths: int,
        learning: bool = True,
    ) -> list[Covered]:
        """Compare sets with true labels, and if ``learning`` make a step for each, in the order of atoms.

        ``truths`` is how many had come when the sets were given.
        """
        known, alike, names = list[Covered](), None, list[str]()
        for name, several in units.items():
            for unit, labels in zip(several, sets.get(name, ()), strict=False):
                if (place := unit.true) is None:
                    continue
                if unit.labels is not alike:
                    alike, names = unit.labels, [*map(text_of, unit.labels)]
                chosen = labels.labels
                known.append(
                    Covered(
                        name,
                        names[place],
                        unit.probabilities[place],
                        alike[place] not in chosen,
                        len(chosen),
                        labels.abstains(names),
                    )
                )
        if learning and known:
            self.most_open = max(self.most_open, self.truths - truths + len(known))
            self.truths += len(known)
            rate = min(self.rate, SPAN / (self.alpha * self.most_open))
            hit, miss = rate * self.alpha, rate * (self.alpha - 1.0)
            for one in known:
                thresholds = self.thresholds[one.predicate]
                key = class_of(thresholds, one.label) if self.by_class else OTHER
                if key not in thresholds:
                    thresholds[key] = Threshold(math.log(self.alpha))
                thresholds[key].add(one.probability, miss if one.missed else hit)
        return known

    def save(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        thresholds = {
            name: {key: _Threshold(one.log, [*one.recent]) for key, one in by_class.items()}
            for name, by_class in self.thresholds.items()
        }
        saved: dict[str, Any] = msgspec.to_builtins(_Saved(self.truths, self.most_open, thresholds))
        return saved

    def restore(self, saved: Any) -> None:
        """Restore what ``save`` returned; nothing stands for a new one. Raises Misfit."""
        state = converted(saved, _Saved)
        self.truths, self.most_open = state.truths, max(1, state.most_open)
        self.thresholds.clear()
        for name, by_class in state.thresholds.items():
            self.thresholds[name] = {
                k: Threshold(one.log, one.recent) for k, one in by_class.items()
            }
        if not self.by_class and any(of.keys() != {OTHER} for of in self.thresholds.values()):
            raise Misfit("the thresholds of labels, not of predicates")

    def since(self, start: Mapping[str, Any]) -> _Saved:
        """Return the logs and truths of thresholds with truths after ``start``, which was restored."""
        thresholds = {
            name: {
                k: _Threshold(one.log, [*one.recent][-one.new :])
                for k, one in of.items()
                if one.new
            }
            for name, of in self.thresholds.items()
        }
        return _Saved(self.truths - start.get("truths", 0), self.most_open, thresholds)

    def merge(self, gains: Sequence[_Saved]) -> None:
        """Take the mean log of several that went on from here, and their newest truths in turn."""
        self.truths += sum(gain.truths for gain in gains)
        self.most_open = max(gain.most_open for gain in gains)
        places = ((n, k) for gain in gains for n, of in gain.thresholds.items() for k in of)
        for name, key in dict.fromkeys(places):
            old = self.thresholds[name].get(key) or Threshold(math.log(self.alpha))
            still = _Threshold(old.log, [])
            parts = [gain.thresholds.get(name, {}).get(key, still) for gain in gains]
            turns = zip_longest(*(reversed(part.recent) for part in parts))
            newest = [p for turn in turns for p in turn if p is not None]
            recent = [*old.recent, *reversed(newest)][-RECENT:]
            log = math.fsum(part.log for part in parts) / len(parts)
            self.thresholds[name][key] = Threshold(log, recent)


class _Threshold(msgspec.Struct):
    log: Annotated[float, msgspec.Meta(ge=-1000, le=1000)]
    recent: Annotated[list[Probability], msgspec.Meta(min_length=1, max_length=RECENT)]


class _Saved(msgspec.Struct):
    truths: Natural = 0
    most_open: Natural = 1
    thresholds: dict[str, dict[str, _Threshold]] = {}
