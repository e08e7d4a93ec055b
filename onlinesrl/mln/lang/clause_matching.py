"""Matching of clauses that are equal up to names of variables and order of literals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from onlinesrl.logic.ast import Arithmetic, Constant, Function, Leaf, Not, Term, Variable
from onlinesrl.logic.cnf import Compared, Disjunct, Literal, Some, disjunctions
from onlinesrl.mln.lang.clausal_form import Clause

Kind: TypeAlias = tuple[bool, str]
"""The sign and predicate of a literal, or their substitute for other parts: see `shape`."""

Part: TypeAlias = tuple[Kind, tuple[Term, ...]]
_Binding: TypeAlias = Mapping[tuple[str, str], Leaf]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The conditions on the holes of one clause that make it an instance of another clause.

    ``constants`` are pairs of a hole and its required constant. ``equal`` are pairs of holes that must have
    equal constants. ``key`` has the holes of the other clause's template constants.
    """

    constants: tuple[tuple[int, str], ...]
    equal: tuple[tuple[int, int], ...]
    key: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The literals of a clause for matching; all must match. Matching shapes have equal ``kinds``."""

    parts: tuple[Part, ...]
    template: tuple[str, ...]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The signs and predicates in sorted order."""
        return tuple(sorted(kind for kind, _ in self.parts))


def shape(clause: Clause) -> Shape:
    """Return a clause's shape.

    A comparison has its operator as predicate. A literal of an existential part has ``EXIST`` before
    the predicate and a first argument that stands for the part. Additional ``EXIST`` literals list the
    part's variables.
    """
    (disjunction,) = disjunctions(clause.formula if clause.sign > 0 else Not(clause.formula))
    parts = [part for number, literal in enumerate(disjunction) for part in _parts(literal, number)]
    return Shape(tuple(parts), clause.template)


def _parts(disjunct: Disjunct, number: int) -> Iterator[Part]:
    match disjunct:
        case Literal(positive, atom):
            yield (positive, atom.predicate), atom.terms
        case Compared(positive, op, left, right):
            yield (positive, op), (left, right)
        case Some(names, parts):
            group = Variable(f"EXIST {number}")
            for name in names:
                yield (True, "EXIST"), (group, Variable(name))
            for part in parts:
                for (positive, predicate), terms in _parts(part, number):
                    yield (positive, f"EXIST {predicate}"), (group, *terms)


def patterns(shape: Shape, holes: Sequence[str | None], model: Shape) -> Iterator[Pattern]:
    """Yield the conditions under which instances of ``shape`` are instances of ``model``.

    In ``shape``, a `+` variable ``?i``, called hole i, replaces each occurrence of a constant.
    ``holes[i]`` is the constant of hole i if all instances have the same constant, else None. A model
    clause that lacks a variable of its template never matches.
    """
    for binding in _bindings(shape.parts, model.parts, holes, {}):
        filled = [binding.get(("hole", str(index))) for index in range(len(holes))]
        places = {
            name: [index for index, term in enumerate(filled) if term == Variable(name, plus=True)]
            for name in model.template
        }
        if all(places.values()):
            yield Pattern(
                constants=tuple(
                    (index, term.name)
                    for index, term in enumerate(filled)
                    if isinstance(term, Constant) and holes[index] is None
                ),
                equal=tuple(pair for group in places.values() for pair in pairwise(group)),
                key=tuple(group[0] for group in places.values()),
            )


def _bindings(
    parts: Sequence[Part], model: Sequence[Part], holes: Sequence[str | None], binding: _Binding
) -> Iterator[_Binding]:
    """Yield the bindings that pair each part with a part of the model, by depth-first search."""
    if not parts:
        yield binding
        return
    kind, terms = parts[0]
    for index, (model_kind, model_terms) in enumerate(model):
        if model_kind == kind:
            remaining = [*model[:index], *model[index + 1 :]]
            orders = [model_terms]  # an equality matches from left to right and from right to left
            if kind[1] in {"=", "EXIST ="}:
                orders.append((*model_terms[:-2], model_terms[-1], model_terms[-2]))
            for order in orders:
                extended = _bind_all(terms, order, holes, binding)
                if extended is not None:
                    yield from _bindings(parts[1:], remaining, holes, extended)


def _bind_all(
    terms: Sequence[Term], model: Sequence[Term], holes: Sequence[str | None], binding: _Binding
) -> _Binding | None:
    """Extend a binding by pairs of terms; None if they do not match."""
    extended: _Binding | None = binding
    for term, other in zip(terms, model, strict=True):
        extended = _bind(term, other, holes, extended) if extended is not None else None
    return extended


def _bind(
    term: Term, other: Term, holes: Sequence[str | None], binding: _Binding
) -> _Binding | None:
    """Extend a binding by a pair of terms; variables are bound one to one. None: no match."""
    match term, other:
        case Function(name, parts), Function(model_name, model_parts):
            fits = name == model_name and len(parts) == len(model_parts)
            return _bind_all(parts, model_parts, holes, binding) if fits else None
        case Arithmetic(op, left, right), Arithmetic(model_op, model_left, model_right):
            sides = (left, right), (model_left, model_right)
            return _bind_all(*sides, holes, binding) if op == model_op else None
        case Variable(), Variable() | Constant():
            return _bind_leaf(term, other, holes, binding)
    return None


def _bind_leaf(
    term: Variable, other: Leaf, holes: Sequence[str | None], binding: _Binding
) -> _Binding | None:
    ordinary = isinstance(other, Variable) and not other.plus
    if term.plus == ordinary:
        return None
    extended = dict(binding)
    if not term.plus:
        if extended.setdefault(("variable", term.name), other) != other:
            return None
        return extended if extended.setdefault(("model", other.name), term) == term else None
    hole = term.name.removeprefix("?")
    if isinstance(other, Constant) and holes[int(hole)] not in {None, other.name}:
        return None
    extended["hole", hole] = other
    return extended
