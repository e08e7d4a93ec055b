"""The reference grounder: every assignment of every clause's variables, by the definition.

Atoms are ``(predicate, constants)``, their constants strings. A conjunction of several literals that
an existential quantifier asks for stands in a clause like an atom, as the set of its literals. Of the
package it uses only the normal form of the rules.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from itertools import combinations, product
from math import prod
from typing import NamedTuple

from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.logic.ast import Constant, Program, Variable
from onlinesrl.mln.ground.ground_mrf import Floats, GroundMRF
from onlinesrl.mln.lang.clausal_form import Clause, Existential, clauses
from tests.support.ground_mrfs import clause_model
from tests.support.semantics import COMPARE, calculate

Atom = tuple[str, tuple[str, ...]]
Literals = frozenset[tuple[bool, "Atom | Literals"]]


class Soft(NamedTuple):
    """One grounding of a soft clause: its weight is that of ``clause`` for ``key``."""

    clause: Clause
    key: tuple[str, ...]
    literals: Literals


class World:
    """An example's domains, true evidence, and query atoms that may be true.

    The domains are the constants of the program, the evidence and the query, and those ``shown`` by
    earlier examples of types that the program declares open: never those of the truth. ``atoms``
    maps each query atom that a state decides to None, or to its observed value. Query atoms outside
    are false.
    """

    def __init__(
        self,
        program: Program,
        query: Iterable[str],
        example: Example,
        shown: Iterable[tuple[str, str]] = (),
    ):
        self.program, self.query, self.example = program, tuple(query), example
        evidence = list(_values(example.evidence))
        self.truth = {atom for atom, value in _values(example.truth) if value}
        self.denied = {atom for atom, value in _values(example.truth) if not value}
        listed = [atom for atom, _ in _values(example.query)]
        named = [atom for atom, _ in evidence]
        self.domains = {
            kind: set(program.types.get(kind, ()))
            for predicate in program.predicates.values()
            for kind in predicate.types
        }
        for name, constants in named + listed:
            for kind, constant in zip(program.predicates[name].types, constants, strict=True):
                self.domains[kind].add(constant)
        for kind, constant in shown:
            self.domains[kind].add(constant)
        self.numbers = {
            (name, tuple(map(str, atom.args))): atom.value
            for name, rows in example.evidence.items()
            for atom in rows
            if program.predicates[name].numeric
        }
        self.true = {atom for atom, value in evidence if value and atom[0] not in self.query}
        self.true |= {atom for atom, number in self.numbers.items() if number}
        opened = self._all_query_atoms() if example.query is None else listed
        self.atoms: dict[Atom, bool | None] = dict.fromkeys(opened)
        self.atoms.update((atom, value) for atom, value in evidence if atom[0] in self.query)

    def _all_query_atoms(self) -> Iterator[Atom]:
        for name in self.query:
            kinds = self.program.predicates[name].types
            for constants in product(*(self.domains[kind] for kind in kinds)):
                yield name, constants

    def decided(self) -> set[Atom]:
        """The atoms that evidence and a hard clause with no other query literal make false."""
        found: set[Atom] = set()
        for clause in clauses(self.program):
            names = [x.atom.predicate for x in clause.literals]
            names += [x.atom.predicate for each in clause.exists for x in each.literals]
            if clause.hard and sum(name in self.query for name in names) == 1:
                for _, literals in self.groundings(clause):
                    found |= {a for positive, a in literals if len(literals) == 1 and not positive}
        marked = {name for name in self.query if self.program.predicates[name].exactly_one}
        return {a for a in found if self.atoms[a] is None and a[0] not in marked}

    def closed(self) -> set[Atom]:
        """The atoms that follow to be false when those that are known to be are taken away, and so on."""
        left = copy(self)
        left.atoms = dict(self.atoms)
        while units := {
            a
            for x in left.hard()
            if len(x) == 1
            for p, a in x
            if not p and left.atoms.get(a, 0) is None
        }:
            left.close(units)
        return self.atoms.keys() - left.atoms.keys()

    def close(self, atoms: Iterable[Atom]) -> None:
        """Let atoms be false."""
        for atom in atoms:
            del self.atoms[atom]

    def soft(self) -> Counter[Soft]:
        """The soft groundings that evidence does not decide, tautologies too: their signs times numbers."""
        found: Counter[Soft] = Counter()
        for clause in clauses(self.program):
            if not clause.hard:
                for value, literals in self._groundings(clause):
                    if literals:
                        key = tuple(value[name] for name in clause.template)
                        product_ = clause.sign * self._product(clause, value)
                        found[Soft(clause, key, literals)] += product_
        return found

    def _product(self, clause: Clause, value: dict[str, str]) -> float:
        """The product of a grounding's numbers; 1 without any."""
        atoms = [
            x.atom for x in clause.literals if self.program.predicates[x.atom.predicate].numeric
        ]
        return prod(
            self.numbers[x.predicate, tuple(_constant(t, value) for t in x.terms)] for x in atoms
        )

    def hard(self) -> set[Literals]:
        """The hard clauses over query atoms: of rules, of `!` marks and of observed atoms.

        An empty one says that the evidence breaks a hard rule.
        """
        found = {frozenset({(value, a)}) for a, value in self.atoms.items() if value is not None}
        for clause in clauses(self.program):
            if clause.hard:
                found |= {x for _, x in self.groundings(clause) if not tautology(x)}
        for group in self.exactly_one_groups():
            found.add(frozenset((True, a) for a in group))
            found |= {frozenset({(False, a), (False, b)}) for a, b in combinations(group, 2)}
        return found

    def exactly_one_groups(self) -> list[list[Atom]]:
        """The atoms of a `!` predicate that agree in the arguments without the mark."""
        groups: dict[Atom, list[Atom]] = {}
        for name, constants in self.atoms:
            marked = self.program.predicates[name].exactly_one
            if marked:
                rest = tuple(c for k, c in enumerate(constants) if k not in marked)
                groups.setdefault((name, rest), []).append((name, constants))
        return list(groups.values())

    def groundings(self, clause: Clause) -> Iterator[tuple[tuple[str, ...], Literals]]:
        """Yield the template's constants and the literals left of each undecided grounding."""
        for value, literals in self._groundings(clause):
            yield tuple(value[name] for name in clause.template), literals

    def _groundings(self, clause: Clause) -> Iterator[tuple[dict[str, str], Literals]]:
        for value in self._bindings(clause, {}):
            literals = self._left(clause, value)
            if literals is not None:
                yield value, literals

    def _bindings(self, body: Clause | Existential, value: dict[str, str]) -> Iterator[dict]:
        """Extend a binding to the variables of a clause or an existential, where its conditions hold.

        A clause's own variables in an existential are constants like any other.
        """
        inner = () if isinstance(body, Existential) else body.exists
        others = {name for each in inner for name in each.variables}
        literals = [*body.literals, *(x for each in inner for x in each.literals)]
        types = dict(body.domains) | {
            term.name: kind
            for literal in literals
            for term, kind in zip(
                literal.atom.terms,
                self.program.predicates[literal.atom.predicate].types,
                strict=True,
            )
            if isinstance(term, Variable) and term.name not in others and term.name not in value
        }
        yield from self._extended(body, value, [*types.items()])

    def _extended(
        self, body: Clause | Existential, value: dict[str, str], types: list[tuple[str, str]]
    ) -> Iterator[dict]:
        """Bind one variable after the other, as long as what can be computed holds."""
        computed = self._computed(body, value, whole=not types)
        if computed is None:
            return
        if not types:
            yield computed
            return
        (name, kind), *rest = types
        constants = self.domains[kind]
        if name in computed:
            constants = [each for each in constants if _number(each) == _number(computed[name])]
        for constant in constants:
            yield from self._extended(body, computed | {name: constant}, rest)

    def _computed(
        self, body: Clause | Existential, value: dict[str, str], whole: bool
    ) -> dict[str, str] | None:
        """Compute what is computed from what is bound, all of it if that is the ``whole``.

        None where a condition fails or compares what is no integer.
        """
        value = {**value}
        for variable, op, *sides in body.computed:
            if whole or all(_bound(each, value) for each in sides):
                numbers = [_number(_constant(each, value)) for each in sides]
                result = None if None in numbers else calculate(op, *numbers)
                if (
                    result is None
                    or _number(value.setdefault(variable.name, str(result))) != result
                ):
                    return None
        compared = [x for _, _, *sides in body.comparisons for x in sides]
        bound = [x for x in compared if whole or _bound(x, value)]
        return None if None in [_number(_constant(x, value)) for x in bound] else value

    def _left(self, clause: Clause, value: dict[str, str]) -> Literals | None:
        """Return the query literals of a grounding, None where the evidence makes it true."""
        left: set = set()
        for truth in self._parts(clause, value):
            if truth is True:
                return None
            if truth is not False:
                left.add(truth)
        for each in clause.exists:
            for complete in self._bindings(each, value):
                parts = [x for x in self._parts(each, complete) if x is not True]
                if not parts:
                    return None
                if False not in parts and not tautology(frozenset(parts)):
                    left.add(parts[0] if len({*parts}) == 1 else (True, frozenset(parts)))
        return frozenset(left)

    def _parts(self, body: Clause | Existential, value: dict[str, str]) -> Iterator:
        """Yield the truth of each part of a clause or conjunction, or the literal that it hangs on."""
        for equal, a, b in body.equalities:
            yield (_constant(a, value) == _constant(b, value)) == equal
        for positive, op, *sides in body.comparisons:
            yield COMPARE[op](*(_number(_constant(x, value)) for x in sides)) == positive
        for literal in body.literals:
            atom = literal.atom.predicate, tuple(_constant(x, value) for x in literal.atom.terms)
            if atom in self.atoms:
                yield literal.positive, atom
            else:
                yield (atom in self.true) == literal.positive


