"""Formulas in a world: literals of its network, with further atoms that stand for their conjunctions.

A formula becomes a literal, true or false where evidence decides it. Each of its conjunctions, and by De
Morgan each disjunction and quantifier, is an atom that hard clauses define (Tseitin 1968). So the states of
the world keep their scores, and any engine gives the literal its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, compress, filterfalse, product
from math import prod
from operator import not_
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import ExampleError, Infeasible, Unsolved, UsageError
from onlinesrl.core.example import Example, arguments, number_of
from onlinesrl.core.learner import Estimate
from onlinesrl.logic.ast import (
    And,
    Arithmetic,
    Atom,
    Compare,
    Constant,
    Equal,
    Exists,
    Forall,
    Formula,
    Function,
    Iff,
    Implies,
    Leaf,
    Not,
    Or,
    Program,
    Rule,
    Term,
    Variable,
    free_variables,
    subformulas,
)
from onlinesrl.logic.ast import arguments as terms_of
from onlinesrl.logic.dialect import ALCHEMY, Dialect
from onlinesrl.logic.kernels.whole_numbers import NO_NUMBER, compares, computed
from onlinesrl.logic.whole_numbers import COMPARISONS, OPERATIONS, whole_number
from onlinesrl.mln.ground.ground_mrf import GroundMRF, clause_model, clause_weights
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.inference.gate_marginals import gate_marginals
from onlinesrl.mln.inference.protocols import MarginalEngine
from onlinesrl.mln.kernels import ground_network as n
from onlinesrl.mln.kernels.grounding_frames import Batch
from onlinesrl.mln.query.asked_formulas import parsed, spell_formula

TRUE = 1 << 30
"""The literal that is always true; no atom has such a number."""
Binding = Mapping[str, str]
"""The constants of variables."""
Constants = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class GroundFormula:
    """A formula for all constants of its free variables, and the literal of each, int64[rows]."""

    rule: Rule
    constants: list[list[str]]
    literals: Ints

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the free variables."""
        types = dict(self.rule.types)
        return tuple(types[name] for name in free_variables(self.rule.formula))

    @property
    def open(self) -> Ints:
        """The rows that evidence does not decide."""
        return np.flatnonzero(np.abs(self.literals) != TRUE)

    def text(self, row: int) -> str:
        """Return the formula with the constants of a row."""
        constants = self.constants[row]
        return spell_formula(self.rule.formula, constants) if constants else self.rule.text

    def values(self, of_atoms: Floats) -> Floats:
        """Return the value of each row, float64[rows], by values of the atoms."""
        atom = np.minimum(np.abs(self.literals) - 1, len(of_atoms))
        value = np.append(of_atoms, 1.0)[atom]
        values: Floats = np.where(self.literals > 0, value, 1.0 - value)
        return values


class GroundQuery(NamedTuple):
    """Formulas by their text, in a world of a ``model`` with the atoms and clauses that define them.

    The atoms from number ``gates`` on are only asked about. What is given is among the clauses.
    """

    model: GroundMRF
    gates: int
    formulas: dict[str, GroundFormula]


def asked_atoms(formulas: Iterable[GroundFormula]) -> Ints:
    """Return the atoms of the literals of formulas."""
    literals = [np.zeros(0, np.int64), *(f.literals[f.open] for f in formulas)]
    return np.unique(np.abs(np.concatenate(literals)) - 1)


