"""Atoms that hard clauses define: ``x <=> l1 ^ ... ^ ln`` as ``x v !l1 v ... v !ln`` and each ``!x v li``.

A conjunction that an existential quantifier asks for is such an atom, and so is what a rule says by
``<=>``. The states of the other atoms decide it, so search, sampling and elimination need only those.
Read off the clauses as SAT solvers do (Een & Biere 2005, section 3.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

Literals = tuple[int, ...]
"""Sorted, each ``atom + 1`` or ``-(atom + 1)``."""

LEVELS = 3
"""How deep definitions may rest on one another: all on the way follow a move of an atom below them."""


class Gate(NamedTuple):
    """A literal that is true where all its inputs are, and only there."""

    literal: int
    inputs: Literals

    def clauses(self) -> list[Literals]:
        """Return the hard clauses that say so: the long one, the literal first, and then the pairs."""
        pairs = [(-self.literal, x) for x in self.inputs]
        return [(self.literal, *(-x for x in self.inputs)), *pairs]


def definitions(hard: Collection[Literals], excluded: Sequence[bool]) -> list[Gate]:
    """Return gates without cycles, inputs before outputs, at most one for each atom.

    The last atoms come first where there is a choice; ``excluded[atom]`` are never defined.
    """
    found: dict[int, Gate] = {}
    level: dict[int, int] = {}
    users: dict[int, list[int]] = {}
    pairs: set[Literals] = {clause for clause in hard if len(clause) == 2}
    for _ in range(2):  # what is defined by conjunctions comes after these
        for gate in sorted(_candidates(hard, pairs), key=lambda gate: -abs(gate.literal)):
            atom = abs(gate.literal)
            if excluded[atom - 1] or atom in found:
                continue
            raised = _raised(gate, level, users)
            if raised is not None:
                found[atom] = gate
                level |= raised
                for x in gate.inputs:
                    users.setdefault(abs(x), []).append(atom)
        pairs |= set(_implied(hard, list(found.values())))
    return sorted(found.values(), key=lambda gate: level[abs(gate.literal)])


def _raised(
    gate: Gate, level: Mapping[int, int], users: Mapping[int, Sequence[int]]
) -> dict[int, int] | None:
    """Return the new levels of a gate's atom and of what rests on it; None: a circle, or too deep."""
    inputs = set(map(abs, gate.inputs))
    raised: dict[int, int] = {}
    above = [(abs(gate.literal), 1 + max(level.get(x, 0) for x in inputs))]
    while above:
        atom, depth = above.pop()
        if depth > LEVELS or atom in inputs:
            return None
        if depth > raised.get(atom, level.get(atom, 0)):
            raised[atom] = depth
            above += [(user, depth + 1) for user in users.get(atom, ())]
    return raised


def _candidates(hard: Collection[Literals], pairs: set[Literals]) -> Iterator[Gate]:
    """Yield every literal of a clause that pairs define as the conjunction of the others' opposites."""
    for clause in hard if pairs else ():
        if len(clause) > 2:
            for x in clause:
                inputs = tuple(-y for y in clause if y != x)
                if all((min(-x, y), max(-x, y)) in pairs for y in inputs):
                    yield Gate(x, inputs)


def _implied(hard: Collection[Literals], gates: Sequence[Gate]) -> Iterator[Literals]:
    """Yield ``x v !d`` for each hard clause ``x v !l1 v ... v !ln`` and gate ``d <=> l1 ^ ... ^ ln``."""
    named: dict[Literals, list[int]] = {}
    for gate in gates:
        named.setdefault(tuple(sorted(-x for x in gate.inputs)), []).append(gate.literal)
    for clause in hard if named else ():
        for i, x in enumerate(clause):
            for d in named.get(clause[:i] + clause[i + 1 :], ()):
                yield min(x, -d), max(x, -d)
