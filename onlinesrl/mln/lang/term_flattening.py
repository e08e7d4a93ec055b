"""Compound terms named by variables, so that literals hold variables and constants only.

``P(f(x))`` becomes ``!f(x, y) v P(y)`` in a clause, where f(x, y) is the function's relation: what
is asked of f(x) is asked of the constant that it equals. ``P(t + 1)`` becomes P(t1) and the
condition t1 = t + 1 for a grounding to count at all. In the conjunction of an existential part,
terms of its own variables are named by a positive literal, and a further variable of the part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from onlinesrl.logic.ast import Arithmetic, Atom, Function, Leaf, Term, Variable, leaves
from onlinesrl.logic.cnf import Compared, Literal

Equality: TypeAlias = tuple[bool, Leaf, Leaf]
"""``(True, x, y)`` is ``x = y``, ``(False, x, y)`` is ``x != y``."""

Comparison: TypeAlias = tuple[bool, str, Leaf, Leaf]
"""``(True, op, x, y)`` is ``x op y`` on integers, ``(False, op, x, y)`` its negation.

``op`` is one of ``< <= > >=``, or ``=`` where a side is the result of arithmetic.
"""

Computed: TypeAlias = tuple[Variable, str, Leaf, Leaf]
"""``(v, op, x, y)`` is the condition v = x op y; see `Arithmetic`."""


@dataclass(frozen=True, slots=True)
class Flat:
    """Literals, equalities and comparisons without compound terms."""

    literals: tuple[Literal, ...]
    equalities: tuple[Equality, ...]
    comparisons: tuple[Comparison, ...]


class Names:
    """The compound terms of a clause, or of one existential part (``outer``: of its clause).

    ``bound`` are the variables of the existential part, and ``taken`` all names that are used in
    the clause. ``literals`` and ``computed`` define the names, in an order in which they can be
    evaluated; ``fresh`` are the new variables.
    """

    def __init__(
        self, taken: set[str], outer: Names | None = None, bound: Iterable[str] = ()
    ) -> None:
        self.literals: list[Literal] = []
        self.computed: list[Computed] = []
        self.fresh: list[str] = []
        self._taken = taken
        self._outer = outer
        self._bound = frozenset(bound)
        self._names: dict[Term, Leaf] = {}

    def inner(self, bound: Iterable[str]) -> Names:
        """Return the names for an existential part with these variables."""
        return Names(self._taken, self, bound)

    def flat(self, parts: Iterable[Literal | Compared]) -> Flat:
        """Replace compound terms by their names, for which literals and conditions are noted."""
        literals: list[Literal] = []
        equalities: list[Equality] = []
        comparisons: list[Comparison] = []
        for part in [each for each in parts if not self._defines(each)]:
            if isinstance(part, Literal):
                atom = Atom(part.atom.predicate, tuple(map(self._leaf, part.atom.terms)))
                literals.append(Literal(part.positive, atom))
                continue
            left, right = self._leaf(part.left), self._leaf(part.right)
            numeric = isinstance(part.left, Arithmetic) or isinstance(part.right, Arithmetic)
            if part.op != "=" or numeric:
                comparisons.append((part.positive, part.op, left, right))
            else:
                equalities.append((part.positive, left, right))
        return Flat(tuple(literals), tuple(equalities), tuple(comparisons))

    def _leaf(self, term: Term) -> Leaf:
        """Return a term without parts, or the variable that names a compound term."""
        if isinstance(term, Function | Arithmetic):
            if self._outer is not None and not self._owns(term):
                return self._outer._leaf(term)
            if term not in self._names:
                self._define(term, self._new(term))
            return self._names[term]
        return term

    def _defines(self, part: Literal | Compared) -> bool:
        """Take ``v != f(x)`` in a clause, or ``v = f(x)`` in a conjunction, to name f(x) by v."""
        if not isinstance(part, Compared) or part.op != "=" or part.positive == (not self._outer):
            return False
        for variable, term in ((part.left, part.right), (part.right, part.left)):
            if isinstance(variable, Variable) and self._nameable(term, variable):
                self._define(term, variable)
                return True
        return False

    def _nameable(self, term: Term, variable: Variable) -> bool:
        compound = isinstance(term, Function | Arithmetic) and term not in self._names
        names = {leaf.name for leaf in leaves(term) if isinstance(leaf, Variable)}
        return compound and variable.name not in names and self._owns(term)

    def _owns(self, term: Term) -> bool:
        """Return whether a term is named here, and not in the clause around."""
        names = {leaf.name for leaf in leaves(term) if isinstance(leaf, Variable)}
        return self._outer is None or not names.isdisjoint(self._bound)

    def _define(self, term: Term, variable: Variable) -> None:
        self._names[term] = variable
        match term:
            case Function(name, parts):
                arguments = tuple(self._leaf(part) for part in parts)
                relation = Atom(name, (*arguments, variable))
                self.literals.append(Literal(self._outer is not None, relation))
            case Arithmetic(op, left, right):
                first, second = self._leaf(left), self._leaf(right)
                self.computed.append((variable, op, first, second))

    def _new(self, term: Function | Arithmetic) -> Variable:
        stem = "n"
        if isinstance(term, Function):
            stem = term.name[0].lower() + term.name[1:]
        elif isinstance(term.left, Variable):
            stem = term.left.name
        name = next(new for new in map(f"{stem}{{}}".format, count(1)) if new not in self._taken)
        self._taken.add(name)
        self.fresh.append(name)
        return Variable(name)