def _bound(term: Constant | Variable, value: Mapping[str, str]) -> bool:
    return isinstance(term, Constant) or term.name in value


def _constant(term: Constant | Variable, value: Mapping[str, str]) -> str:
    return term.name if isinstance(term, Constant) else value[term.name]


def _number(constant: str) -> int | None:
    return int(constant) if re.fullmatch("0|-?[1-9][0-9]{0,17}", constant) else None


def holds(literals: Literals, state: set[Atom]) -> bool:
    """Tell whether a clause is true in a state."""
    return any(
        all(holds(frozenset({x}), state) for x in atom) == positive
        if isinstance(atom, frozenset)
        else (atom in state) == positive
        for positive, atom in literals
    )


def tautology(literals: Literals) -> bool:
    """Tell whether a clause has an atom and its negation."""
    return any((not positive, atom) in literals for positive, atom in literals)


def model(world: World, soft: Mapping[Soft, float]) -> tuple[GroundMRF, Floats, list[Atom]]:
    """Return the world's ground model, its clauses' weights, those of ``soft``, and its atoms by number."""
    atoms = sorted(world.atoms)
    number = {atom: n + 1 for n, atom in enumerate(atoms)}
    clauses_: list[tuple[float | None, Literals]]
    clauses_ = [(None, literals) for literals in sorted(world.hard(), key=_order)]
    clauses_ += [(w, x.literals) for x, w in soft.items() if not tautology(x.literals)]
    for atom in sorted(
        {a for _, x in clauses_ for _, a in x if isinstance(a, frozenset)}, key=_order
    ):
        number[atom] = len(number) + 1
        clauses_.append((None, frozenset({(True, atom), *((not p, a) for p, a in atom)})))
        clauses_ += [(None, frozenset({(False, atom), literal})) for literal in atom]
    numbered = [
        (w, [number[a] if positive else -number[a] for positive, a in literals])
        for w, literals in clauses_
    ]
    return *clause_model(len(number), numbered), atoms


def _order(literals: Literals) -> list[str]:
    """What sorts sets of literals, the same in every process."""
    return sorted(f"{p}{_order(a) if isinstance(a, frozenset) else a}" for p, a in literals)


def _values(atoms) -> Iterator[tuple[Atom, bool]]:
    for name, listed in (atoms or {}).items():
        for atom in listed:
            args, value = (atom.args, atom.value) if isinstance(atom, ValuedAtom) else (atom, 1.0)
            yield (name, tuple(map(str, args))), value == 1.0
