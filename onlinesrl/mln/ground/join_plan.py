"""Join plans: a rule compiled once into the steps that ground it in any world.

A ground clause matters only where evidence does not satisfy it, so a plan enumerates exactly those
groundings: negative evidence literals are joined, positive ones must be absent, variables that no
join binds range over their domain, equalities filter or bind (grounding.md). The plan is a pure value;
``str(plan)`` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from onlinesrl.logic.ast import Atom, Leaf, Program, Term, Variable
from onlinesrl.mln.lang.clausal_form import Clause, Literal

MAX_BLOCK = 64


@dataclass(frozen=True)
class Scan:
    """Join with the tuples of a relation; ``opened`` joins with the listed open atoms instead.

    ``value`` is the variable that is bound to the value of a numeric atom.
    """

    atom: Atom
    bound: frozenset[str]
    opened: bool = False
    value: str | None = None

    def __str__(self) -> str:
        times = "" if self.value is None else ", times its value"
        return f"{'open' if self.opened else 'join'} {_show(self.atom)}{times}"


@dataclass(frozen=True)
class Absent:
    """Keep the rows for which a relation does not hold an atom."""

    atom: Atom

    def __str__(self) -> str:
        return f"absent {_show(self.atom)}"


@dataclass(frozen=True)
class Domain:
    """Let a variable range over the world's constants of its type."""

    variable: str
    type: str
    run: bool = False

    def __str__(self) -> str:
        return f"{'run' if self.run else 'range'} {self.variable} over {self.type}"


@dataclass(frozen=True)
class Compare:
    """Keep the rows where two terms are equal (or unequal); ``binds``: assign left from right."""

    equal: bool
    left: Leaf
    right: Leaf
    binds: bool = False

    def __str__(self) -> str:
        sign = ":=" if self.binds else "=" if self.equal else "!="
        return f"where {_name(self.left)} {sign} {_name(self.right)}"


@dataclass(frozen=True)
class Order:
    """Keep the rows where two whole numbers compare: ``<``, ``<=``, ``=`` or ``!=``."""

    op: str
    left: Leaf
    right: Leaf

    def __str__(self) -> str:
        return f"where {_name(self.left)} {self.op} {_name(self.right)}"


@dataclass(frozen=True)
class Compute:
    """Bind a variable to a number computed from two others, or keep the rows where it is that."""

    variable: Leaf
    op: str
    left: Leaf
    right: Leaf
    binds: bool = False

    def __str__(self) -> str:
        sign = ":=" if self.binds else "="
        return (
            f"where {_name(self.variable)} {sign} {_name(self.left)} {self.op} {_name(self.right)}"
        )


Check: TypeAlias = Absent | Compare | Order | Compute
Step: TypeAlias = Scan | Domain | Check


@dataclass(frozen=True)
class ExistentialPlan:
    """How the bindings of an existential are found once the clause's own variables are bound."""

    full: tuple[Step, ...]
    listed: tuple[Step, ...]
    query: tuple[Literal, ...]

    def __str__(self) -> str:
        query = " ^ ".join(("" if x.positive else "!") + _show(x.atom) for x in self.query)
        return "; ".join([*map(str, self.full), f"or {query}"])


@dataclass(frozen=True)
class ClausePlan:
    """How one clause is grounded, in worlds with all atoms open and in worlds that list them."""

    clause: Clause
    full: tuple[Step, ...]
    listed: tuple[Step, ...]
    query: tuple[Literal, ...]
    types: Mapping[str, str] = field(hash=False)
    exists: tuple[ExistentialPlan, ...] = ()

    def __str__(self) -> str:
        query = " v ".join(("" if x.positive else "!") + _show(x.atom) for x in self.query)
        steps = [*map(str, self.full), f"write {query}"]
        steps += [f"for some {e}" for e in self.exists]
        if self.clause.template:
            steps.append(f"weight of ({', '.join(self.clause.template)})")
        return "\n".join([self.clause.text, *(f"  {step}" for step in steps)])


@dataclass(frozen=True)
class Group:
    """At most (or exactly) one atom is true among those that differ only in some arguments."""

    arguments: tuple[int, ...]
    exactly: bool

    def show(self, predicate: str) -> str:
        """Return the constraint in words."""
        places = " and ".join(str(k + 1) for k in self.arguments)
        return f"{'exactly' if self.exactly else 'at most'} one {predicate} along argument {places}"


def leaves(atom: Atom) -> tuple[Leaf, ...]:
    """Return the terms of an atom of a clause, where compound ones have been named."""
    return cast(tuple[Leaf, ...], atom.terms)


def _name(term: Leaf) -> str:
    return term.name if isinstance(term, Variable) else f'"{term.name}"'


def _show(atom: Atom) -> str:
    return f"{atom.predicate}({', '.join(map(_name, leaves(atom)))})"


def _variables(terms: Iterable[Term]) -> list[str]:
    return [t.name for t in terms if isinstance(t, Variable)]


@dataclass(frozen=True)
class Plan:
    """A model compiled for a set of query predicates."""

    program: Program
    query: tuple[str, ...]
    groups: Mapping[str, Group]
    clauses: tuple[ClausePlan, ...]
    local: frozenset[str]  # types whose constants are numbered anew in every world
    template: frozenset[str]  # types of + variables: constants are known stream-wide
    numeric: bool = False  # some step compares or computes whole numbers

    def __str__(self) -> str:
        return "\n".join(map(str, self.clauses))


NUMBER = ""  # the type of a computed variable that need not be a constant of the world
VALUE = "#"  # the type of a variable that is bound to the value of a numeric atom


def block(
    clause: Clause, types: Mapping[str, str], declared: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Return the template variables over small declared types: their weights lie side by side."""
    chosen, size = [], 1
    for v in clause.template:
        n = len(declared.get(types[v], ()))
        if n and size * n <= MAX_BLOCK:
            chosen.append(v)
            size *= n
    return tuple(chosen)
