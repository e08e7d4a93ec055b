"""Satisfied groundings of a program's formulas in a world, without grounding it.

Counted is what weights count (`mln.lang.clausal_form`): a soft formula of several clauses counts by clause,
a rule with ``+`` variables for each of their constants. The sum of weights times counts is a world's score.
"""

from __future__ import annotations

from collections import Counter as Multiset
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, product
from math import prod
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Ints
from onlinesrl.core.errors import DataError, ModelError, UsageError
from onlinesrl.core.example import GroundAtom, Number, show_ground_atom
from onlinesrl.logic.ast import (
    Atom,
    Constant,
    Formula,
    Leaf,
    Program,
    Variable,
    replace_terms,
    subformulas,
)
from onlinesrl.logic.text import show
from onlinesrl.mln.counting.disjoint_conjunctions import Uncountable
from onlinesrl.mln.counting.exact import Counter, Counts, counter
from onlinesrl.mln.counting.factors import TooLarge
from onlinesrl.mln.counting.ijgp import Estimator
from onlinesrl.mln.counting.world import World, world_of
from onlinesrl.mln.lang.clausal_form import Clause, Existential, clauses, plus_variables
from onlinesrl.mln.lang.evidence_weights import with_weights

METHODS = ("exact", "ijgp")
I_BOUND = 2
"""The bound of IJGP's clusters, where none is given."""


@dataclass(frozen=True)
class Count:
    """How many groundings of a formula are true.

    ``rule`` counts from 1; ``exact`` is false of an estimate, which may be no whole number.
    """

    rule: int
    formula: str
    satisfied: int | float
    groundings: int
    exact: bool

    @property
    def violated(self) -> int | float:
        """The number of groundings that are false: the count of the formula's negation."""
        return self.groundings - self.satisfied

    def __str__(self) -> str:
        """Return the count, that of all groundings, and the formula, between tabs."""
        return f"{self.satisfied:{'' if self.exact else '.10g'}}\t{self.groundings}\t{self.formula}"


def check_method(method: str, i_bound: int | None) -> None:
    """Raise UsageError for an unknown method, or a bound that does not go with it."""
    if method not in METHODS:
        raise UsageError(f"unknown method {method!r}; expected {' or '.join(METHODS)}")
    if i_bound is not None and method == "exact":
        raise UsageError(
            "exact counts have no bound of clusters: --i-bound goes with --method ijgp"
        )
    if i_bound is not None and i_bound < 1:
        raise UsageError(f"--i-bound is {i_bound}; expected at least 1")


class Place(NamedTuple):
    """Where a clause's counts stand among the weights: from ``first`` on, by constants of its template.

    ``share`` is the number of its rule's clauses, which share a weight.
    """

    first: int
    sizes: Sequence[int]
    share: int


def strides_of(sizes: Sequence[int]) -> list[int]:
    """Return what each argument adds to the number of a row; see ``numbered``."""
    return [prod(sizes[k + 1 :]) for k in range(len(sizes))]


def numbered(rows: Ints, sizes: Sequence[int]) -> Ints:
    """Return the number of each row, int64[rows, arguments], where the last argument varies fastest."""
    numbers: Ints = rows @ np.array(strides_of(sizes), np.int64)
    return numbers


