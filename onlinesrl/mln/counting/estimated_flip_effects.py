"""How counts by IJGP(i) change where one atom flips, for all atoms of a predicate at once.

As `counting.flips`, but in the ways of a formula, whose factors are R or 1 - R: with d = 1 - 2 R at the
flipped atom, the factor of a true atom changes by d there and that of a false one by -d. Where some of the
atoms are the flipped one, the solutions of what remains are estimated for each of its constants. The paper
(Sarkhel et al. 2016) estimates the counts before and after each flip; this is one propagation for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, product

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.logic.ast import Atom, Constant, Equal, Variable
from onlinesrl.mln.counting.disjoint_conjunctions import Conjunction
from onlinesrl.mln.counting.factors import Factor, Sparse
from onlinesrl.mln.counting.flip_effects import arguments_of, check_polynomial, equations
from onlinesrl.mln.counting.ijgp import Estimator, Network, check_memory, network
from onlinesrl.mln.counting.world import World


@dataclass(frozen=True)
class EstimatedFlips:
    """The changes of an estimated count where atoms of a predicate of these argument types flip."""

    estimator: Estimator
    predicate: str
    types: tuple[str, ...]

    @cached_property
    def flipped(self) -> tuple[str, ...]:
        """The arguments of the atom that flips, as variables."""
        return arguments_of(self.predicate, self.types)

    @cached_property
    def parts(self) -> tuple[tuple[int, bool, Conjunction], ...]:
        """What is counted: its coefficient, whether it is times d, and the rest of a way.

        Raises Uncountable where the predicate stands in an existential.
        """
        check_polynomial(self.estimator.counter, self.predicate)
        return tuple(self._parts())

    def _parts(self) -> Iterator[tuple[int, bool, Conjunction]]:
        ways = self.estimator.counter.ways
        for way in ways.conjunctions:
            own = [(p, t) for p, t in way if isinstance(p, Atom) and p.predicate == self.predicate]
            for some in chain.from_iterable(combinations(own, n) for n in range(1, len(own) + 1)):
                false = sum(not true for _, true in some) + (not ways.truth)
                same = [(e, True) for atom, _ in some for e in equations(atom, self.flipped)]
                rest = (*(each for each in way if each not in some), *same)
                yield (-1) ** false, len(some) % 2 == 1, rest

    def _networks(self, fixed: Conjunction = ()) -> list[tuple[int, bool, Network]]:
        types = {**dict(zip(self.flipped, self.types, strict=True)), **self.estimator.types}
        found = [
            (coefficient, odd, network((*parts, *fixed), types, self.flipped))
            for coefficient, odd, parts in self.parts
        ]
        return [(coefficient, odd, net) for coefficient, odd, net in found if net is not None]

    def width(self) -> int:
        """Return the width of the widest network: estimates with a larger bound are exact."""
        return max((net.width() for _, _, net in self._networks()), default=0)

    def change(self, world: World) -> Factor:
        """Return the estimated count after the flip of each atom minus that before it, where it is not 0.

        The variables are the atom's arguments, then those that the count keeps. Raises TooLarge.
        """
        check_memory([net for _, _, net in self._networks()], world, self.estimator.bound)
        self.estimator.counter.prepare(world)
        keep = self.estimator.counter.keep
        domains = [world.domains.get(self.estimator.types[v], ()) for v in keep]
        rows, values = [np.zeros((0, len(self.types) + len(keep)), np.int64)], [np.zeros(0)]
        for key in product(*map(enumerate, domains)):
            fixed = tuple(
                (Equal(Variable(v), Constant(c)), True) for v, (_, c) in zip(keep, key, strict=True)
            )
            change = self._change(world, fixed)
            where = np.argwhere(change)
            numbers = np.tile(np.array([n for n, _ in key], np.int64), (len(where), 1))
            rows.append(np.concatenate([where, numbers], axis=1))
            values.append(change[change != 0.0])
        return Factor((*self.flipped, *keep), Sparse(np.concatenate(rows), np.concatenate(values)))

    def _change(self, world: World, fixed: Conjunction) -> Floats:
        sizes = [*map(world.size, self.types)]
        by_parity = np.zeros((2, *sizes))
        for coefficient, odd, net in self._networks(fixed):
            by_parity[int(odd)] += coefficient * net.solutions(world, self.estimator.bound)
        true = world.tables[self.predicate].rows
        sign = np.ones(sizes)
        sign[tuple(true.T)] = -1.0 if len(true) else 1.0
        total: Floats = sign * by_parity[1] + by_parity[0]
        return total
