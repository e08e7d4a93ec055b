"""Precision, recall and log loss of the k most probable atoms of each period of event time.

The share of true atoms among the k most probable ones of a day is what a team sees that looks at k alerts a
day: "precision top-k" in Le Borgne, Siblini, Lebichot & Bontempi, Reproducible Machine Learning for Credit
Card Fraud Detection, 2022, section 4.5.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator

from onlinesrl.core.evaluation.prequential import ratio
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Count, duration
from onlinesrl.core.io.restoring import Misfit, Natural, converted

PERIODS = 1_000
"""So many of the newest periods still take atoms and labels that come late."""
LATEST = 1e15
"""A time further from 0, in seconds, is none."""
CLIP = 1e-6
"""Probabilities are at least this far from 0 where their logarithm is taken."""


def _timed(text: str) -> str:
    if not duration(text):
        raise ValueError("expected a time such as 1d, 8h or 30m")
    return text


PeriodText = Annotated[str, AfterValidator(_timed)]


class Budget(Section):
    """How many atoms of a predicate are looked at, and in which time."""

    k: Count
    """how many atoms of each predicate of the query."""
    per: PeriodText = "1d"
    """a time such as 1d or 8h, by the `time` of examples."""

    @property
    def seconds(self) -> float:
        """The length of a period."""
        return duration(self.per) or 1.0

    def period(self, time: float | None) -> int | None:
        """Return the number of the period of a time in seconds; 0 begins at 0. None: there is no time."""
        return period_of(time, self.seconds)


def period_of(time: float | None, seconds: float) -> int | None:
    """Return the number of the period of so many seconds in which a time is; see ``Budget.period``."""
    return None if time is None or abs(time) > LATEST else math.floor(time / seconds)


class Candidate(msgspec.Struct, array_like=True):
    """An atom among the k most probable; ``true`` None: its truth is not known so far.

    ``order`` counts the atoms before it. ``name`` has the id of its example and its constants.
    """

    probability: float
    order: Natural
    true: bool | None
    name: list[str]

    def rank(self) -> tuple[float, int]:
        """Return the key of the order: the most probable first, of equal ones the earliest."""
        return -self.probability, self.order


class Period(msgspec.Struct, array_like=True):
    """The k most probable atoms of a period, the first one first, and how many of all are true."""

    number: int
    positives: Natural = 0
    candidates: list[Candidate] = []


class Sums(msgspec.Struct):
    """Sums over periods: of the candidates, those with a known truth, the true ones, and their log loss."""

    periods: Natural = 0
    alerts: Natural = 0
    labelled: Natural = 0
    hits: Natural = 0
    positives: Natural = 0
    loss: float = 0.0

    def add(self, period: Period) -> Sums:
        """Return the sums with one more period."""
        known = [one for one in period.candidates if one.true is not None]
        of_truth = (one.probability if one.true else 1.0 - one.probability for one in known)
        loss = math.fsum(-math.log(max(p, CLIP)) for p in of_truth)
        return Sums(
            self.periods + 1,
            self.alerts + len(period.candidates),
            self.labelled + len(known),
            self.hits + sum(one.true is True for one in known),
            self.positives + period.positives,
            self.loss + loss,
        )

    def figures(self) -> dict[str, Any]:
        """Return precision, recall and mean log loss, each None where it is undefined."""
        return {
            "alerts": self.alerts,
            "labelled": self.labelled,
            "precision": ratio(self.hits, self.labelled),
            "recall": ratio(self.hits, self.positives),
            "loss": self.loss / self.labelled if self.labelled else None,
        }


class _Saved(msgspec.Struct):
    count: Natural
    past: Sums
    untimed: Natural
    late: Natural
    newest_past: int | None
    periods: list[Period]


class PrecisionAtK:
    """The k most probable atoms of a predicate in each period of a ``budget``.

    An atom is a candidate by its probability, whether its truth becomes known or not; of equally probable
    ones the earliest is. A truth that comes later counts in the period of the prediction. A period is closed
    once an atom of a later one has come. Beyond ``PERIODS`` periods the oldest ones are only sums: what still
    comes for them is ``late`` and left out, as are atoms without a time (``untimed``).

    >>> top = PrecisionAtK(Budget(k=1, per="1d"))
    >>> for hour, probability, true in ((1, 0.9, True), (2, 0.7, True), (25, 0.5, False)):
    ...     top.add(3600.0 * hour, [str(hour)], probability, true)
    >>> figures = top.snapshot()
    >>> figures["periods"], figures["precision"], figures["recall"]
    (1, 1.0, 0.5)
    """

    def __init__(self, budget: Budget, most: float = PERIODS) -> None:
        self.budget, self.most = budget, most
        self.count = self.untimed = self.late = 0
        self.past, self.newest_past = Sums(), -math.inf
        self.periods: dict[int, Period] = {}

    def add(
        self, time: float | None, name: list[str], probability: float, true: bool | None
    ) -> None:
        """Add a predicted atom; ``true`` None: its truth is not known yet."""
        self.count += 1
        candidate = Candidate(probability, self.count, true, name if true is None else [])
        self._add(self.budget.period(time), [candidate], true is True)

    def label(self, time: float | None, name: list[str], probability: float, true: bool) -> None:
        """Add the truth of an atom that was predicted before with this probability."""
        number = self.budget.period(time)
        self._add(number, [], true)
        period = None if number is None else self.periods.get(number)
        for candidate in reversed(period.candidates if period is not None else ()):
            if candidate.name == name and candidate.probability == probability:
                candidate.true, candidate.name = true, []
                return

    def merge(self, other: PrecisionAtK) -> None:
        """Add what another one has, whose atoms come after the present ones."""
        for number, period in other.periods.items():
            for one in period.candidates:
                one.order += self.count
            self._add(number, period.candidates, period.positives)
        self.count += other.count
        self.untimed += other.untimed
        self.late += other.late

    def _add(self, number: int | None, candidates: Sequence[Candidate], positives: int) -> None:
        if number is None:
            self.untimed += len(candidates)
            return
        if number <= self.newest_past:
            self.late += len(candidates)
            return
        period = self.periods.setdefault(number, Period(number))
        period.positives += positives
        for candidate in candidates:
            insort(period.candidates, candidate, key=Candidate.rank)
        del period.candidates[self.budget.k :]
        while len(self.periods) > self.most:
            self.newest_past = min(self.periods)
            self.past = self.past.add(self.periods.pop(int(self.newest_past)))

    def _closed(self) -> Iterator[Period]:
        return (self.periods[number] for number in sorted(self.periods)[:-1])

    def snapshot(self) -> dict[str, Any]:
        """Return the figures over the closed periods, and those of the ``last``, with its ``start``."""
        sums, last = self.past, None
        for last in self._closed():
            sums = sums.add(last)
        figures = {"periods": sums.periods, **sums.figures()}
        if last is not None:
            start = last.number * self.budget.seconds
            figures["last"] = {"start": start, **Sums().add(last).figures()}
        left_out = {"untimed": self.untimed, "late": self.late}
        return figures | {name: n for name, n in left_out.items() if n}

    def save(self) -> Any:
        """Return the state as JSON can hold it."""
        newest = None if math.isinf(self.newest_past) else int(self.newest_past)
        periods = [self.periods[number] for number in sorted(self.periods)]
        saved = _Saved(self.count, self.past, self.untimed, self.late, newest, periods)
        return msgspec.to_builtins(saved)

    def restore(self, saved: Any) -> None:
        """Restore what ``save`` returned. Raises Misfit."""
        state = converted(saved, _Saved)
        self.count, self.past = state.count, state.past
        self.untimed, self.late = state.untimed, state.late
        self.newest_past = -math.inf if state.newest_past is None else state.newest_past
        self.periods = {period.number: period for period in state.periods}
        for period in state.periods:
            ranks = [candidate.rank() for candidate in period.candidates]
            if ranks != sorted(ranks) or len(ranks) > self.budget.k:
                raise Misfit("the most probable atoms of a period are not in order, or too many")
