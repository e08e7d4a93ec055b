"""The connected components of a ground model, each a model of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from onlinesrl.core.arrays import Bools, Ints, Ints32, gathered
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.kernels.components import join

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Components:
    """The connected components of a model, in order of their size.

    Component ``i`` has the atoms ``atoms[atom_start[i] : atom_start[i + 1]]``, in order, likewise the live
    clauses; ``number`` is the component of each atom.
    """

    atoms: Ints
    atom_start: Ints
    clauses: Ints
    clause_start: Ints
    number: Ints

    def __len__(self) -> int:
        return len(self.atom_start) - 1

    def __iter__(self) -> Iterator[tuple[Ints, Ints]]:
        return (self.span(i, i + 1) for i in range(len(self)))

    @property
    def end(self) -> Ints:
        """The number of atoms and clauses in the components before each one, and in all of them."""
        return self.atom_start + self.clause_start

    def span(self, first: int, stop: int) -> tuple[Ints, Ints]:
        """Return the atoms and the clauses of the components ``first .. stop - 1``, in order."""
        atoms = self.atoms[self.atom_start[first] : self.atom_start[stop]]
        clauses = self.clauses[self.clause_start[first] : self.clause_start[stop]]
        return np.sort(atoms), np.sort(clauses)

    def several(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return the atoms and the clauses of some components."""
        atoms, clauses = (
            gathered(start, numbers)[1] for start in (self.atom_start, self.clause_start)
        )
        return self.atoms[atoms], self.clauses[clauses]

    def having(self, atom: int) -> tuple[Ints, Ints]:
        """Return the atoms and the clauses of the component that has an atom."""
        number = int(self.number[atom])
        return self.span(number, number + 1)


def components(model: GroundMRF, live: Bools) -> Components:
    """Return the connected components. Raises Infeasible where a live clause is empty."""
    if np.any(np.diff(model.start)[live] == 0):
        raise Infeasible("a hard clause is empty")
    root = np.arange(model.n_atoms)
    clauses = np.flatnonzero(live)
    join_groups(model.group, model.exactly, root)
    join(model.start, model.literals, clauses, root)
    root_of_clause = root[np.abs(model.literals[model.start[clauses]]) - 1]
    size = np.bincount(root, minlength=model.n_atoms) + np.bincount(
        root_of_clause, minlength=model.n_atoms
    )
    tops = np.flatnonzero(root == np.arange(model.n_atoms))
    rank = np.empty(model.n_atoms, np.int64)
    rank[tops[np.argsort(size[tops], kind="stable")]] = ranks = np.arange(len(tops))
    number, root_of_clause = rank[root], rank[root_of_clause]
    atoms, order = np.argsort(number, kind="stable"), np.argsort(root_of_clause, kind="stable")
    ends = np.append(ranks, len(tops))
    return Components(
        atoms,
        np.searchsorted(number[atoms], ends),
        clauses[order],
        np.searchsorted(root_of_clause[order], ends),
        number,
    )


def solve_components(
    parts: Components,
    narrow: Callable[[Ints, Ints], Result | None],
    alone: Callable[[Ints, Ints], Result],
) -> list[tuple[Ints, Result]]:
    """Solve all components: the narrow ones together, each of the others ``alone``.

    Both functions take atoms and clauses. ``narrow`` returns None for components some of which are too wide.
    These are then split in two halves of about the same size, and each half is tried again.
    Returns pairs of atoms and their result, by the first atom.
    """
    results, end, ranges = [], parts.end, [(0, len(parts))]
    while ranges:
        first, stop = ranges.pop()
        if first == stop:
            continue
        middle = int(np.searchsorted(end, (end[first] + end[stop]) / 2, "right")) - 1
        if middle < stop - 1 or stop - first == 1:
            atoms, clauses = parts.span(first, stop)
            result = narrow(atoms, clauses)
            if result is None and stop - first == 1:
                result = alone(atoms, clauses)
            if result is not None:
                results.append((atoms, result))
                continue
        middle = min(max(middle, first + 1), stop - 1)
        ranges += [(first, middle), (middle, stop)]
    return sorted(results, key=lambda part: int(part[0][0]))


def join_groups(group: Ints32, exactly: Bools, root: Ints) -> None:
    """Join the atoms of each group, which are as in ``GroundMRF``; ``root`` as in ``join``."""
    grouped = np.flatnonzero(group >= 0)
    members = grouped[np.argsort(group[grouped], kind="stable")]
    groups = np.searchsorted(group[members], np.arange(len(exactly) + 1))
    join(groups, (members + 1).astype(np.int32), np.arange(len(exactly)), root)


def restrict(model: GroundMRF, atoms: Ints, clauses: Ints) -> GroundMRF:
    """Return the sub-model of some atoms, in order, and clauses, which mention no other atoms."""
    if len(atoms) == model.n_atoms and len(clauses) == model.n_clauses:
        return model
    part = model.select(clauses)
    groups, group = np.unique(model.group[atoms], return_inverse=True)
    free = int(len(groups) > 0 and groups[0] < 0)
    number = np.searchsorted(atoms, np.abs(part.literals) - 1) + 1
    return GroundMRF(
        n_atoms=len(atoms),
        start=part.start,
        literals=(np.sign(part.literals) * number).astype(np.int32),
        hard=part.hard,
        group=(group.reshape(-1) - free).astype(np.int32),
        exactly=model.exactly[groups[free:]],
    )
