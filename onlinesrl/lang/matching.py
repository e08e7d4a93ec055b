"""Recognising a clause again: equal up to names of variables and order of literals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TypeAlias

from onlinesrl.lang.ast import Constant, Leaf, Variable, leaves
from onlinesrl.lang.normal import Clause, Existential

Kind: TypeAlias = tuple[bool, str]
"""A literal's sign and predicate, or what stands for it: see `_parts`."""

_Part: TypeAlias = tuple[Kind, tuple[Leaf, ...]]
_Binding: TypeAlias = Mapping[tuple[str, str], Leaf]


@dataclass(frozen=True, slots=True)
class Pattern:
    """How the holes of one clause must be filled to make it an instance of another.

    ``constants`` are pairs of a hole and the constant that it must hold, ``equal`` pairs of holes
    that must hold the same, and ``key`` the holes that hold the other clause's template.
    """

    constants: tuple[tuple[int, str], ...]
    equal: tuple[tuple[int, int], ...]
    key: tuple[int, ...]


def signature(clause: Clause) -> tuple[Kind, ...]:
    """Return what clauses that match have in common."""
    return tuple(sorted(kind for kind, _ in _parts(clause)))


def patterns(clause: Clause, holes: Sequence[str | None], model: Clause) -> Iterator[Pattern]:
    """Yield the ways in which instances of ``clause`` are instances of the clause ``model``.

    ``clause`` has a `+` variable ``?i`` in place of each constant, its hole i, which occurs once;
    ``holes[i]`` is the constant in it where that is the same in all instances. A clause of the
    model without some variable of its own template cannot be recognised.
    """
    for binding in _bindings(_parts(clause), _parts(model), holes, {}):
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


def _parts(clause: Clause) -> list[_Part]:
    """Return a clause as literals of which all must match.

    Equalities have the predicate ``=``, comparisons ``integer <`` and so on, the conditions on
    computed variables ``:=+`` and so on. Literals of an existential part have ``EXIST`` before
    the predicate and one more argument, a variable for the part; further ones name its variables.
    """
    parts = _body_parts(clause)
    for number, existential in enumerate(clause.exists):
        part = Variable(f"EXIST {number}")
        parts += [((True, "EXIST"), (part, Variable(name))) for name in existential.variables]
        parts += [
            ((sign, f"EXIST {predicate}"), (part, *leaves))
            for (sign, predicate), leaves in _body_parts(existential)
        ]
    return parts


def _body_parts(body: Clause | Existential) -> list[_Part]:
    parts: list[_Part] = [
        ((each.positive, each.atom.predicate), tuple(chain(*map(leaves, each.atom.terms))))
        for each in body.literals
    ]
    parts += [((sign, "="), (left, right)) for sign, left, right in body.equalities]
    parts += [
        ((sign, f"integer {op}"), (left, right)) for sign, op, left, right in body.comparisons
    ]
    return parts + [((True, f":={op}"), (name, x, y)) for name, op, x, y in body.computed]


def _bindings(
    parts: Sequence[_Part], model: Sequence[_Part], holes: Sequence[str | None], binding: _Binding
) -> Iterator[_Binding]:
    """Yield the bindings that pair each part with one of the model's, by depth-first search."""
    if not parts:
        yield binding
        return
    kind, terms = parts[0]
    for index, (model_kind, model_terms) in enumerate(model):
        if model_kind == kind:
            left = [*model[:index], *model[index + 1 :]]
            for order in _orders(kind[1], model_terms):
                extended = _bind(terms, order, holes, binding)
                if extended is not None:
                    yield from _bindings(parts[1:], left, holes, extended)


def _orders(predicate: str, terms: tuple[Leaf, ...]) -> list[tuple[Leaf, ...]]:
    """Return the orders of a literal's arguments that mean the same: two for an equality."""
    if predicate.rsplit(" ", maxsplit=1)[-1] != "=":
        return [terms]
    return [terms, (*terms[:-2], terms[-1], terms[-2])]


def _bind(
    terms: Sequence[Leaf], model: Sequence[Leaf], holes: Sequence[str | None], binding: _Binding
) -> _Binding | None:
    """Extend a binding by pairs of terms: variables one to one, holes to what may fill them."""
    extended = dict(binding)
    for term, other in zip(terms, model, strict=True):
        assert isinstance(term, Variable)
        ordinary = isinstance(other, Variable) and not other.plus
        if term.plus == ordinary:
            return None
        if not term.plus:
            if extended.setdefault(("variable", term.name), other) != other:
                return None
            if extended.setdefault(("model", other.name), term) != term:
                return None
            continue
        hole = term.name.removeprefix("?")
        if isinstance(other, Constant) and holes[int(hole)] not in {None, other.name}:
            return None
        extended["hole", hole] = other
    return extended
