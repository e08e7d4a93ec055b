"""The least change that flips a prediction: by size, with a bound on what changes can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from msgspec.structs import replace

from onlinesrl.core.example import Atoms, Constant, Example, ValuedAtom, arguments
from onlinesrl.core.explain.explanation import Atom, Flip, shown

TOGETHER = 32
"""How many changes are predicted in one call."""
SLACK = 1e-9
"""What rounding may add to a bound, relative to the gap."""


@dataclass(frozen=True)
class CounterfactualQuery:
    """What may change, and how long to search.

    ``candidates`` None: the example's own true evidence atoms, each of which may become false; else these
    atoms, each of which may take the other value. ``tries`` is the most changes that are predicted; 0: none.
    """

    candidates: Sequence[Atom] | None = None
    tries: int = 1000


DEFAULTS = CounterfactualQuery()


@dataclass(frozen=True)
class Candidate:
    """An evidence atom that may take another value; ``reach`` bounds what that does to a score difference."""

    atom: Atom
    value: bool
    reach: float = field(default=float("inf"))


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

    What becomes false stays with value 0, and so the example keeps its constants; their order, by which ties
    are broken, may change.
    """
    gone = {candidate.atom for candidate in change}
    evidence: Atoms = {
        name: [row for row in rows if (name, tuple(map(str, arguments(row)))) not in gone]
        for name, rows in example.evidence.items()
    }
    for candidate in change:
        name, args = candidate.atom
        row: list[Constant] = list(args)
        evidence[name] = [
            *evidence.get(name, []),
            row if candidate.value else ValuedAtom(row, 0.0),
        ]
    return replace(example, evidence=evidence, truth=None)


def search(
    candidates: Sequence[Candidate],
    gap: float,
    flipped: Callable[[Sequence[Sequence[Candidate]]], list[str | None]],
    tries: int,
) -> Flip:
    """Return the smallest set of candidates that flips a prediction.

    ``flipped`` says of sets what the prediction is, where it is flipped. No set whose reaches add
    up to less than ``gap``, the score difference to the best state with the other value, can flip it.
    """
    ranked = sorted(candidates, key=lambda candidate_set: -candidate_set.reach)
    tried = 0
    for size in range(1, len(ranked) + 1):
        sets = _sets(ranked, size, gap * (1 - SLACK))
        while some := [*islice(sets, min(TOGETHER, tries - tried))]:
            tried += len(some)
            for candidate_set, becomes in zip(some, flipped(some), strict=True):
                if becomes is not None:
                    change = tuple((shown(c.atom), c.value) for c in candidate_set)
                    return Flip(len(ranked), change, becomes, size - 1, tried, complete=True)
        if next(sets, None) is not None:
            return Flip(len(ranked), (), None, size - 1, tried, complete=False)
    return Flip(len(ranked), (), None, len(ranked), tried, complete=True)


def _sets(ranked: Sequence[Candidate], size: int, gap: float) -> Iterator[list[Candidate]]:
    """Yield the sets of a size whose reaches, sorted from the largest on, add up to the gap."""

    def extend(chosen: list[Candidate], first: int, sum_: float) -> Iterator[list[Candidate]]:
        missing = size - len(chosen)
        if not missing:
            yield chosen
            return
        for at in range(first, len(ranked) - missing + 1):
            most = sum_ + sum(candidate.reach for candidate in ranked[at : at + missing])
            if most < gap:
                return
            yield from extend([*chosen, ranked[at]], at + 1, sum_ + ranked[at].reach)

    return extend([], 0, 0.0)
