"""Incremental grounding of Markov logic: facts change, and only the ground clauses they touch are made again.

A ground clause depends on the atoms that its clause mentions under its substitution, and on the constants
over which unbound variables range. So each changed atom is matched with every literal of every clause, in
existential parts as well, and each constant that comes or goes with every variable that no join binds. The
join plan goes on from there: over the old facts it leads to the ground clauses that may go, over the new
facts to those that may come. Several changed atoms may lead to one substitution. Its ground clause is made
once, since the substitution is its key.

A variable of an existential part that ranges over a type lengthens all ground clauses of its clause when
the type grows: then the whole clause is ground again. Where targets are listed it ranges over these instead,
and only the ground clauses that one of them touches are.

A clause that is left out is ground for given constants only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, product
from math import nan, prod
from typing import NamedTuple, TypeAlias

from onlinesrl.core.errors import Infeasible
from onlinesrl.core.example import show_ground_atom
from onlinesrl.core.explain.conflict import Pattern, impossible
from onlinesrl.core.paused_collection import paused_collection
from onlinesrl.logic.ast import Atom, Constant, Program, Variable
from onlinesrl.logic.atom_index import AtomIndex, Constants, GroundAtom
from onlinesrl.logic.ground_world import GroundRule, GroundRules
from onlinesrl.mln.ground.binding_lists import Bindings, ClauseJoins, Key, Row, getter
from onlinesrl.mln.ground.join_planner import (
    VALUE,
    ClausePlan,
    ExistentialPlan,
    Scan,
    compile_program,
    holds_by_default,
    leaves,
    pinned_steps,
)
from onlinesrl.mln.ground.model_index import PAIRS
from onlinesrl.mln.kernels.grounding_frames import EVERY
from onlinesrl.mln.lang.clausal_form import Clause
from onlinesrl.mln.lang.weight_file import rule_text

Binding: TypeAlias = Mapping[str, str]
"""The constants of variables, and the decimal digits of those that are plain numbers."""
ClauseWeights: TypeAlias = tuple[float | None, dict[Constants, float]]
"""The weight of a clause, and those of the constants of its template that have another."""
_TypedConstant: TypeAlias = tuple[str, str]


class Step(NamedTuple):
    """The ground clauses that may differ, by key, and the query atoms that may differ, with their values.

    A clause is None where it is no more, or evidence makes it true. An atom has the value NaN if it is open,
    1 or 0 if it is observed, None if it is no more.
    """

    rows: dict[Key, Row | None]
    atoms: dict[GroundAtom, float | None]


class _Clause:
    """A clause's plan, its own variables, and those that no join binds.

    In a world that lists its targets, joins bind variables to those of listed atoms as well.
    """

    def __init__(self, plan: ClausePlan, listed: bool):
        self.plan, self.clause = plan, plan.clause
        own, exists = plan.clause.literals, plan.clause.exists
        inner = {name for part in exists for name in part.variables}
        kinds = {name: kind for name, kind in plan.types.items() if kind != VALUE}
        self.names = [name for name in kinds if name not in inner]
        self.atoms = [x.atom for x in (*own, *(x for part in exists for x in part.literals))]
        joined = _scanned(plan, listed)
        for part, existential in zip(plan.exists, exists, strict=True):
            joined |= _scanned(part, listed) & {*existential.variables}
        self.free = {name: kind for name, kind in kinds.items() if name not in joined}
        asked = {name for literal in plan.query for name in _names(literal.atom)}
        self.may_wait = plan.clause.hard and holds_by_default(plan, False) and asked >= {*self.free}
        """Whether it may be left out: facts and query atoms then tell which ground clauses go."""

    def template(self, key: Key) -> Constants:
        """Return the constants of the template of a ground clause's weight."""
        return tuple([key[1][self.names.index(name)] for name in self.clause.template])

    def weight(self, weights: ClauseWeights, key: Key, row: Row) -> float | None:
        """Return the weight of a ground clause; None for a hard one."""
        if self.clause.hard:
            return None
        default, table = weights
        weight = table.get(self.template(key), default) if table else default
        return 0.0 if weight is None else weight * row.factor

    @property
    def unweighted(self) -> ClausePlan:
        """The plan without what its ground clauses do not depend on."""
        clause = replace(self.clause, rule=0, weight=None, table=None, text="")
        return replace(self.plan, clause=clause)

    def shown(self, program: Program, constants: Constants) -> str:
        """Return the rule of a ground clause as text."""
        return rule_text(program, self.clause, dict(zip(self.names, constants, strict=True)))

    def own(self, binding: Binding) -> Binding:
        """Return a binding without the variables of existential parts."""
        return {name: binding[name] for name in self.names if name in binding}


