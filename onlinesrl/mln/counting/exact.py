"""Exact counts: a formula compiled once to sums of eliminations, run in any number of worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onlinesrl.logic.ast import Formula, free_variables
from onlinesrl.mln.counting.disjoint_conjunctions import (
    Conjunction,
    Monomial,
    Ways,
    derived,
    monomials,
    plain,
    quantified,
    ways,
)
from onlinesrl.mln.counting.elimination_order import EliminationStep, elimination
from onlinesrl.mln.counting.factors import (
    MAX_ROWS,
    Factor,
    Sparse,
    TooLarge,
    eliminated,
    join,
    largest,
    nonzero,
    summed,
)
from onlinesrl.mln.counting.world import Table, World

Counts = npt.NDArray[Any]
"""Whole numbers: int64, or Python's integers in an array of objects where these might not fit."""

_FITS = 1 << 48
"""So large a term is int64: the sum of all terms of a formula fits then."""


@dataclass(frozen=True)
class Term:
    """A monomial, and the steps that sum it over the variables that are not kept."""

    monomial: Monomial
    keep: tuple[str, ...]
    steps: tuple[EliminationStep, ...]

    @classmethod
    def of(cls, monomial: Monomial, keep: tuple[str, ...]) -> Term:
        """Return a monomial with its steps."""
        return cls(monomial, keep, elimination([*map(free_variables, monomial.atoms)], keep))

    def factors(self, world: World) -> list[Factor]:
        """Return factors of kept variables only, whose product is the sum over the others."""
        live = dict(enumerate(map(world.factor, self.monomial.atoms)))
        first = len(live)
        for k, step in enumerate(self.steps):
            parts = [live.pop(i) for i in step.inputs]
            live[first + k] = eliminated(parts, step.scope, world.base)
        return [*live.values()]

    def times(self, world: World) -> int:
        """Return what all values are multiplied by: coefficient and sizes of the free domains."""
        return self.monomial.coefficient * prod(map(world.size, self.monomial.free))

    def dense(self, world: World, sizes: Sequence[int]) -> Counts:
        """Return the sum for all constants of the kept variables, with axes of length 1 where it is alike.

        There is a first axis of length 1: operations on arrays without axes give numbers, and NumPy's do not
        go with Python's.
        """
        factors, scale = self.factors(world), self.times(world)
        bound = prod((max(1, largest(factor.of.values)) for factor in factors), start=abs(scale))
        total: Counts = np.full((1,) * (len(self.keep) + 1), scale, _dtype(bound, _FITS))
        for scope, sparse in factors:
            shape = [n if v in scope else 1 for v, n in zip(self.keep, sizes, strict=True)]
            array = np.zeros((1, *shape), total.dtype)
            none = np.zeros(len(sparse.rows), np.int64)
            places = dict(zip(scope, sparse.rows.T, strict=True))
            if self.keep:
                array[none, *(places.get(v, none) for v in self.keep)] = sparse.values
            else:
                array[0] = sum(sparse.values.tolist())
            total = total * array
        return total


