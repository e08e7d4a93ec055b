"""Atoms that hard clauses define: ``x <=> l1 ^ ... ^ ln`` as ``x v !l1 v ... v !ln`` and each ``!x v li``.

Existential quantifiers over conjunctions and rules with ``<=>`` ground to such definitions. An atom with one
input is as true as another literal, and one without inputs is known. The inputs determine the atom, so
search, sampling and elimination leave it out. Definitions are detected in the clauses as in SAT
preprocessing (Een & Biere 2005, section 3.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

Literals = tuple[int, ...]
"""Sorted literals, each ``atom + 1`` or ``-(atom + 1)``."""

LEVELS = 3
"""The deepest nesting of definitions where a move of an input updates all atoms defined by it."""


class Gate(NamedTuple):
    """A literal that is equivalent to the conjunction of its inputs."""

    literal: int
    inputs: Literals

    def clauses(self) -> list[Literals]:
        """Return the defining hard clauses: the long one, which starts with the literal, then the pairs."""
        pairs = [(-self.literal, x) for x in self.inputs]
        return [(self.literal, *(-x for x in self.inputs)), *pairs]


def definitions(hard: Collection[Literals], excluded: Sequence[bool], levels: float) -> list[Gate]:
    """Return acyclic gates, at most one per atom and nested at most so many ``levels``, inputs first.

    Atoms of higher number are preferred as outputs; ``excluded[atom]`` are never outputs.
    """
    gates: dict[int, Gate] = {}
    level: dict[int, int] = {}
    users: dict[int, list[int]] = {}
    pairs: set[Literals] = {clause for clause in hard if len(clause) == 2}
    for _ in range(2):  # the second time with the pairs that gates of the first imply
        for gate in sorted(_candidates(hard, pairs), key=lambda gate: -abs(gate.literal)):
            atom = abs(gate.literal)
            if excluded[atom - 1] or atom in gates:
                continue
            raised = _raised(gate, level, users, levels)
            if raised is not None:
                gates[atom] = gate
                level |= raised
                for x in gate.inputs:
                    users.setdefault(abs(x), []).append(atom)
        pairs |= set(_implied(hard, list(gates.values())))
    return sorted(gates.values(), key=lambda gate: level[abs(gate.literal)])


def _raised(
    gate: Gate, level: Mapping[int, int], users: Mapping[int, Sequence[int]], levels: float
) -> dict[int, int] | None:
    """Return the new levels of a gate's atom and its users; None if that is cyclic or too deep."""
    inputs = set(map(abs, gate.inputs))
    raised: dict[int, int] = {}
    above = [(abs(gate.literal), 1 + max((level.get(x, 0) for x in inputs), default=0))]
    while above:
        atom, depth = above.pop()
        if depth > levels or atom in inputs:
            return None
        if depth > raised.get(atom, level.get(atom, 0)):
            raised[atom] = depth
            above += [(user, depth + 1) for user in users.get(atom, ())]
    return raised


def _candidates(hard: Collection[Literals], pairs: set[Literals]) -> Iterator[Gate]:
    """Yield each literal of a clause that pairs define as the conjunction of the others' negations."""
    for clause in hard:
        for x in clause:
            if all((min(-x, -y), max(-x, -y)) in pairs for y in clause if y != x):
                yield Gate(x, tuple(-y for y in clause if y != x))


def _implied(hard: Collection[Literals], gates: Sequence[Gate]) -> Iterator[Literals]:
    """Yield ``x v !d`` for each hard clause ``x v !l1 v ... v !ln`` and gate ``d <=> l1 ^ ... ^ ln``."""
    named: dict[Literals, list[int]] = {}
    for gate in gates:
        named.setdefault(tuple(sorted(-x for x in gate.inputs)), []).append(gate.literal)
    for clause in hard if named else ():
        for i, x in enumerate(clause):
            for d in named.get(clause[:i] + clause[i + 1 :], ()):
                yield min(x, -d), max(x, -d)
