"""Formulas as disjoint conjunctions, and as sums of conjunctions of atoms that are true.

A formula is true, or false, in ways of which no two hold together (Shannon's expansion). In a way some parts
(atoms, equations, existentials) are true and some are false. A false one counts as 1 - R, and multiplied out
nothing is left but atoms that are true: the answers of queries over the true atoms, however large the
domains are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import TypeAlias, TypeVar

from onlinesrl.logic.ast import (
    And,
    Atom,
    Compare,
    Constant,
    Equal,
    Exists,
    Forall,
    Formula,
    Function,
    Leaf,
    Not,
    Or,
    Term,
    Variable,
    free_variables,
    subformulas,
)
from onlinesrl.logic.partial_truth import truth, undecided
from onlinesrl.logic.text import show

Item = TypeVar("Item")
Part: TypeAlias = Atom | Equal
Conjunction: TypeAlias = tuple[tuple[Part, bool], ...]
"""Parts and whether they are true."""

MAX_TERMS = 4096
"""The most conjunctions that a formula may become."""
SAME = "="
"""Before a type: the predicate that holds of each of its constants and itself."""


class Uncountable(ValueError):
    """What a formula has that is not counted; the second argument says what to do."""


@dataclass(frozen=True)
class Ways:
    """A formula is true, or with ``truth`` false it is false, in exactly one of ``conjunctions``, or none."""

    truth: bool
    conjunctions: tuple[Conjunction, ...]


def ways(formula: Formula) -> Ways:
    """Return the ways in which a formula is true or false, whichever are fewer. Raises Uncountable."""
    candidates = [
        Ways(value, (*islice(_ways(formula, value, {}), MAX_TERMS + 1),)) for value in (False, True)
    ]
    best = min(candidates, key=lambda candidate: len(candidate.conjunctions))
    if len(best.conjunctions) > MAX_TERMS:
        raise Uncountable(
            f"it is true in more than {MAX_TERMS:,} different ways", "write it in several rules"
        )
    return best


def _ways(formula: Formula, value: bool, assigned: Mapping[Formula, bool]) -> Iterator[Conjunction]:
    def known(part: Formula) -> bool | None:
        if isinstance(part, Equal):
            sides = part.left, part.right
            if part.left == part.right or not any(isinstance(side, Variable) for side in sides):
                return part.left == part.right
        return assigned.get(part)

    found = truth(formula, known)
    if found is None:
        part = next(undecided(formula, known))
        for chosen in (True, False):
            yield from _ways(formula, value, {**assigned, part: chosen})
    elif found == value:
        yield tuple((part, chosen) for part, chosen in assigned.items() if isinstance(part, Part))


@dataclass(frozen=True)
class Monomial:
    """``coefficient`` times the number of assignments that make all atoms true.

    ``free`` are the types of the variables that no atom has, other than kept ones.
    """

    coefficient: int
    atoms: tuple[Atom, ...]
    free: tuple[str, ...]


def monomials(
    signed: Sequence[tuple[int, Conjunction]], types: Mapping[str, str], keep: Sequence[str]
) -> tuple[Monomial, ...]:
    """Multiply conjunctions, each with its coefficient, out, and add up what is alike.

    ``types`` are those of all variables that are counted, of which those to ``keep`` are not summed over.
    Raises Uncountable.
    """
    if sum(2 ** sum(not true for _, true in parts) for _, parts in signed) > MAX_TERMS:
        raise Uncountable(
            f"its positive atoms multiply out to more than {MAX_TERMS:,} conjunctions",
            "write it in several rules, or count with --method ijgp",
        )
    total: dict[tuple[frozenset[Atom], tuple[str, ...]], int] = {}
    for sign, parts in signed:
        true = [part for part, value in parts if value]
        false = [part for part, value in parts if not value]
        for subset in subsets(false):
            unified = unify([*true, *subset], types, keep)
            if unified is not None:
                total[unified] = total.get(unified, 0) + sign * (-1) ** len(subset)
    return tuple(
        Monomial(coefficient, (*sorted(atoms, key=repr),), free)
        for (atoms, free), coefficient in total.items()
        if coefficient
    )


def subsets(items: Sequence[Item], least: int = 0) -> Iterator[tuple[Item, ...]]:
    """Yield all subsets of at least so many items, the smaller ones first."""
    return chain.from_iterable(combinations(items, n) for n in range(least, len(items) + 1))


def unify(
    parts: Sequence[Part], types: Mapping[str, str], keep: Sequence[str]
) -> tuple[frozenset[Atom], tuple[str, ...]] | None:
    """Return the atoms of a conjunction without its equations, and the types of its other variables.

    None if it is false. Raises Uncountable where an equation has sides of two types.
    """
    classes: list[list[Leaf]] = []  # of what equations make equal
    for part in parts:
        if isinstance(part, Equal):
            sides = [_leaf(part.left), _leaf(part.right)]
            touched = [members for members in classes if {*members} & {*sides}]
            classes = [members for members in classes if members not in touched]
            classes.append([*dict.fromkeys(chain(*touched, sides))])
    new: dict[str, Leaf] = {}
    atoms: list[Atom] = []
    for members in classes:
        unsummed = [
            member for member in members if isinstance(member, Variable) and member.name in keep
        ]
        constants = [member for member in members if isinstance(member, Constant)]
        if len(constants) > 1:
            return None
        kinds = {types[member.name] for member in members if isinstance(member, Variable)}
        if len(kinds) > 1:
            raise Uncountable(
                f"an equation has sides of the types {' and '.join(sorted(kinds))}",
                "give them one type",
            )
        first = [*constants, *unsummed, *members][0]
        new |= {m.name: first for m in members if isinstance(m, Variable) and m not in unsummed}
        atoms += [Atom(SAME + types[k.name], (first, k)) for k in unsummed if k != first]
    for part in parts:
        if isinstance(part, Atom):
            leaves = map(_leaf, part.terms)
            terms = (new.get(t.name, t) if isinstance(t, Variable) else t for t in leaves)
            atoms.append(Atom(part.predicate, tuple(terms)))
    bound = {t.name for atom in atoms for t in atom.terms if isinstance(t, Variable)}
    equal = {t.name for t in new.values() if isinstance(t, Variable)}  # what stands for others
    free = [
        name
        for name in types
        if name not in bound and name not in keep and (name in equal or name not in new)
    ]
    return frozenset(atoms), tuple(sorted(types[name] for name in free))


def _leaf(term: object) -> Leaf:
    assert isinstance(term, Variable | Constant)
    return term


# quantifiers, and what is not counted ------------------------------------------------------------


def plain(formula: Formula) -> Formula:
    """Return a formula without the marks of variables, its existentials as atoms (`derived`).

    Raises Uncountable for functions, arithmetic and comparisons of numbers.
    """
    match formula:
        case Atom(predicate, terms):
            return Atom(predicate, tuple(map(_countable, terms)))
        case Equal(left, right):
            return Equal(_countable(left), _countable(right))
        case Compare():
            raise Uncountable("a comparison of numbers cannot be counted", _INSTEAD)
        case Exists():
            return derived(formula)
        case Forall(names, body):
            return Not(derived(Exists(names, Not(body))))
        case And(operands) | Or(operands):
            return type(formula)(tuple(map(plain, operands)))
        case _:
            return type(formula)(*map(plain, subformulas(formula)))


_INSTEAD = "make it a predicate whose true atoms are evidence, such as Less(x, y) or Father(x, y)"


def _countable(term: Term) -> Leaf:
    match term:
        case Variable(name):
            return Variable(name)
        case Constant():
            return term
        case Function(name):
            raise Uncountable(f"the function {name} cannot be counted", _INSTEAD)
    raise Uncountable("arithmetic cannot be counted", _INSTEAD)


def quantified(formula: Formula) -> Iterator[Exists]:
    """Yield the outermost existentials; ``FORALL x F`` is ``!(EXIST x !F)``."""
    match formula:
        case Exists():
            yield formula
        case Forall(names, body):
            yield Exists(names, Not(body))
        case _:
            for part in subformulas(formula):
                yield from quantified(part)


def derived(formula: Exists) -> Atom:
    """Return an existential as an atom of its free variables, whose predicate is its text."""
    return Atom(show(formula), tuple(map(Variable, free_variables(formula))))