class IncrementalGrounder:
    """The ground clauses and query atoms of a program over facts that change.

    If ``listed``, only atoms of query predicates that the facts list are open; otherwise all are, over the
    constants that the program declares or some fact mentions. Clauses that an ``old`` grounder has as well,
    with any weights, have its numbers, and all others new ones. A hard clause that holds by default is left
    out once the variables that no fact binds have more than ``eager`` values together.
    """

    def __init__(
        self,
        program: Program,
        query: Sequence[str],
        listed: bool = False,
        old: IncrementalGrounder | None = None,
        eager: int = EVERY,
    ):
        self.plan = compile_program(program, query)
        self.listed, self.eager = listed, eager
        self.left_out = frozenset[int]()
        """The clauses, by number, of which only given ground clauses are made."""
        self._facts = AtomIndex()
        clauses = [_Clause(plan, listed) for plan in self.plan.clauses]
        self._clauses = old.numbered(clauses) if old else dict(enumerate(clauses))
        self.weights = {n: _weights(clause.clause) for n, clause in self._clauses.items()}
        """The weights of clauses by number."""
        self._joins_of = dict[tuple[int, tuple[str, ...]], Callable[[Bindings], Bindings]]()
        self._rows_of = dict[int, Callable[[Collection[Constants]], dict[Key, Row | None]]]()
        self._domains: dict[str, dict[str, int]] = {
            kind: dict.fromkeys(program.types.get(kind, ()), 1)
            for predicate in program.predicates.values()
            for kind in predicate.types
        }
        arities = {name: len(program.predicates[name].types) for name in self.plan.groups}
        self._group_cells = {
            name: getter([k for k in range(arities[name]) if k not in group.arguments])
            for name, group in self.plan.groups.items()
        }
        self._mentions: dict[str, list[tuple[int, Atom]]] = {}
        for number, clause in self._clauses.items():
            for atom in clause.atoms:
                self._mentions.setdefault(atom.predicate, []).append((number, atom))

    def fact(self, atom: GroundAtom) -> float | None:
        """Return the value of a fact, NaN for a listed open atom; None if there is no such fact."""
        return self._facts.get(atom)

    def facts(self) -> dict[GroundAtom, float]:
        """Return all facts in the order of their names, NaN for listed open atoms."""
        return self._facts.sorted()

    def clause(self, number: int) -> Clause:
        """Return a clause by its number."""
        return self._clauses[number].clause

    def counted(
        self, rows: Mapping[Key, Row | None], others: Mapping[Key, Row | None]
    ) -> GroundRules:
        """Return what counts ground clauses by their present rules and weights, without some ``others``."""
        clauses, weights, program = self._clauses, self.weights, self.plan.program

        def rule(key: Key, row: Row) -> GroundRule:
            clause = clauses[key[0]]
            weight = clause.weight(weights[key[0]], key, row)
            text = clause.shown(program, key[1])
            return text, None if weight is None else clause.clause.sign * weight

        return lambda: Counter(
            rule(key, row)
            for key, row in rows.items()
            if row is not None and row != others.get(key)
        )

    def shown(self, key: Key) -> tuple[str, list[tuple[GroundAtom, bool]]]:
        """Return the text of a ground clause, and its evidence atoms outside of EXIST, with their truth."""
        clause = self._clauses[key[0]]
        binding = dict(zip(clause.names, key[1], strict=True))
        query, program = self.plan.query, self.plan.program
        evidence = [x.atom for x in clause.clause.literals if x.atom.predicate not in query]
        atoms = [_ground(atom, binding) for atom in evidence]
        return clause.shown(program, key[1]), [
            (atom, bool(self.fact(atom))) for atom in dict.fromkeys(atoms)
        ]

    def weight(self, key: Key, row: Row) -> float | None:
        """Return the weight of a ground clause; None for a hard one."""
        return self._clauses[key[0]].weight(self.weights[key[0]], key, row)

    def weights_of(self, rows: Mapping[Key, Row | None]) -> list[float | None]:
        """Return the weights of ground clauses; None for hard ones, 0 for those that are none."""
        clauses, weights = self._clauses, self.weights
        return [
            0.0 if row is None else clauses[key[0]].weight(weights[key[0]], key, row)
            for key, row in rows.items()
        ]

    def template(self, key: Key) -> Constants:
        """Return the constants of the template of a ground clause's weight."""
        return self._clauses[key[0]].template(key)

    def group(self, atom: GroundAtom) -> GroundAtom | None:
        """Return the key of the atom's group: at most or exactly one of its atoms is true."""
        cells = self._group_cells.get(atom[0])
        return None if cells is None else (atom[0], cells(atom[1]))

    @paused_collection()
    def everything(self) -> Step:
        """Return all ground clauses and query atoms. Raises Infeasible as ``change`` does."""
        self._leave_out()
        rows = self._ground([(number, {}) for number in self._clauses])
        predicates = self.plan.program.predicates
        atoms = dict[GroundAtom, float | None]()
        for name in self.plan.query:
            values = self._facts.values(name)
            every: Iterable[Constants] = values
            if not self.listed:
                every = product(*(self._domains[kind] for kind in predicates[name].types))
            atoms |= {(name, constants): values.get(constants, nan) for constants in every}
        return Step(_present(rows), atoms)

    @paused_collection()
    def change(self, facts: Mapping[GroundAtom, float | None]) -> Step:
        """Change facts: 1 is true, 0 false, None takes a fact away, NaN lists an open atom.

        A numeric atom has any value; 0 means that it is absent. False and listed atoms mention their
        constants. Raises Infeasible if the facts break a hard rule; then nothing has changed.
        """
        before, left_out = {atom: self.fact(atom) for atom in facts}, self.left_out
        if not len(self._facts):
            old = self.everything()
            self.set_facts(facts)
            try:
                new = self.everything()
            except Infeasible:
                self.set_facts(before)
                self.left_out = left_out
                raise
            return Step(
                {**dict.fromkeys(old.rows), **new.rows}, {**dict.fromkeys(old.atoms), **new.atoms}
            )
        moved = self._moved(facts)
        self._leave_out()
        pins = [
            pin
            for atom, value in facts.items()
            if self._joins(atom, before[atom]) != self._joins(atom, value)
            for pin in self._matches(atom)
        ]
        pins += [pin for kind, name in moved for pin in self._ranges(kind, name)]
        try:
            came = self._ground(pins)
        except Infeasible:
            self.set_facts(before)
            self.left_out = left_out
            raise
        atoms, keys = self._atoms_of(facts, moved), dict[Key, None]()
        if pins or moved:
            self.set_facts(before)
            keys = self._keys(pins)
            atoms |= self._atoms_of(facts, moved)
            self.set_facts(facts)
        rows: dict[Key, Row | None] = {**keys, **came}
        return Step(rows, {atom: self._value(atom) for atom in atoms})

    # clauses that are left out -------------------------------------------------------------------

    @property
    def numbers(self) -> list[int]:
        """The numbers of the clauses, in their order."""
        return [*self._clauses]

    @property
    def may_wait(self) -> set[int]:
        """The numbers of the clauses that may be left out."""
        return {n for n, clause in self._clauses.items() if clause.may_wait and not self.listed}

    def size(self, number: int) -> int:
        """Return how many values the variables of a clause that no fact binds have together."""
        return prod(len(self._domains[kind]) for kind in self._clauses[number].free.values())

    def every(self, number: int) -> dict[Key, Row | None]:
        """Return all ground clauses of a clause."""
        return _present(self._made(self._substitutions([(number, {})])))

    def only(self, keys: Iterable[Key]) -> dict[Key, Row | None]:
        """Return ground clauses by their keys; None for those that are no more, or true."""
        rows: dict[Key, Row | None] = dict.fromkeys(keys)
        pins = [(n, dict(zip(self._clauses[n].names, row, strict=True))) for n, row in rows]
        return rows | self._made(self._substitutions(pins))

    def beside(self, atoms: Iterable[GroundAtom]) -> dict[Key, Row | None]:
        """Return the ground clauses, of clauses that are left out, that mention atoms."""
        pins = (pin for atom in atoms for pin in self._matches(atom) if pin[0] in self.left_out)
        return self._made(self._substitutions(pins))

    def follow(self, facts: Mapping[GroundAtom, float | None]) -> Iterator[Key]:
        """Change facts; yield ground clauses that their atoms may have to do with, perhaps repeatedly.

        These are of clauses that are not left out.
        """
        moved = self._moved(facts)
        pins = [pin for atom in facts for pin in self._matches(atom)]
        pins += [pin for kind, name in moved for pin in self._ranges(kind, name)]
        for number, constants in self._joined(self._whole(pins)):
            yield from ((number, row) for row in constants)

    def mentioned(self, key: Key) -> dict[GroundAtom, None]:
        """Return the atoms that a ground clause mentions outside of EXIST, those of evidence too."""
        clause = self._clauses[key[0]]
        binding = dict(zip(clause.names, key[1], strict=True))
        return {_ground(literal.atom, binding): None for literal in clause.clause.literals}

    def atoms(self, row: Row, key: Key) -> set[GroundAtom]:
        """Return the atoms of a ground clause, and the facts that existential parts may have."""
        result = {*row.atoms}
        for predicate, terms in self._patterns(key):
            cells = tuple([term for term in terms if term is not None])
            columns = tuple([place for place, term in enumerate(terms) if term is not None])
            matching = self._facts.matching(predicate, columns, cells)
            result |= {(predicate, constants) for constants in matching}
            if len(cells) == len(terms):
                result.add((predicate, cells))
        return result

    def depends(self, key: Key) -> Iterator[Pattern]:
        """Yield patterns of the atoms on which a ground clause depends.

        Where a variable ranges over a type, these are all atoms that mention its constant, or any constant.
        """
        clause = self._clauses[key[0]]
        yield from self._patterns(key)
        binding = dict(zip(clause.names, key[1], strict=True))
        for name, kind in clause.free.items():
            yield from self._mentioning(kind, binding.get(name))

    def group_depends(self, group: GroundAtom, several_true: bool) -> Iterator[Pattern]:
        """Yield patterns of the atoms on which it depends that a group allows one true atom, or asks for one.

        Where ``several_true`` are in a conflict, it matters only that it allows no more than one.
        """
        name, constants = group
        kinds, rule = self.plan.program.predicates[name].types, self.plan.groups[name]
        terms = iter(constants)
        yield name, tuple([None if k in rule.arguments else next(terms) for k in range(len(kinds))])
        if rule.exactly and not several_true and not self.listed:
            for place in rule.arguments:
                yield from self._mentioning(kinds[place], None)

    def _mentioning(self, kind: str, constant: str | None) -> Iterator[Pattern]:
        """Yield patterns of the atoms that mention a constant of a type; None: any constant."""
        for name, predicate in self.plan.program.predicates.items():
            for place, place_kind in enumerate(predicate.types):
                if place_kind == kind:
                    places = range(len(predicate.types))
                    yield name, tuple([constant if p == place else None for p in places])

    def _patterns(self, key: Key) -> Iterator[Pattern]:
        """Yield patterns of the atoms that a ground clause mentions; existential variables are any."""
        clause = self._clauses[key[0]]
        binding: dict[str, str | None] = dict.fromkeys(clause.plan.types)
        binding |= zip(clause.names, key[1], strict=True)
        for atom in clause.atoms:
            terms = [binding[x.name] if isinstance(x, Variable) else x.name for x in leaves(atom)]
            yield atom.predicate, tuple(terms)

    # rules ---------------------------------------------------------------------------------------

    def weights_as(self, clauses: Iterable[tuple[Clause, Clause]]) -> dict[int, ClauseWeights]:
        """Return weights, those of some of the program's clauses as in others."""
        other = dict[Clause, list[Clause]]()
        for clause, weighted in clauses:
            other.setdefault(clause, []).append(weighted)
        weights = {**self.weights}
        for number, own in self._clauses.items():
            if own.clause in other:
                weights[number] = _weights(other[own.clause].pop(0))
        return weights

    def numbered(self, clauses: Iterable[_Clause]) -> dict[int, _Clause]:
        """Return clauses by the numbers that they have here; others have new numbers."""
        numbers = dict[ClausePlan, list[int]]()
        for number, clause in reversed(self._clauses.items()):
            numbers.setdefault(clause.unweighted, []).append(number)
        new, result = count(max(self._clauses, default=-1) + 1), dict[int, _Clause]()
        for clause in clauses:
            same = numbers.get(clause.unweighted)
            result[same.pop() if same else next(new)] = clause
        return result

    def under(
        self, program: Program, rows: Mapping[Key, Row]
    ) -> tuple[IncrementalGrounder, Step] | None:
        """Return a grounder of the same facts for another program, and what differs for its reader.

        ``rows`` are all ground clauses here. Only clauses that are new are ground, and others where they
        range over a constant that comes or goes. None if predicates or groups are others, or a clause is
        left out: then all is new.
        Raises Infeasible if the facts break a hard rule.
        """
        other = IncrementalGrounder(program, self.plan.query, self.listed, self, self.eager)
        predicates = self.plan.program.predicates
        if other.plan.groups != self.plan.groups or any(
            predicates.get(name, predicate) != predicate
            for name, predicate in program.predicates.items()
        ):
            return None
        other.set_facts(self.facts())
        other._leave_out()
        if self.left_out or other.left_out:
            return None
        both = self._clauses.keys() & other._clauses.keys()
        moved = sorted({*self._typed_constants()} ^ {*other._typed_constants()})
        pins = [pin for kind, name in moved for pin in other._ranges(kind, name) if pin[0] in both]
        new = [(number, dict[str, str]()) for number in other._clauses if number not in both]
        same = {number for number in both if self.weights[number] == other.weights[number]}
        changed: dict[Key, Row | None] = {
            key: row if key[0] in both else None for key, row in rows.items() if key[0] not in same
        }
        changed |= self._keys(pins)
        changed |= other._ground([*pins, *new])
        atoms = self._atoms_of((), moved) | other._atoms_of((), moved)
        return other, Step(changed, {atom: other._value(atom) for atom in atoms})

    # facts ---------------------------------------------------------------------------------------

    def set_facts(self, facts: Mapping[GroundAtom, float | None]) -> None:
        """Give facts these values, as they had before a change; no ground clause is made."""
        for atom, value in facts.items():
            more = (value is not None) - (self.fact(atom) is not None)
            for kind, name in self._constants([atom]) if more else ():
                domain = self._domains[kind]
                domain[name] = domain.get(name, 0) + more
                if not domain[name]:
                    del domain[name]
            self._facts.set(atom, value)

    def _moved(self, facts: Mapping[GroundAtom, float | None]) -> list[_TypedConstant]:
        """Change facts; return the constants that come or go."""
        constants = self._constants(facts)
        old = {(kind, name) for kind, name in constants if name in self._domains[kind]}
        self.set_facts(facts)
        new = {(kind, name) for kind, name in constants if name in self._domains[kind]}
        return sorted(old ^ new)

    def _typed_constants(self) -> Iterator[_TypedConstant]:
        return ((kind, name) for kind, names in self._domains.items() for name in names)

    def _constants(self, atoms: Iterable[GroundAtom]) -> list[_TypedConstant]:
        """Return the constants of atoms with their types, each once an atom."""
        predicates = self.plan.program.predicates
        pairs = (zip(predicates[name].types, row, strict=True) for name, row in atoms)
        return [pair for atom_pairs in pairs for pair in dict.fromkeys(atom_pairs)]

    def _joins(self, atom: GroundAtom, value: float | None) -> float | None:
        """Return what joins see of a fact: None where it is absent to them."""
        if atom[0] in self.plan.query:
            return None if value is None or not self.listed else 1.0
        return value or None

    def _value(self, atom: GroundAtom) -> float | None:
        """Return the value of a query atom, NaN where it is open; None where it is no atom."""
        value = self.fact(atom)
        if value is not None or self.listed:
            return value
        return nan if all(c in self._domains[kind] for kind, c in self._constants([atom])) else None

    def _atoms_of(
        self, facts: Iterable[GroundAtom], moved: Sequence[_TypedConstant]
    ) -> dict[GroundAtom, None]:
        """Return the query atoms of facts, and those with a constant that came or went."""
        atoms = {atom: None for atom in facts if atom[0] in self.plan.query}
        if self.listed:
            return atoms
        for name in self.plan.query:
            kinds = self.plan.program.predicates[name].types
            for moved_kind, constant in moved:
                for place, kind_of_place in enumerate(kinds):
                    if kind_of_place == moved_kind:
                        columns = (
                            [constant] if column == place else self._domains[kind]
                            for column, kind in enumerate(kinds)
                        )
                        atoms |= dict.fromkeys((name, row) for row in product(*columns))
        return atoms

    # pins ----------------------------------------------------------------------------------------

    def _matches(self, atom: GroundAtom) -> Iterator[tuple[int, Binding]]:
        """Yield the clauses that mention an atom, with the constants of their variables in it."""
        for number, pattern in self._mentions.get(atom[0], ()):
            if (binding := _matched(pattern, atom[1], {})) is not None:
                yield number, self._clauses[number].own(binding)

    def _ranges(self, kind: str, constant: str) -> Iterator[tuple[int, Binding]]:
        """Yield the clauses with a variable that ranges over a type, with this constant of it.

        The variables of existential parts are left out.
        """
        for number, clause in self._clauses.items():
            for name, free_kind in clause.free.items():
                if free_kind == kind:
                    yield number, clause.own({name: constant})

    # ground clauses ------------------------------------------------------------------------------

    def _leave_out(self) -> None:
        """Leave out the clauses that have become large; they stay so."""
        most = {
            n: self.eager * (PAIRS if len(self._clauses[n].plan.query) == 2 else 1)
            for n in self.may_wait
        }
        self.left_out |= {n for n, room in most.items() if self.size(n) > room}

    def _whole(self, pins: Iterable[tuple[int, Binding]]) -> Iterator[tuple[int, Binding]]:
        return (pin for pin in pins if pin[0] not in self.left_out)

    def _ground(self, pins: Iterable[tuple[int, Binding]]) -> dict[Key, Row | None]:
        return self._made(self._substitutions(self._whole(pins)))

    def _made(self, substitutions: Mapping[int, Collection[Constants]]) -> dict[Key, Row | None]:
        rows = dict[Key, Row | None]()
        for number, constants in substitutions.items():
            rows |= self._rows(number)(constants)
        return rows

    def _keys(self, pins: Iterable[tuple[int, Binding]]) -> dict[Key, None]:
        """Return the keys of ground clauses whose substitutions extend bindings."""
        every = self._substitutions(self._whole(pins)).items()
        return {(number, constants): None for number, of in every for constants in of}

    def _substitutions(
        self, pins: Iterable[tuple[int, Binding]]
    ) -> dict[int, dict[Constants, None]]:
        """Return the constants of clauses' own variables in the substitutions that extend bindings."""
        result = dict[int, dict[Constants, None]]()
        for number, constants in self._joined(pins):
            result.setdefault(number, {}).update(dict.fromkeys(constants))
        return result

    def _joined(self, pins: Iterable[tuple[int, Binding]]) -> Iterator[tuple[int, Bindings]]:
        """Yield clauses with the constants of substitutions, perhaps repeatedly."""
        given = dict[tuple[int, tuple[str, ...]], list[Constants]]()
        for number, pin in pins:
            given.setdefault((number, (*pin,)), []).append((*pin.values(),))
        for (number, bound), rows in given.items():
            yield number, self._joins_from(number, bound)(rows)

    def _clause_joins(self, number: int) -> ClauseJoins:
        clause = self._clauses[number]
        return ClauseJoins(clause.plan, clause.names, (self._facts, self._domains, self.listed))

    def _joins_from(self, number: int, bound: tuple[str, ...]) -> Callable[[Bindings], Bindings]:
        """Return the joins of a clause that begin with the constants of ``bound`` variables."""
        if (number, bound) not in self._joins_of:
            steps = pinned_steps(self.plan, self._clauses[number].plan, bound, self.listed)
            joins = self._clause_joins(number).substitutions(steps, bound)
            self._joins_of[number, bound] = joins
        return self._joins_of[number, bound]

    def _rows(self, number: int) -> Callable[[Collection[Constants]], dict[Key, Row | None]]:
        """Return what makes ground clauses of constants: None if one is true. It raises Infeasible."""
        if number not in self._rows_of:
            predicates, literals = self.plan.program.predicates, self.clause(number).literals
            numeric = [x.atom for x in literals if predicates[x.atom.predicate].numeric]
            broken = partial(self._broken, number)
            self._rows_of[number] = self._clause_joins(number).rows(number, numeric, broken)
        return self._rows_of[number]

    def _broken(self, number: int, constants: Constants) -> None:
        """Raise Infeasible if a ground clause that facts make false is hard."""
        if self.clause(number).hard:
            text, evidence = self.shown((number, constants))
            facts = [f"{'' if is_true else '!'}{show_ground_atom(*a)}" for a, is_true in evidence]
            raise impossible([f"{text}."], facts, self.depends((number, constants)))


def _weights(clause: Clause) -> ClauseWeights:
    return clause.weight, dict(clause.table or ())


def _present(rows: Mapping[Key, Row | None]) -> dict[Key, Row | None]:
    return {key: row for key, row in rows.items() if row is not None}


def _scanned(plan: ClausePlan | ExistentialPlan, listed: bool) -> set[str]:
    """Return the variables in atoms that a plan joins."""
    steps = plan.listed if listed else plan.full
    return {name for step in steps if isinstance(step, Scan) for name in _names(step.atom)}


def _names(atom: Atom) -> list[str]:
    return [term.name for term in leaves(atom) if isinstance(term, Variable)]


def _ground(atom: Atom, binding: Binding) -> GroundAtom:
    named = [binding[x.name] if isinstance(x, Variable) else x.name for x in leaves(atom)]
    return atom.predicate, tuple(named)


def _matched(atom: Atom, constants: Constants, binding: Binding) -> Binding | None:
    """Return the binding under which an atom has these constants; None if there is none."""
    extended = dict(binding)
    for term, constant in zip(leaves(atom), constants, strict=True):
        if isinstance(term, Constant):
            if term.name != constant:
                return None
        elif extended.setdefault(term.name, constant) != constant:
            return None
    return extended
