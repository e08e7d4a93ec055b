"""How the counts change where one atom flips, for all atoms of a predicate at once.

A count is a polynomial in the atoms: with R + d e for R, where e is 1 at one atom and d is 1 - 2 R there, a
term with k atoms of the predicate changes by d^j times the term in which j of them are that atom, summed
over all sets of 1 to k of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from onlinesrl.logic.ast import Atom, Equal, Variable
from onlinesrl.mln.counting.disjoint_conjunctions import (
    Monomial,
    Part,
    Uncountable,
    free_variables,
    unify,
)
from onlinesrl.mln.counting.elimination_order import elimination
from onlinesrl.mln.counting.exact import Counter, Sum, Term
from onlinesrl.mln.counting.factors import Factor, Sparse, join, nonzero, summed
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
    known = {**dict(zip(flipped, types, strict=True)), **counter.types}
    keep = (*flipped, *counter.keep)
    odd, even = (
        tuple(
            Term(each, keep, elimination([*map(free_variables, each.atoms)], keep))
            for term in counter.sum.terms
            for each in _flipped(term.monomial, predicate, flipped, known, counter.keep, parity)
        )
        for parity in (1, 0)
    )
    of = tuple(known[v] for v in keep)
    return Flips(predicate, counter, Sum(keep, of, odd), Sum(keep, of, even))


def check_polynomial(counter: Counter, predicate: str) -> None:
    """Raise Uncountable where the predicate stands in an existential."""
    if any(predicate in _predicates(each) for each in counter.existentials.values()):
        raise Uncountable(
            f"{predicate} stands in an existential, which is no polynomial in its atoms",
            "learn with contrastive-divergence, voted-perceptron or max-margin, which ground it",
        )


def arguments_of(predicate: str, types: Sequence[str]) -> tuple[str, ...]:
    """Return variables for the arguments of the atom that flips."""
    return tuple(f"{predicate}.{k}" for k in range(len(types)))


def _flipped(
    term: Monomial,
    predicate: str,
    flipped: Sequence[str],
    types: dict[str, str],
    kept: Sequence[str],
    parity: int,
) -> Iterator[Monomial]:
    """Yield a term with the flipped atom in place of an odd, or even, number of the predicate's atoms."""
    own = [atom for atom in term.atoms if atom.predicate == predicate]
    names = {*flipped, *kept, *chain(*map(free_variables, term.atoms))}
    known = {name: type_ for name, type_ in types.items() if name in names}
    for some in chain.from_iterable(combinations(own, n) for n in range(1, len(own) + 1)):
        if len(some) % 2 == parity:
            parts: list[Part] = [atom for atom in term.atoms if atom not in some]
            parts += [e for atom in some for e in equations(atom, flipped)]
            unified = unify(parts, known, (*flipped, *kept))
            if unified is not None:
                atoms = (*sorted(unified[0], key=repr),)
                yield Monomial(term.coefficient, atoms, (*term.free, *unified[1]))


def equations(atom: Atom, flipped: Sequence[str]) -> list[Part]:
    """Return what makes an atom the one that flips."""
    return [Equal(Variable(v), t) for v, t in zip(flipped, atom.terms, strict=True)]


def _predicates(counter: Counter) -> set[str]:
    inner = {name for each in counter.existentials.values() for name in _predicates(each)}
    own = {p.predicate for way in counter.ways.conjunctions for p, _ in way if isinstance(p, Atom)}
    return own | inner