@dataclass(frozen=True)
class Sum:
    """A sum of terms, as a function of the kept variables."""

    keep: tuple[str, ...]
    types: tuple[str, ...]
    terms: tuple[Term, ...]

    def dense(self, world: World) -> Counts:
        """Return the sum for all constants of the kept variables. Raises TooLarge."""
        sizes = [*map(world.size, self.types)]
        if prod(sizes) > MAX_ROWS:
            reason = f"counts for each of {', '.join(self.types)} are {prod(sizes):,}"
            raise TooLarge(f"{reason}, more than {MAX_ROWS:,}", "keep fewer variables apart (`+`)")
        total: Counts = np.zeros((1,) * (len(sizes) + 1), np.int64)
        for term in self.terms:
            total = total + term.dense(world, sizes)
        return np.broadcast_to(total, (1, *sizes))[0, ...]

    def sparse(self, world: World) -> Factor:
        """Return the sum where it is not zero. Raises TooLarge."""
        parts = []
        for term in self.terms:
            factors = term.factors(world)
            bound = {v for factor in factors for v in factor.scope}
            rest = [(v, t) for v, t in zip(self.keep, self.types, strict=True) if v not in bound]
            if prod(world.size(t) for _, t in rest) > MAX_ROWS:
                types = ", ".join(t for _, t in rest)
                raise TooLarge(
                    f"a part of it may hold of more than {MAX_ROWS:,} values of {types}",
                    "let a true atom inside it have these variables",
                )
            factors += [Factor((v,), Sparse(np.arange(world.size(t))[:, None])) for v, t in rest]
            number = term.times(world)
            value: Counts = np.array([number], _dtype(number, 1 << 62))
            product = Factor((), Sparse(np.zeros((1, 0), np.int64), value))
            for factor in factors:
                joined = [*join(product, factor, world.base)]
                product = summed(
                    joined, tuple(dict.fromkeys((*product.scope, *factor.scope))), world.base
                )
            parts.append(product)
        return nonzero(summed(parts, self.keep, world.base))


def _dtype(number: int, most: int) -> type:
    return np.int64 if abs(number) < most else object


@dataclass(frozen=True)
class Counter:
    """The count of a formula's satisfied groundings, compiled; it can be run in any number of worlds.

    ``types`` are those of the variables that are counted. Counted is for each constant of the variables
    to ``keep``, whose axes the counts have; without them it is one number. ``existentials`` are the
    formula's, by text: for which constants they hold is counted first.
    """

    formula: Formula
    types: Mapping[str, str]
    keep: tuple[str, ...]
    ways: Ways
    existentials: Mapping[str, Counter]

    @cached_property
    def sum(self) -> Sum:
        """The terms whose sum is the count. Raises Uncountable, at the first use."""
        signed = [
            (1 if self.ways.truth else -1, conjunction) for conjunction in self.ways.conjunctions
        ]
        whole: list[tuple[int, Conjunction]] = [] if self.ways.truth else [(1, ())]
        summands = monomials([*whole, *signed], self.types, self.keep)
        terms = tuple(Term.of(monomial, self.keep) for monomial in summands)
        return Sum(self.keep, tuple(self.types[v] for v in self.keep), terms)

    def compile(self) -> None:
        """Compile the terms, of existentials too. Raises Uncountable."""
        for part in (self, *self.existentials.values()):
            _ = part.sum
            if part is not self:
                part.compile()

    def check(self, world: World) -> None:
        """Check nothing: what an exact count needs shows as it runs."""

    def groundings(self, world: World) -> int:
        """Return the number of groundings, true or false, for each constant of the kept variables."""
        return prod(world.size(t) for v, t in self.types.items() if v not in self.keep)

    def count(self, world: World) -> Counts:
        """Return the numbers of satisfied groundings. Raises Uncountable, TooLarge."""
        self.prepare(world)
        return self.sum.dense(world)

    def prepare(self, world: World) -> None:
        """Note in a world for which constants the existentials hold. Raises Uncountable, TooLarge."""
        for name, body in self.existentials.items():
            if name not in world.derived:
                body.prepare(world)
                world.derived[name] = Table(body.sum.sparse(world).of.rows, body.sum.types)


def counter(formula: Formula, types: Mapping[str, str], keep: Sequence[str] = ()) -> Counter:
    """Compile the count of a formula for each constant of the variables to ``keep``, which need not occur.

    ``types`` are those of all variables, quantified ones too. Raises Uncountable.
    """
    names = dict.fromkeys((*keep, *free_variables(formula)))
    types_of_names = {name: types[name] for name in names}
    existentials = {
        derived(existential).predicate: counter(
            existential.body, types, free_variables(existential)
        )
        for existential in quantified(formula)
    }
    return Counter(formula, types_of_names, tuple(keep), ways(plain(formula)), existentials)
