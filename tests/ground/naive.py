"""The reference grounder: every assignment of every clause's variables, by the definition.

Atoms are ``(predicate, constants)``, their constants strings. Of the package it uses only
the normal form of the rules.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import NamedTuple

from onlinesrl.ground.model import ClauseModel
from onlinesrl.lang.ast import Constant, Program, Variable
from onlinesrl.lang.example import Example, ValuedAtom
from onlinesrl.lang.normal import Clause, clauses
from tests.infer.models import clause_model

Atom = tuple[str, tuple[str, ...]]
Literals = frozenset[tuple[bool, Atom]]


class Soft(NamedTuple):
    """One grounding of a soft clause: its weight is that of ``clause`` for ``key``."""

    clause: Clause
    key: tuple[str, ...]
    literals: Literals


class World:
    """An example's domains, true evidence, and query atoms that may be true.

    ``atoms`` maps each query atom that a state decides to None, or to its observed value. Query
    atoms outside are false.
    """

    def __init__(self, program: Program, query: Iterable[str], example: Example):
        self.program, self.query = program, tuple(query)
        evidence = list(_values(example.evidence))
        self.truth = {atom for atom, value in _values(example.truth) if value}
        listed = [atom for atom, _ in _values(example.query)]
        named = [atom for atom, _ in evidence] + [atom for atom, _ in _values(example.truth)]
        self.domains = {
            kind: set(program.types.get(kind, ()))
            for predicate in program.predicates.values()
            for kind in predicate.types
        }
        for name, constants in named + listed:
            for kind, constant in zip(program.predicates[name].types, constants, strict=True):
                self.domains[kind].add(constant)
        self.true = {atom for atom, value in evidence if value and atom[0] not in self.query}
        opened = self._all_query_atoms() if example.query is None else listed
        self.atoms: dict[Atom, bool | None] = dict.fromkeys(opened)
        self.atoms.update((atom, value) for atom, value in evidence if atom[0] in self.query)

    def _all_query_atoms(self) -> Iterator[Atom]:
        for name in self.query:
            kinds = self.program.predicates[name].types
            for constants in product(*(self.domains[kind] for kind in kinds)):
                yield name, constants

    def soft(self) -> Counter[Soft]:
        """The soft groundings that evidence does not decide, tautologies too, with their signs."""
        found: Counter[Soft] = Counter()
        for clause in clauses(self.program):
            if not clause.hard:
                for key, literals in self.groundings(clause):
                    if literals:
                        found[Soft(clause, key, literals)] += clause.sign
        return found

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
        assert not (clause.exists or clause.comparisons or clause.computed), "not in this reference"
        types = dict(clause.domains) | {
            term.name: kind
            for literal in clause.literals
            for term, kind in zip(
                literal.atom.terms,
                self.program.predicates[literal.atom.predicate].types,
                strict=True,
            )
            if isinstance(term, Variable)
        }
        for constants in product(*(self.domains[kind] for kind in types.values())):
            value = dict(zip(types, constants, strict=True))
            literals = self._left(clause, value)
            if literals is not None:
                yield tuple(value[name] for name in clause.template), literals

    def _left(self, clause: Clause, value: dict[str, str]) -> Literals | None:
        """Return the query literals of a grounding, None where the evidence makes it true."""

        def constant(term):
            return term.name if isinstance(term, Constant) else value[term.name]

        left: set[tuple[bool, Atom]] = set()
        for equal, a, b in clause.equalities:
            if (constant(a) == constant(b)) == equal:
                return None
        for literal in clause.literals:
            atom = literal.atom.predicate, tuple(map(constant, literal.atom.terms))
            if atom in self.atoms:
                left.add((literal.positive, atom))
            elif (atom in self.true) == literal.positive:
                return None
        return frozenset(left)


def tautology(literals: Literals) -> bool:
    """Tell whether a clause has an atom and its negation."""
    return any((not positive, atom) in literals for positive, atom in literals)


def model(world: World, soft: Mapping[Soft, float]) -> tuple[ClauseModel, list[Atom]]:
    """Return the world's ground model, a weight for each of ``soft``, and its atoms by number."""
    atoms = sorted(world.atoms)
    number = {atom: n + 1 for n, atom in enumerate(atoms)}
    clauses_ = [(-1, 1.0, literals) for literals in sorted(world.hard(), key=sorted)]
    clauses_ += [(n, 1.0, x.literals) for n, x in enumerate(soft) if not tautology(x.literals)]
    signed = [
        (n, sign, [number[a] if positive else -number[a] for positive, a in literals])
        for n, sign, literals in clauses_
    ]
    return clause_model(len(atoms), signed), atoms


def _values(atoms) -> Iterator[tuple[Atom, bool]]:
    for name, listed in (atoms or {}).items():
        for atom in listed:
            args, value = (atom.args, atom.value) if isinstance(atom, ValuedAtom) else (atom, 1.0)
            yield (name, tuple(map(str, args))), value == 1.0
