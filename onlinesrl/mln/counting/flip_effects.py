"""How the counts change where one atom flips, for all atoms of a predicate at once.

A count is a polynomial in the atoms: with R + d e for R, where e is 1 at one atom and d is 1 - 2 R there, a
term with k atoms of the predicate changes by d^j times the term in which j of them are that atom, summed
over all sets of 1 to k of them.

Estimates by IJGP(i) are of the ways of a formula, whose factors are R or 1 - R: at the flipped atom the
factor of a true atom changes by d, that of a false one by -d. Where some of the atoms are the flipped one,
the solutions of what remains are estimated for each of its constants. The paper (Sarkhel et al. 2016)
estimates the counts before and after each flip; this is one propagation for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product

import numpy as np

from onlinesrl.logic.ast import Atom, Constant, Equal, Variable, free_variables
from onlinesrl.mln.counting.disjoint_conjunctions import (
    Conjunction,
    Monomial,
    Part,
    Uncountable,
    subsets,
    unify,
)
from onlinesrl.mln.counting.exact import Counter, Sum, Term
from onlinesrl.mln.counting.factors import Factor, Sparse, join, nonzero, summed
from onlinesrl.mln.counting.ijgp import Estimator, Network, check_memory, network
from onlinesrl.mln.counting.world import World


@dataclass(frozen=True)
class Flips:
    """The changes of a count, compiled: sums for odd and even numbers of atoms that are the flipped one.

    The first axes are the predicate's arguments, the last ones what the count keeps.
    """

    predicate: str
    counter: Counter
    odd: Sum
    even: Sum

    def change(self, world: World) -> Factor:
        """Return the count after the flip of each atom minus the count before it, where it is not 0.

        Raises TooLarge.
        """
        self.counter.prepare(world)
        odd, even = self.odd.sparse(world), self.even.sparse(world)
        true = world.tables[self.predicate].rows
        minus = Factor(self.odd.keep[: true.shape[1]], Sparse(true, np.full(len(true), -2)))
        turned = join(odd, minus, world.base)  # of true atoms: the sign is 1 - 2 R
        return nonzero(summed([odd, even, *turned], self.odd.keep, world.base))


def flips(counter: Counter, predicate: str, types: Sequence[str]) -> Flips:
    """Compile the changes of a count where atoms of a predicate of these argument types flip.

    Raises Uncountable where the predicate stands in an existential.
    """
    check_polynomial(counter, predicate)
    flipped = arguments_of(predicate, types)
    all_types = {**dict(zip(flipped, types, strict=True)), **counter.types}
    keep = (*flipped, *counter.keep)
    terms: tuple[list[Term], list[Term]] = [], []  # for even and odd numbers of atoms
    for monomial in (term.monomial for term in counter.sum.terms):
        atoms = monomial.atoms
        names = {*keep, *chain(*map(free_variables, atoms))}
        types_of_names = {name: type_ for name, type_ in all_types.items() if name in names}
        for subset in subsets([atom for atom in atoms if atom.predicate == predicate], 1):
            parts: list[Part] = [atom for atom in atoms if atom not in subset]
            parts += [e for atom in subset for e in equations(atom, flipped)]
            if (unified := unify(parts, types_of_names, keep)) is not None:
                remaining, free = (*sorted(unified[0], key=repr),), (*monomial.free, *unified[1])
                changed = Monomial(monomial.coefficient, remaining, free)
                terms[len(subset) % 2].append(Term.of(changed, keep))
    even, odd = (Sum(keep, tuple(all_types[v] for v in keep), (*part,)) for part in terms)
    return Flips(predicate, counter, odd, even)


def check_polynomial(counter: Counter, predicate: str) -> None:
    """Raise Uncountable where the predicate stands in an existential."""
    if any(predicate in _predicates(existential) for existential in counter.existentials.values()):
        raise Uncountable(
            f"{predicate} stands in an existential, which is no polynomial in its atoms",
            "learn with contrastive-divergence or voted-perceptron (`counting: grounded`), or max-margin",
        )


def arguments_of(predicate: str, types: Sequence[str]) -> tuple[str, ...]:
    """Return variables for the arguments of the atom that flips."""
    return tuple(f"{predicate}.{k}" for k in range(len(types)))


def equations(atom: Atom, flipped: Sequence[str]) -> list[Part]:
    """Return what makes an atom the one that flips."""
    return [Equal(Variable(v), t) for v, t in zip(flipped, atom.terms, strict=True)]


def _predicates(counter: Counter) -> set[str]:
    inner = {
        name for existential in counter.existentials.values() for name in _predicates(existential)
    }
    outer = {
        p.predicate
        for conjunction in counter.ways.conjunctions
        for p, _ in conjunction
        if isinstance(p, Atom)
    }
    return outer | inner


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
        ways, parts = self.estimator.counter.ways, list[tuple[int, bool, Conjunction]]()
        for conjunction in ways.conjunctions:
            flippable = [
                (p, t)
                for p, t in conjunction
                if isinstance(p, Atom) and p.predicate == self.predicate
            ]
            for subset in subsets(flippable, 1):
                false = sum(not true for _, true in subset) + (not ways.truth)
                same = [(e, True) for atom, _ in subset for e in equations(atom, self.flipped)]
                rest = (*(part for part in conjunction if part not in subset), *same)
                parts.append(((-1) ** false, len(subset) % 2 == 1, rest))
        return tuple(parts)

    def _networks(self, fixed: Conjunction = ()) -> list[tuple[int, bool, Network]]:
        types = {**dict(zip(self.flipped, self.types, strict=True)), **self.estimator.types}
        networks = [
            (coefficient, odd, network((*parts, *fixed), types, self.flipped))
            for coefficient, odd, parts in self.parts
        ]
        return [(coefficient, odd, net) for coefficient, odd, net in networks if net is not None]

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
        sizes, true = [*map(world.size, self.types)], world.tables[self.predicate].rows
        sign = np.ones(sizes)
        sign[tuple(true.T)] = -1.0 if len(true) else 1.0
        rows, values = [np.zeros((0, len(self.types) + len(keep)), np.int64)], [np.zeros(0)]
        for key in product(*map(enumerate, domains)):
            fixed = tuple(
                (Equal(Variable(v), Constant(c)), True) for v, (_, c) in zip(keep, key, strict=True)
            )
            by_parity = np.zeros((2, *sizes))
            for coefficient, odd, net in self._networks(fixed):
                by_parity[int(odd)] += coefficient * net.solutions(world, self.estimator.bound)
            change = sign * by_parity[1] + by_parity[0]
            places = np.argwhere(change)
            numbers = np.tile(np.array([n for n, _ in key], np.int64), (len(places), 1))
            rows.append(np.concatenate([places, numbers], axis=1))
            values.append(change[change != 0.0])
        return Factor((*self.flipped, *keep), Sparse(np.concatenate(rows), np.concatenate(values)))