class FormulaQuery:
    """The ``formulas`` asked about, on the condition that those ``given`` hold.

    Variables range over the constants of the world. A formula with free ones is asked about for each of
    their values; what is given holds for all values. Raises UsageError.
    """

    def __init__(
        self,
        program: Program,
        formulas: Sequence[str],
        given: Sequence[str],
        dialect: Dialect = ALCHEMY,
    ) -> None:
        rules = parsed(program, (*formulas, *given), dialect)
        self.rules, self.given = rules[: len(formulas)], rules[len(formulas) :]

    @classmethod
    def of_examples(
        cls, program: Program, formulas: Sequence[str], given: Sequence[str]
    ) -> FormulaQuery:
        """Return what is asked about each example. Raises UsageError, also where no formula is."""
        if not formulas:
            raise UsageError("given: expected formulas too, which have this condition")
        return cls(program, formulas, given)

    def ground(self, world: FormulaWorld, model: GroundMRF, decided: bool = True) -> GroundQuery:
        """Return those formulas in a world of such a model of which it has all constants.

        Values of free variables for which evidence decides a formula may be left out unless ``decided``.
        Raises ExampleError beyond the limit, and Infeasible where evidence makes false what is given.
        """
        defined = Definitions(world, model.n_atoms)
        for rule in self.given:
            false = _needed(rule.formula, False)
            for binding in world.bindings(rule, free_variables(rule.formula), {}, false):
                defined.hold(rule, binding)
        gates, formulas = defined.atoms, dict[str, GroundFormula]()
        for rule in filterfalse(world.lacks, self.rules):
            names, needed = free_variables(rule.formula), list[Atom]()
            if names and not decided:
                needed += (*_needed(rule.formula, True), *_needed(rule.formula, False))
            bindings = world.bindings(rule, names, {}, needed)
            constants = [[binding[name] for name in names] for binding in bindings]
            if needed:
                constants.sort(key=partial(world.places, rule, names))
            literals = [
                defined.literal(rule, rule.formula, dict(zip(names, row, strict=True)))
                for row in constants
            ]
            formulas[rule.text] = GroundFormula(rule, constants, np.array(literals, np.int64))
        return GroundQuery(defined.beside(model), gates, formulas)

    def probabilities(
        self, world: FormulaWorld, weight: Floats, engine: MarginalEngine
    ) -> dict[str, Estimate]:
        """Return the probabilities of the formulas in a world, by their texts with constants.

        A formula that names a constant which the world lacks has none. All have none where what is given
        names such a constant, or cannot hold, and where no chain of a sampler starts. Of a formula with free
        variables, what evidence decides is left out. ``weight`` has the weights of the network's ground
        clauses. Raises ExampleError.
        """
        if any(map(world.lacks, self.given)):
            return {}
        model, place = clause_model(world.grounder.net)
        try:
            asked = self.ground(world, model, decided=False)
            atoms, probability, error = asked_atoms(asked.formulas.values()), np.zeros(0), None
            if len(atoms) or self.given:
                weights = np.zeros(asked.model.n_clauses)
                weights[: model.n_clauses] = clause_weights(model, place, weight)
                found = gate_marginals(engine, asked.model, weights, asked.gates, atoms)
                probability = found.probability
                error = None if found.diagnostics is None else found.diagnostics.error
        except (Infeasible, Unsolved):
            return {}
        values = dict[str, Estimate]()
        for formula in asked.formulas.values():
            p, opened = formula.values(probability), formula.open.tolist()
            for row in opened or ([] if free_variables(formula.rule.formula) else [0]):
                of_row = None
                if error is not None and opened:
                    of_row = round(float(error[abs(formula.literals[row]) - 1]), 6)
                values[formula.text(row)] = Estimate(round(float(p[row]), 6), of_row)
        return values


