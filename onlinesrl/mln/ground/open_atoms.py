"""Plans that find the open query atoms; atoms that hard rules make false are not created.

Take a hard clause whose only query literal is negative, such as ``AdvisedBy(s, p) => Professor(p).``. An
atom is false if, in some grounding, evidence does not satisfy the remaining literals. If the rest is one
positive literal, the plan joins the atom with the literal's relation. For any other clause, the plan
excludes atoms for which such a grounding exists. A hard ``P(x, y) => Q(y).`` joins with the open atoms of
Q, which are found first. Atoms in the evidence are always created, and so are all atoms of a predicate
with an exactly-one group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onlinesrl.logic.ast import Atom, Constant, Variable
from onlinesrl.mln.ground.join_planner import (
    Absent,
    Check,
    ClausePlan,
    Compare,
    Plan,
    Step,
    arrange,
    leaves,
    number_checks,
)
from onlinesrl.mln.lang.clausal_form import Literal


@dataclass(frozen=True)
class Exclusion:
    """A plan that searches for a grounding of a hard clause that makes a given atom false.

    The steps start from the atom's arguments. None of ``exists`` may have a binding.
    """

    steps: tuple[Step, ...]
    exists: tuple[tuple[Step, ...], ...]
    types: Mapping[str, str] = field(hash=False)

    def __str__(self) -> str:
        parts = ["; ".join(map(str, steps)) for steps in (self.steps, *self.exists)]
        return " unless ".join(parts)


@dataclass(frozen=True)
class Candidates:
    """The plan that finds the open atoms of a query predicate; ``types`` has its arguments first."""

    predicate: str
    steps: tuple[Step, ...]
    exclusions: tuple[Exclusion, ...]
    types: Mapping[str, str] = field(hash=False)

    def __str__(self) -> str:
        lines = [f"{self.predicate}({', '.join(self.types)})", *map(str, self.steps)]
        return "\n  ".join([*lines, *(f"but not {e}" for e in self.exclusions)])


class _Decider(NamedTuple):
    """A hard clause that makes atoms false.

    ``own`` is the negative literal of these atoms. ``joined`` is the atom of the only other literal, if
    the clause is simple enough for a join.
    """

    plan: ClausePlan
    own: Literal
    joined: Atom | None


def candidates(plan: Plan) -> tuple[Candidates, ...]:
    """Compile the plans of the open atoms of all query predicates; empty if no hard rule excludes any."""
    exactly = {name for name, group in plan.groups.items() if group.exactly}
    deciders: dict[str, list[_Decider]] = {name: [] for name in plan.query}
    for clause in plan.clauses:
        decider = _decider(clause)
        if decider is not None and decider.own.atom.predicate not in exactly:
            deciders[decider.own.atom.predicate].append(decider)
    if not any(len(d.plan.query) == 1 for clauses in deciders.values() for d in clauses):
        return ()
    compiled: list[Candidates] = []
    for name in _order(deciders):
        known = {earlier.predicate for earlier in compiled}
        compiled.append(_candidates(plan, name, deciders[name], known))
    return tuple(compiled)


def _decider(plan: ClausePlan) -> _Decider | None:
    """Return the decider of a hard clause that makes atoms false; None for any other clause."""
    negative = [x for x in plan.query if not x.positive]
    if not plan.clause.hard or len(negative) != 1 or any(e.query for e in plan.exists):
        return None
    (literal,) = negative
    if len(plan.query) == 1:
        return _Decider(plan, literal, _joined(plan, literal))
    joined = _joined(plan, literal)
    return None if joined is None or len(plan.query) > 2 else _Decider(plan, literal, joined)


def _joined(plan: ClausePlan, literal: Literal) -> Atom | None:
    """Return the atom of the only other literal, if it is positive and has no further variables."""
    clause, terms = plan.clause, leaves(literal.atom)
    names = [t.name for t in terms if isinstance(t, Variable)]
    other_literals = [x for x in clause.literals if x is not literal]
    rest = (clause.equalities, clause.comparisons, clause.computed, clause.exists, clause.domains)
    if (
        len(set(names)) < len(terms)
        or any(rest)
        or len(other_literals) != 1
        or not other_literals[0].positive
    ):
        return None
    atom = other_literals[0].atom
    covered = {t.name for t in leaves(atom) if isinstance(t, Variable)} <= set(names)
    return atom if covered and atom.predicate != literal.atom.predicate else None


def _order(deciders: Mapping[str, Sequence[_Decider]]) -> list[str]:
    """Order predicates so that each one follows the predicates it joins with, if possible."""
    remaining, order = list(deciders), list[str]()
    while remaining:
        ready = [n for n in remaining if not {*_needs(deciders[n])} & {*remaining} - {n}]
        order.append((ready or remaining)[0])
        remaining.remove(order[-1])
    return order


def _needs(deciders: Sequence[_Decider]) -> list[str]:
    return [d.joined.predicate for d in deciders if len(d.plan.query) == 2 and d.joined is not None]


def _candidates(
    plan: Plan, name: str, deciders: Sequence[_Decider], predicates: set[str]
) -> Candidates:
    kinds = plan.program.predicates[name].types
    types = {f"${n}": kind for n, kind in enumerate(kinds)}
    joins, exclusions = [], []
    for decider in deciders:
        opened = len(decider.plan.query) == 2
        if opened and predicates.isdisjoint(_needs([decider])):
            continue
        if decider.joined is None:
            exclusions.append(_exclusion(decider, types))
        else:
            terms = leaves(decider.own.atom)
            place = {t.name: f"${n}" for n, t in enumerate(terms) if isinstance(t, Variable)}
            renamed = [
                Variable(place[term.name]) if isinstance(term, Variable) else term
                for term in leaves(decider.joined)
            ]
            joins.append((Atom(decider.joined.predicate, tuple(renamed)), opened))
    return Candidates(name, arrange(joins, [], [*types], types, set()), tuple(exclusions), types)


def _exclusion(decider: _Decider, arguments: Mapping[str, str]) -> Exclusion:
    """Compile the search for a grounding that only the clause's own literal can make true."""
    plan, clause = decider.plan, decider.plan.clause
    evidence = [x for x in clause.literals if x is not decider.own]
    checks: list[Check] = []
    for term, place in zip(leaves(decider.own.atom), arguments, strict=True):
        sides = (Variable(place), term) if isinstance(term, Constant) else (term, Variable(place))
        checks.append(Compare(True, *sides))
    checks += [Absent(x.atom) for x in evidence if x.positive]
    checks += [Compare(not equal, a, b) for equal, a, b in clause.equalities]
    checks += number_checks(clause, wanted=False)
    joins = [(x.atom, False) for x in evidence if not x.positive]
    types = {**arguments, **plan.types}
    inner = {v for e in clause.exists for v in e.variables}
    order = [v for v in plan.types if v not in inner]
    steps = arrange(joins, checks, order, types, set(arguments))
    return Exclusion(steps, tuple(e.full for e in plan.exists), types)
