"""Estimated changes of counts by flips of single atoms, by IJGP(i) on formulas in which the atom is known.

The flipped atom's constants leave few variables: their network is much narrower than the formula's. Between
two flips only slices of some factors differ. So messages go on from those of the last flip, and only where
something changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.logic.ast import Atom, Constant, Variable, free_variables
from onlinesrl.mln.counting.elimination_order import Scope, min_fill
from onlinesrl.mln.counting.exact import Counter
from onlinesrl.mln.counting.factors import TooLarge
from onlinesrl.mln.counting.flip_effects import EstimatedFlips
from onlinesrl.mln.counting.ijgp import (
    MAX_CELLS,
    NOT,
    Estimator,
    Messages,
    Network,
    join_graph,
    network,
)
from onlinesrl.mln.counting.world import World


class DenseWorld:
    """The truth of all atoms of predicates, 0 or 1, as arrays over their constants; atoms may flip."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._truth: dict[str, Floats] = {}

    def truth(self, name: str) -> Floats:
        """Return the array of a predicate. Raises TooLarge."""
        if name not in self._truth:
            table = self.world.table(name)
            sizes = [*map(self.world.size, table.types)]
            if prod(sizes) > MAX_CELLS:
                reason = f"{name} has {prod(sizes):,} atoms, more than {MAX_CELLS:,}"
                raise TooLarge(reason, "take exact counts")
            self._truth[name] = np.zeros(sizes)
            self._truth[name][tuple(table.rows.T)] = 1.0
        return self._truth[name]

    def set(self, rows: Mapping[str, Ints]) -> None:
        """Make other atoms of some predicates true."""
        for name in rows.keys() & self._truth.keys():
            self._truth[name][...] = 0.0
            self._truth[name][tuple(rows[name].T)] = 1.0

    def flip(self, name: str, row: Sequence[int]) -> None:
        """Flip an atom."""
        if name in self._truth:
            self._truth[name][tuple(row)] = 1.0 - self._truth[name][tuple(row)]


@dataclass(eq=False)
class Pinned:
    """A network in which variables are ``known`` at each call, and its messages.

    Estimates have an axis for each variable of ``label``.
    """

    network: Network
    known: tuple[str, ...]
    label: Scope
    bound: int
    messages: Messages | None = None

    @cached_property
    def scopes(self) -> tuple[Scope, ...]:
        """The variables of the factors that are not known, and the label; () of none."""
        atom_scopes = [free_variables(atom) for atom in self.network.atoms]
        return (
            *(tuple(v for v in scope if v not in self.known) for scope in atom_scopes),
            self.label,
        )

    def width(self) -> int:
        """Return the width of the min-fill order."""
        return min_fill([scope for scope in self.scopes if scope])[1]

    def estimate(self, dense: DenseWorld, row: Sequence[int]) -> Floats:
        """Return the estimated number of solutions for the constants of the known variables."""
        pinned = dict(zip(self.known, row, strict=True))
        atoms, world = self.network.atoms, dense.world
        sizes = [world.size(self.network.types[v]) for v in self.label]
        factors = [
            (scope, self._slice(atom, scope, pinned, dense))
            for atom, scope in zip(atoms, self.scopes, strict=False)
        ]
        constant = prod((float(f) for scope, f in factors if not scope), start=1.0)
        constant *= prod(map(world.size, self.network.free))
        inside = [factor for factor in (*factors, (self.label, np.ones(sizes))) if factor[0]]
        if constant == 0.0 or any(0 in f.shape for _, f in inside):
            return np.zeros(sizes)
        if not inside:
            return np.array(constant)
        if self.messages is None:
            graph = join_graph(tuple(scope for scope, _ in inside), self.bound)
            self.messages = Messages(graph, inside)
        elif not self.messages.replace(inside):
            return constant * self.messages.estimate(self.label)
        if not self.messages.settle():
            self.messages = None  # messages of zeros: there is no solution
            return np.zeros(sizes)
        return constant * self.messages.estimate(self.label)

    def _slice(
        self, atom: Atom, scope: Scope, pinned: Mapping[str, int], dense: DenseWorld
    ) -> Floats:
        """Return an atom's factor over the variables of ``scope``, where the others are known."""
        world, name = dense.world, atom.predicate.removeprefix(NOT)
        index: list[int | Ints] = []
        for type_, term in zip(world.table(name).types, atom.terms, strict=True):
            if isinstance(term, Constant):
                index.append(world.numbers.get(type_, {}).get(term.name, world.base))
                continue
            assert isinstance(term, Variable)
            if term.name in pinned:
                index.append(pinned[term.name])
            else:
                axes = [-1 if v == term.name else 1 for v in scope]
                index.append(np.arange(world.size(type_)).reshape(axes))
        sizes = [world.size(self.network.types[v]) for v in scope]
        unknown = any(isinstance(n, int) and n >= world.base for n in index)
        truth = np.zeros(sizes) if unknown else np.array(dense.truth(name)[tuple(index)])
        return 1.0 - truth if atom.predicate.startswith(NOT) else truth


class FlipEstimates:
    """The changes of a count by flips of a predicate's atoms (with these types), one at a time."""

    def __init__(
        self, counter: Counter, predicate: str, types: tuple[str, ...], bound: int
    ) -> None:
        flips = EstimatedFlips(Estimator(counter, bound), predicate, types)
        flipped, keep = flips.flipped, counter.keep
        every = {**dict(zip(flipped, types, strict=True)), **counter.types}
        self.predicate = predicate
        self.parts: list[tuple[int, bool, Pinned]] = []
        for coefficient, odd, parts in flips.parts:
            network_ = network(parts, every, (*flipped, *keep))
            if network_ is not None:
                self.parts.append((coefficient, odd, Pinned(network_, flipped, keep, bound)))

    def width(self) -> int:
        """Return the width of the widest network: estimates with a larger bound are exact."""
        return max((pinned.width() for _, _, pinned in self.parts), default=0)

    def change(self, dense: DenseWorld, row: Sequence[int]) -> Floats:
        """Return the change by the flip of an atom, with an axis for each kept variable of the counter.

        Raises TooLarge.
        """
        sign = 1.0 - 2.0 * float(dense.truth(self.predicate)[tuple(row)])
        total: Floats = np.zeros(())
        for coefficient, odd, pinned in self.parts:
            estimate = coefficient * pinned.estimate(dense, row)
            total = total + (sign * estimate if odd else estimate)
        return total
