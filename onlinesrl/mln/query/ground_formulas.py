"""Probabilities of formulas in the world of an example: further atoms stand for their conjunctions.

A formula becomes a literal, true or false where evidence decides it. Each of its conjunctions, and by De
Morgan each disjunction and quantifier, is an atom that hard clauses define (Tseitin 1968). So the states of
the world keep their scores, and any engine gives the literal its probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import ExampleError, Infeasible, Unsolved, UsageError
from onlinesrl.core.example import Atom as Named
from onlinesrl.core.example import Constant as AnyConstant
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
from onlinesrl.logic.dialect import ALCHEMY
from onlinesrl.logic.kernels.whole_numbers import NO_NUMBER, compares, computed
from onlinesrl.logic.whole_numbers import COMPARISONS, OPERATIONS, whole_number
from onlinesrl.mln.ground.ground_mrf import GroundMRF, clause_model, clause_weights
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.inference.protocols import MarginalEngine
from onlinesrl.mln.kernels import ground_network as n
from onlinesrl.mln.kernels.grounding_frames import Batch
from onlinesrl.mln.query.asked_formulas import parsed, spell_formula

TRUE = 1 << 30
"""The literal that is always true; no atom has such a number."""
Binding = Mapping[str, str]
"""The constants of variables."""


class FormulaQuery:
    """The ``formulas`` asked about each example, on the condition that those ``given`` hold in it.

    Variables range over the constants of the example. A formula with free ones has a probability for each of
    their values; what is given holds for all values. Raises UsageError.
    """

    def __init__(self, program: Program, formulas: Sequence[str], given: Sequence[str]) -> None:
        if not formulas:
            raise UsageError("given: expected formulas too, which have this condition")
        _, rules = parsed(program, (*formulas, *given), ALCHEMY)
        for rule in rules:
            for part in _parts(rule.formula):
                numeric = isinstance(part, Atom) and program.predicates[part.predicate].numeric
                if numeric or any(map(_has_function, terms_of(part))):
                    reason = "functions and numeric predicates cannot be asked about"
                    raise UsageError(f"formula {rule.text}: {reason}")
        self.rules, self.given = rules[: len(formulas)], rules[len(formulas) :]

    def probabilities(
        self, world: FormulaWorld, weight: Floats, engine: MarginalEngine
    ) -> dict[str, Estimate]:
        """Return the probabilities of the formulas in a world, by their texts with constants.

        A formula that names a constant which the world lacks has none, nor has one that no chain of a sampler
        starts for. All have none where what is given names such a constant, or cannot hold. Of a formula with
        free variables, what evidence decides is left out. ``weight`` has the weights of the network's ground
        clauses. Raises ExampleError.
        """
        values = dict[str, Estimate]()
        if not all(map(world.has, self.given)):
            return values
        model, place = clause_model(world.grounder.net)
        weights = clause_weights(model, place, weight)
        for rule in filter(world.has, self.rules):
            defined = Definitions(world, model.n_atoms)
            names = free_variables(rule.formula)
            literals = dict[str, int]()
            for binding in world.bindings(rule, names, {}):
                row = [binding[name] for name in names]
                text = spell_formula(rule.formula, row) if names else rule.text
                literals[text] = defined.literal(rule, rule.formula, binding)
            for other in self.given:
                every = world.bindings(other, free_variables(other.formula), {})
                defined.rows += [
                    [defined.literal(other, other.formula, binding)] for binding in every
                ]
            undecided = {text: x for text, x in literals.items() if abs(x) != TRUE}
            if undecided or self.given:
                try:
                    extended = defined.beside(model)
                    more = np.zeros(extended.n_clauses - model.n_clauses)
                    marginals = engine.marginals(extended, np.append(weights, more))
                except Infeasible:
                    return {}
                except Unsolved:
                    continue
                for text, x in undecided.items():
                    p, of = float(marginals.probability[abs(x) - 1]), marginals.diagnostics
                    error = None if of is None else round(float(of.error[abs(x) - 1]), 6)
                    values[text] = Estimate(round(p if x > 0 else 1.0 - p, 6), error)
            if not names and not undecided:
                values[rule.text] = Estimate(float(literals[rule.text] > 0))
        return values


class FormulaWorld:
    """The world of a batch that was ground last: its query atoms, true evidence and constants."""

    def __init__(self, grounder: Grounder, batch: Batch, w: int, example: Example) -> None:
        self.grounder, self.query = grounder, grounder.layout.plan.query
        self.number: dict[Named, int] = {
            (name, tuple(map(str, args))): number
            for name, first, rows in grounder.atoms(batch, w)
            for number, args in enumerate(rows, first)
        }
        evidence = grounder.packer.background.beside(example.whole()).evidence
        self.true = {
            (name, tuple(map(str, arguments(row))))
            for name, rows in evidence.items()
            for row in rows
            if number_of(row) != 0
        }
        self.constants = {
            name: {str(c): None for c in _ordered(grounder.packer.names(batch, w, kind))}
            for kind, name in enumerate(grounder.layout.types)
        }

    def has(self, rule: Rule) -> bool:
        """Tell whether the world has all constants of a formula."""
        predicates = self.grounder.layout.plan.program.predicates
        return all(
            term.name in self.constants[kind]
            for atom in _parts(rule.formula)
            if isinstance(atom, Atom)
            for term, kind in zip(atom.terms, predicates[atom.predicate].types, strict=True)
            if isinstance(term, Constant)
        )

    def bindings(self, rule: Rule, names: Sequence[str], outer: Binding) -> Iterator[Binding]:
        """Yield the constants that variables of a rule may have, beside those of ``outer`` ones.

        Raises ExampleError beyond the limit.
        """
        domains = {name: self.constants[kind] for name, kind in rule.types}
        limits = self.grounder.limits
        if prod(len(domains[name]) for name in (*outer, *names)) > limits.groundings:
            most = f"{limits.keys.groundings} ({limits.groundings})"
            raise ExampleError(f"formula {rule.text}: more groundings than {most}", "limit")
        for row in product(*(domains[name] for name in names)):
            yield {**outer, **dict(zip(names, row, strict=True))}

    def literal(self, atom: Named) -> int:
        """Return the literal of an atom."""
        if atom[0] not in self.query:
            return TRUE if atom in self.true else -TRUE
        number = self.number.get(atom)
        fixed = n.FALSE if number is None else self.grounder.net.fixed[number]
        return {n.TRUE: TRUE, n.FALSE: -TRUE}.get(int(fixed), 1 + (number or 0))


class Definitions:
    """The literals of formulas in a world with so many ``atoms``, and the hard clauses that define them."""

    def __init__(self, world: FormulaWorld, atoms: int) -> None:
        self.world, self.atoms = world, atoms
        self.rows: list[list[int]] = []

    def literal(self, rule: Rule, formula: Formula, binding: Binding) -> int:
        """Return the literal of a formula of a rule for the constants of its variables."""

        def of(part: Formula) -> int:
            return self.literal(rule, part, binding)

        match formula:
            case Atom(name, terms):
                return self.world.literal((name, tuple(_value(term, binding) for term in terms)))
            case Equal(left, right):
                return TRUE if _value(left, binding) == _value(right, binding) else -TRUE
            case Compare(op, left, right):
                if op.startswith(">"):
                    op, left, right = op.replace(">", "<"), right, left
                a, b = whole_number(_value(left, binding)), whole_number(_value(right, binding))
                return TRUE if compares(COMPARISONS[op], a, b) else -TRUE
            case Not(part):
                return -of(part)
            case And(parts):
                return self._every(map(of, parts))
            case Or(parts):
                return -self._every(-of(part) for part in parts)
            case Implies(left, right):
                return -self._every([of(left), -of(right)])
            case Iff(left, right):
                a, b = of(left), of(right)
                return self._every([-self._every([a, -b]), -self._every([-a, b])])
            case Forall(names, body):
                return self._every(self._instances(rule, names, body, binding))
            case Exists(names, body):
                return -self._every(-x for x in self._instances(rule, names, body, binding))

    def _instances(
        self, rule: Rule, names: Sequence[str], body: Formula, binding: Binding
    ) -> Iterator[int]:
        for wider in self.world.bindings(rule, names, binding):
            yield self.literal(rule, body, wider)

    def _every(self, literals: Iterable[int]) -> int:
        """Return the literal that is true where all of some literals are."""
        parts = dict.fromkeys(literals)
        parts.pop(TRUE, None)
        if any(-x in parts for x in parts) or -TRUE in parts:
            return -TRUE
        if len(parts) < 2:
            return next(iter(parts), TRUE)
        self.atoms += 1
        self.rows += [[-self.atoms, x] for x in parts]
        self.rows.append([self.atoms, *(-x for x in parts)])
        return self.atoms

    def beside(self, model: GroundMRF) -> GroundMRF:
        """Return a model with the further atoms, and the hard clauses. Raises Infeasible."""
        rows = [row for row in self.rows if row != [TRUE]]
        if [-TRUE] in rows:
            raise Infeasible("what is given is false by the evidence")
        more = np.full(self.atoms - model.n_atoms, -1, np.int32)
        wider = replace(model, n_atoms=self.atoms, group=np.append(model.group, more))
        clauses = replace(
            wider,
            start=np.cumsum([0, *map(len, rows)]),
            literals=np.array([x for row in rows for x in row], np.int32),
            hard=np.ones(len(rows), np.bool_),
        )
        return wider.with_clauses(clauses)


def _ordered(constants: Iterable[AnyConstant]) -> list[AnyConstant]:
    """Return constants in an order that does not depend on other worlds, whole numbers before text."""
    return sorted(constants, key=lambda constant: (isinstance(constant, str), constant))


def _parts(formula: Formula) -> Iterator[Atom | Equal | Compare]:
    """Yield the atoms and comparisons of a formula."""
    if isinstance(formula, Atom | Equal | Compare):
        yield formula
    for part in subformulas(formula):
        yield from _parts(part)


def _has_function(term: Term) -> bool:
    match term:
        case Arithmetic(_, left, right):
            return _has_function(left) or _has_function(right)
    return isinstance(term, Function)


def _value(term: Term, binding: Binding) -> str:
    """Return the constant that a term stands for; arithmetic without a result is no constant."""
    match term:
        case Constant(name):
            return name
        case Variable(name):
            return binding[name]
        case Arithmetic(op, left, right):
            a, b = whole_number(_value(left, binding)), whole_number(_value(right, binding))
            result = computed(OPERATIONS[op], a, b)
            return "" if result == NO_NUMBER else str(result)
        case Function():
            raise ValueError("a function has no value without its relation")