class FormulaWorld:
    """The world of a batch that was ground last: its query atoms, true evidence and constants."""

    def __init__(self, grounder: Grounder, batch: Batch, w: int, example: Example) -> None:
        self.grounder, self.program = grounder, grounder.layout.plan.program
        self._query = {part.names.name: part for part in grounder.named(batch, w)}
        self._evidence = grounder.packer.background.beside(example.whole()).evidence
        self._packed, self._groundings = (batch, w), 0
        self.constants = cache(self._constants_of)
        self._numbers, self._true = cache(self._numbers_of), cache(self._true_of)

    def lacks(self, rule: Rule) -> list[str]:
        """Return the constants of a formula that the world has not, each with its type."""
        types = {name: predicate.types for name, predicate in self.program.predicates.items()}
        return [
            f"{term.name} of the type {kind}"
            for name, terms in _applied(rule.formula)
            # the last type of a function is that of its value
            for term, kind in zip(terms, types[name], strict=False)
            if isinstance(term, Constant) and term.name not in self.constants(kind)
        ]

    def bindings(
        self, rule: Rule, names: Sequence[str], outer: Binding, conditions: Iterable[Atom] = ()
    ) -> Iterator[Binding]:
        """Yield the constants that variables of a rule may have, beside those of ``outer`` ones.

        Some are left out for which a condition is false by evidence. Raises ExampleError beyond the limit of
        groundings.
        """
        rows, kinds = [outer], dict(rule.types)
        for atom in conditions:
            if atom.predicate not in self._query:
                rows = [new for row in rows for new in self._matches(atom, row)]
        if not rows:
            return
        rest = [name for name in names if name not in rows[0]]
        domains = [self.constants(kinds[name]) for name in rest]
        limits = self.grounder.limits
        self._groundings += len(rows) * prod(map(len, domains))
        if self._groundings > limits.groundings:
            most = f"{limits.keys.groundings} ({limits.groundings})"
            raise ExampleError(f"formula {rule.text}: more groundings than {most}", "limit")
        for row in rows:
            if all(row[name] in self.constants(kinds[name]) for name in names if name in row):
                for constants in product(*domains):
                    yield {**row, **dict(zip(rest, constants, strict=True))}

    def places(self, rule: Rule, names: Sequence[str], constants: Sequence[str]) -> list[int]:
        """Return the places of values of a rule's variables among all constants of their types."""
        kinds = dict(rule.types)
        pairs = zip(names, constants, strict=True)
        return [self.constants(kinds[name])[constant] for name, constant in pairs]

    def literal(self, predicate: str, constants: Constants) -> int:
        """Return the literal of an atom."""
        if predicate not in self._query:
            return TRUE if constants in self._true(predicate, (True,) * len(constants)) else -TRUE
        number = self._numbers(predicate).get(constants)
        fixed = n.FALSE if number is None else self.grounder.net.fixed[number]
        return {n.TRUE: TRUE, n.FALSE: -TRUE}.get(int(fixed), 1 + (number or 0))

    def _matches(self, atom: Atom, row: Binding) -> Iterator[Binding]:
        """Yield a binding with the further ones for which evidence makes an atom true."""
        names = [term.name if isinstance(term, Variable) else "" for term in atom.terms]
        values = [
            row.get(name) if name else term.name
            for name, term in zip(names, atom.terms, strict=True)
            if isinstance(term, Leaf)
        ]
        bound = tuple(value is not None for value in values)
        key = tuple(value for value in values if value is not None)
        rest = [name for name, known in zip(names, bound, strict=True) if not known]
        for constants in self._true(atom.predicate, bound).get(key, ()):
            new = dict(zip(rest, constants, strict=True))
            if all(new[name] == constant for name, constant in zip(rest, constants, strict=True)):
                yield {**row, **new}

    def _constants_of(self, kind: str) -> dict[str, int]:
        """Return the places of the constants of a type; these do not depend on other worlds."""
        number = self.grounder.layout.type_number[kind]
        names = self.grounder.packer.names(*self._packed, number)
        ordered = sorted(names, key=lambda c: (isinstance(c, str), c))
        return {str(constant): place for place, constant in enumerate(ordered)}

    def _numbers_of(self, predicate: str) -> dict[Constants, int]:
        """Return the numbers of the atoms of a query predicate."""
        part = self._query[predicate]
        return {tuple(map(str, row)): k for k, row in enumerate(part.rows(), part.first)}

    def _true_of(self, predicate: str, bound: tuple[bool, ...]) -> dict[Constants, list[Constants]]:
        """Return the other constants of the true atoms of a predicate, by those that are bound."""
        found: dict[Constants, list[Constants]] = {}
        for row in self._evidence.get(predicate, ()):
            if number_of(row) != 0:
                constants = tuple(map(str, arguments(row)))
                rest = compress(constants, map(not_, bound))
                found.setdefault((*compress(constants, bound),), []).append((*rest,))
        return found


