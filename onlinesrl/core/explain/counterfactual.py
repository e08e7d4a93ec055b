"""The smallest change of evidence that flips a prediction, by search with a bound on each change's effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, dropwhile, islice
from math import inf

from msgspec.structs import replace

from onlinesrl.core.example import Atom, Atoms, Constant, Example, ValuedAtom, arguments
from onlinesrl.core.explain.explanation import Flip, shown

TOGETHER = 32
"""The number of changes that are predicted in one call."""
SLACK = 1e-9
"""What rounding may add to a bound, relative to the gap."""
ROUNDING = 1e-12
"""What rounding may take from a difference of sums of reaches, relative to the sum of all."""


@dataclass(frozen=True)
class CounterfactualQuery:
    """The atoms that may change, and the length of the search.

    With ``candidates``, each of these atoms may take its other value. Without (None), each true evidence
    atom of the example may become false. ``tries`` is the largest number of changes to predict.
    """

    candidates: Sequence[Atom] | None = None
    tries: int = 1000


DEFAULTS = CounterfactualQuery()


@dataclass(frozen=True)
class Candidate:
    """An evidence atom that may take another value; ``reach`` bounds its effect on a score difference."""

    atom: Atom
    value: bool
    reach: float = field(default=inf)


def candidates_of(example: Example, query: CounterfactualQuery) -> list[Candidate]:
    """Return the atoms that may change, with their new values."""
    values = {
        (name, tuple(map(str, arguments(row)))): row.value if isinstance(row, ValuedAtom) else 1.0
        for name, rows in example.evidence.items()
        for row in rows
    }
    if query.candidates is None:
        return [Candidate(atom, False) for atom, value in values.items() if value]
    return [Candidate(atom, not values.get(atom, 0.0)) for atom in dict.fromkeys(query.candidates)]


def changed(example: Example, change: Sequence[Candidate]) -> Example:
    """Return an example with other values of some evidence atoms, without its truth.

    An atom that becomes false stays with value 0, so that the example keeps its constants. The order of the
    constants, which breaks ties, may change.
    """
    changed_atoms = {candidate.atom for candidate in change}
    evidence: Atoms = {
        name: [row for row in rows if (name, tuple(map(str, arguments(row)))) not in changed_atoms]
        for name, rows in example.evidence.items()
    }
    for candidate in change:
        name, args = candidate.atom
        row: list[Constant] = list(args)
        evidence.setdefault(name, []).append(row if candidate.value else ValuedAtom(row, 0.0))
    return replace(example, evidence=evidence, truth=None)


def search(
    candidates: Sequence[Candidate],
    gap: float,
    flipped: Callable[[Sequence[Sequence[Candidate]]], list[str | None]],
    tries: int,
) -> Flip:
    """Return the smallest set of candidates that flips a prediction.

    ``flipped`` returns, for each set, the new prediction if the set flips it, else None. ``gap`` is the
    score difference to the best state with the other value. No set whose reaches sum to less can flip the
    prediction.
    """
    ranked = sorted(candidates, key=lambda candidate: -candidate.reach)
    bounded = dropwhile(inf.__eq__, (candidate.reach for candidate in ranked))
    sums = [*accumulate(bounded, initial=0.0)]
    sums = [0.0] * (len(ranked) + 1 - len(sums)) + sums  # of the bounded reaches before a place
    least, tried = gap * (1 - SLACK) - ROUNDING * sums[-1], 0
    for size in range(1, len(ranked) + 1):
        sets = _sets(ranked, sums, size, least)
        while batch := [*islice(sets, min(TOGETHER, tries - tried))]:
            tried += len(batch)
            for candidate_set, becomes in zip(batch, flipped(batch), strict=True):
                if becomes is not None:
                    change = tuple((shown(c.atom), c.value) for c in candidate_set)
                    return Flip(len(ranked), change, becomes, size - 1, tried, complete=True)
        if next(sets, None) is not None:
            return Flip(len(ranked), (), None, size - 1, tried, complete=False)
    return Flip(len(ranked), (), None, len(ranked), tried, complete=True)


def _sets(
    ranked: Sequence[Candidate], sums: Sequence[float], size: int, least: float
) -> Iterator[list[Candidate]]:
    """Yield the sets of a size whose reaches add up to ``least``; candidates are ranked by reach.

    ``sums`` has the sum of the bounded reaches before each place.
    """
    places, reached, at = list[int](), [0.0], 0
    while True:
        missing = size - len(places)
        if not missing:
            yield [ranked[place] for place in places]
        elif at + missing <= len(ranked):
            most = inf if ranked[at].reach == inf else sums[at + missing] - sums[at]
            if reached[-1] + most >= least:
                places.append(at)
                reached.append(reached[-1] + ranked[at].reach)
                at += 1
                continue
        if not places:
            return
        at = places.pop() + 1
        reached.pop()