class Counters:
    """The counts of a program's clauses, compiled once, for any number of worlds.

    ``clauses`` are those of `mln.lang.clausal_form`; ``compiled`` has a counter for each, with its template.
    Raises UsageError as `check_method`, and ModelError for a rule that cannot be counted.
    """

    def __init__(self, program: Program, method: str = "exact", i_bound: int | None = None) -> None:
        check_method(method, i_bound)
        self.program = program
        self.clauses = clauses(program)
        self.compiled: list[Counter | Estimator] = []
        for clause in self.clauses:
            with self.located(clause):
                _check_numbers(program, clause.formula)
                exact = counter(clause.formula, _types(program, clause), clause.template)
                compiled = exact if method == "exact" else Estimator(exact, i_bound or I_BOUND)
                compiled.compile()
                self.compiled.append(compiled)

    def counts(self, world: World) -> list[Counts]:
        """Return each clause's counts, with an axis for each variable of its template.

        Raises ModelError, before anything is counted where clusters of IJGP do not fit memory.
        """
        for clause, compiled in zip(self.clauses, self.compiled, strict=True):
            with self.located(clause):
                compiled.check(world)
        counts = []
        for clause, compiled in zip(self.clauses, self.compiled, strict=True):
            with self.located(clause):
                counts.append(compiled.count(world))
        return counts

    def places(self, world: World) -> tuple[list[Place], int]:
        """Return the place of each clause among the weights, and the number of all weights.

        They are those of the soft rules in their order, of which one with ``+`` variables has a weight for
        each of their constants, the last variable varying fastest.
        """
        rules, shares = self.program.rules, Multiset(clause.rule for clause in self.clauses)
        sizes = []
        for rule in rules:
            types = dict(rule.types)
            sizes.append([world.size(types[v]) for v in plus_variables(rule.formula)])
        numbers = (
            0 if rule.hard else prod(sizes_of_rule)
            for rule, sizes_of_rule in zip(rules, sizes, strict=True)
        )
        first = [*accumulate(numbers, initial=0)]
        places = [Place(first[c.rule], sizes[c.rule], shares[c.rule]) for c in self.clauses]
        return places, first[-1]

    def listed(self, world: World) -> Iterator[Count]:
        """Yield the counts of all clauses, and of all constants of their templates. Raises ModelError."""
        counts = self.counts(world)
        for clause, compiled, numbers in zip(self.clauses, self.compiled, counts, strict=True):
            for key in self._keys(clause, world):
                constants = dict(zip(clause.template, key, strict=True))
                place = (world.numbers[compiled.types[v]][c] for v, c in constants.items())
                yield Count(
                    rule=clause.rule + 1,
                    formula=show(_with(clause.formula, constants)) if key else clause.text,
                    satisfied=numbers.item(*place),
                    groundings=compiled.groundings(world),
                    exact=isinstance(compiled, Counter),
                )

    def _keys(self, clause: Clause, world: World) -> Iterable[tuple[str, ...]]:
        types = _types(self.program, clause)
        domains = [world.domains.get(types[v], ()) for v in clause.template]
        if clause.table is None or clause.weight:
            return product(*domains)
        constants = [*map(frozenset, domains)]
        return [key for key, _ in clause.table if all(map(frozenset.__contains__, constants, key))]

    @contextmanager
    def located(self, clause: Clause) -> Iterator[None]:
        """Say where the rule is that cannot be counted."""
        try:
            yield
        except (Uncountable, TooLarge) as error:
            position = self.program.rules[clause.rule].position
            reason, hint = error.args
            raise ModelError(
                f"this rule cannot be counted: {reason}: {clause.text}",
                file=self.program.file,
                line=position.line,
                column=position.column,
                hint=hint,
            ) from None


def count_program(
    program: Program, atoms: Sequence[GroundAtom], method: str = "exact", i_bound: int | None = None
) -> list[Count]:
    """Return the counts of all rules, in their order, in the world where only what is given is true.

    Raises as `Counters`, and DataError for an atom that is not known to be true or false.
    """
    for atom in atoms:
        if not isinstance(atom.value, bool | Number):
            name = show_ground_atom(atom.predicate, atom.arguments)
            place = f"line {atom.line}: " if atom.line else ""
            says = "is unknown" if atom.value is None else f"has the value {atom.value:g}"
            raise DataError(
                f"{place}{name} {says}, and groundings are counted in one world: "
                "let it be true, or false (`!`, or left out)"
            )
    counters = Counters(with_weights(program, atoms), method, i_bound)
    return [*counters.listed(world_of(program, atoms))]


def _types(program: Program, clause: Clause) -> Mapping[str, str]:
    """Return the types of a clause's variables, existential ones too."""
    types = dict(program.rules[clause.rule].types)
    parts: list[Clause | Existential] = [clause, *clause.exists]
    for part in parts:
        types |= dict(part.domains)
        for literal in part.literals:
            declared = program.predicates[literal.atom.predicate].types
            for term, type_ in zip(literal.atom.terms, declared, strict=True):
                if isinstance(term, Variable):
                    types[term.name] = type_
    return types


def _check_numbers(program: Program, formula: Formula) -> None:
    """Raise Uncountable for an atom whose value is a number."""
    if isinstance(formula, Atom) and program.predicates[formula.predicate].numeric:
        raise Uncountable(
            f"{formula.predicate} has numbers, which are neither true nor false",
            "leave the rule out, or learn its weight with contrastive-divergence or voted-perceptron "
            "(`counting: grounded`), or max-margin",
        )
    for part in subformulas(formula):
        _check_numbers(program, part)


def _with(formula: Formula, constants: Mapping[str, str]) -> Formula:
    def new(leaf: Leaf) -> Leaf:
        is_bound = isinstance(leaf, Variable) and leaf.name in constants
        return Constant(constants[leaf.name]) if is_bound else leaf

    return replace_terms(formula, new)