class Definitions:
    """The literals of formulas in a world with so many ``atoms``, and the hard clauses that define them."""

    def __init__(self, world: FormulaWorld, atoms: int) -> None:
        self.world, self.atoms = world, atoms
        self._rows: list[list[int]] = []
        self._known: dict[frozenset[int], int] = {}

    def hold(self, rule: Rule, binding: Binding) -> None:
        """Add the clauses that say that a formula holds. Raises Infeasible where evidence makes it false."""
        sign, literals = self._conjunction(rule, rule.formula, binding)
        parts = [*literals]
        for row in [[x] for x in parts] if sign > 0 else [[-x for x in parts]]:
            if TRUE not in row:
                self._rows.append([x for x in dict.fromkeys(row) if x != -TRUE])
                if not self._rows[-1]:
                    constants = [binding[name] for name in free_variables(rule.formula)]
                    text = spell_formula(rule.formula, constants) if constants else rule.text
                    raise Infeasible(f"given {text}: evidence makes this formula false")

    def literal(self, rule: Rule, formula: Formula, binding: Binding) -> int:
        """Return the literal of a formula of a rule for the constants of its variables."""
        sign, literals = self._conjunction(rule, formula, binding)
        return sign * self._every(literals)

    def _conjunction(
        self, rule: Rule, formula: Formula, binding: Binding
    ) -> tuple[int, Iterable[int]]:
        """Return literals whose conjunction is a formula (1), or its negation (-1)."""

        def each(*parts: Formula) -> Iterator[int]:
            return (self.literal(rule, part, binding) for part in parts)

        match formula:
            case Atom() | Equal() | Compare():
                return -1, self._cases(formula, binding)
            case Not(part):
                sign, literals = self._conjunction(rule, part, binding)
                return -sign, literals
            case And(parts):
                return 1, each(*parts)
            case Or(parts):
                return -1, each(*map(Not, parts))
            case Implies(left, right):
                return -1, each(left, Not(right))
            case Iff(left, right):
                a, b = each(left, right)
                return 1, (-self._every(pair) for pair in ((a, -b), (-a, b)))
            case Forall(names, body) | Exists(names, body):
                sign = 1 if isinstance(formula, Forall) else -1
                rows = self.world.bindings(rule, names, binding, _needed(body, sign < 0))
                return sign, (sign * self.literal(rule, body, row) for row in rows)

    def _cases(self, leaf: Atom | Equal | Compare, binding: Binding) -> Iterator[int]:
        """Yield the negations of the cases in which an atom or comparison holds, by values of functions."""
        for values in product(*(self._values(term, binding) for term in terms_of(leaf))):
            constants = tuple(constant for constant, _ in values)
            match leaf:
                case Atom(name):
                    literal = self.world.literal(name, constants)
                case Equal():
                    literal = TRUE if constants[0] == constants[1] else -TRUE
                case Compare(op):
                    a, b = map(whole_number, constants[::-1] if op.startswith(">") else constants)
                    holds = compares(COMPARISONS[op.replace(">", "<")], a, b)
                    literal = TRUE if holds else -TRUE
            yield -self._every([*chain(*(conditions for _, conditions in values)), literal])

    def _values(self, term: Term, binding: Binding) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the constants that a term may stand for, and the literals on whose condition it does.

        Arithmetic without a result is no constant.
        """
        match term:
            case Constant(name):
                yield name, ()
            case Variable(name):
                yield binding[name], ()
            case Arithmetic(op, left, right):
                both = (self._values(part, binding) for part in (left, right))
                for (x, first), (y, second) in product(*both):
                    number = computed(OPERATIONS[op], whole_number(x), whole_number(y))
                    yield "" if number == NO_NUMBER else str(number), (*first, *second)
            case Function(name, terms):
                for values in product(*(self._values(part, binding) for part in terms)):
                    constants = tuple(constant for constant, _ in values)
                    conditions = tuple(chain(*(literals for _, literals in values)))
                    for result in self.world.constants(self.world.program.functions[name].result):
                        holds = self.world.literal(name, (*constants, result))
                        if holds != -TRUE:
                            yield result, (*conditions, holds)

    def _every(self, literals: Iterable[int]) -> int:
        """Return the literal that is true where all of some literals are."""
        parts = dict[int, None]()
        for x in literals:
            if x == -TRUE or -x in parts:
                return -TRUE
            if x != TRUE:
                parts[x] = None
        if len(parts) < 2:
            return next(iter(parts), TRUE)
        known = self._known.setdefault(frozenset(parts), self.atoms + 1)
        if known > self.atoms:
            self.atoms = known
            self._rows += [[-known, x] for x in parts]
            self._rows.append([known, *(-x for x in parts)])
        return known

    def beside(self, model: GroundMRF) -> GroundMRF:
        """Return a model with the further atoms and the clauses."""
        if not self._rows:
            return model
        more = np.full(self.atoms - model.n_atoms, -1, np.int32)
        wider = replace(model, n_atoms=self.atoms, group=np.append(model.group, more))
        clauses = replace(
            wider,
            start=np.cumsum([0, *map(len, self._rows)]),
            literals=np.array([x for row in self._rows for x in row], np.int32),
            hard=np.ones(len(self._rows), np.bool_),
        )
        return wider.with_clauses(clauses)


def _applied(part: Formula | Term) -> Iterator[tuple[str, tuple[Term, ...]]]:
    """Yield the names of the predicates and functions of a formula or term, each with its terms."""
    match part:
        case Atom(name, terms) | Function(name, terms):
            yield name, terms
            yield from chain(*map(_applied, terms))
        case Equal(left, right) | Compare(_, left, right) | Arithmetic(_, left, right):
            yield from chain(_applied(left), _applied(right))
        case Variable() | Constant():
            pass
        case _:
            yield from chain(*map(_applied, subformulas(part)))


def _needed(formula: Formula, truth: bool) -> Iterator[Atom]:
    """Yield atoms of variables and constants that are true wherever a formula has a truth value."""
    match formula:
        case Atom(_, terms) if truth and all(isinstance(x, Leaf) for x in terms):
            yield formula
        case Not(part):
            yield from _needed(part, not truth)
        case And(parts) | Or(parts) if truth == isinstance(formula, And):
            for part in parts:
                yield from _needed(part, truth)
        case Implies(left, right) if not truth:
            yield from _needed(left, True)
            yield from _needed(right, False)
