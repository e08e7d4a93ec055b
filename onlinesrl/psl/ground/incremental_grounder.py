"""Incremental grounding of PSL: facts change, and only the ground rules that mention them are made again.

A ground rule of a form depends on the atoms that the form mentions under its substitution, and on nothing
else. So the changed atoms are matched with every literal of every form, in filters as well; the joins,
begun there, lead to the substitutions of the ground rules that may differ. Rows that agree on the variables
outside of summations are one ground rule (``RulePlan.outer``), which is made anew as a whole.

Atoms are joined over the old and the new facts together, so that a ground rule that goes is reached as well
as one that comes. Conditions are only looked at when the ground rule is made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from math import isnan
from typing import NamedTuple, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats, Ints32
from onlinesrl.core.errors import Infeasible
from onlinesrl.logic.ast import Atom, Constant, Term, Variable
from onlinesrl.logic.atom_index import AtomIndex, Constants, GroundAtom
from onlinesrl.logic.cnf import Compared, Literal
from onlinesrl.psl.ground.conflict import HardRule, conflict
from onlinesrl.psl.ground.form_assembly import (
    Assembler,
    Joined,
    Listing,
    NumberedAtoms,
    RuleError,
    broken,
    coefficient_value,
    comes_before,
    function_value,
    listed,
    missing,
)
from onlinesrl.psl.ground.grounder import MOST
from onlinesrl.psl.ground.join_plan import RulePlan, plan_program
from onlinesrl.psl.ground.memory_joins import ArrayJoins, compile_plan
from onlinesrl.psl.ground.rule_trace import bound
from onlinesrl.psl.kernels.linear import ACTIVE
from onlinesrl.psl.lang.ast import Coefficient, Number, PslProgram
from onlinesrl.psl.lang.data import AtomTable, Database, Relation, interned, no_atoms
from onlinesrl.psl.lang.linear_form import Condition, Conditions
from onlinesrl.psl.lang.model import Functions
from onlinesrl.psl.lang.text import show_unweighted

Binding: TypeAlias = Mapping[str, str]
"""The constants of variables."""
Key: TypeAlias = tuple[int, Constants]
"""A ground rule: the number of its plan, and the constants of the plan's outer variables."""


class Row(NamedTuple):
    """The linear form of a ground rule: the atoms of its variables, coefficients float64, and constant."""

    plan: int
    atoms: tuple[GroundAtom, ...]
    coefficients: Floats
    constant: float


class ListedAtoms(AtomIndex):
    """The listed atoms and their values, NaN for a target."""

    def __init__(self, arities: Mapping[str, int]) -> None:
        super().__init__()
        self._arities = arities

    def database(self) -> Database:
        """Return the atoms as a database."""
        constants = dict[str, int]()
        relations = {}
        for predicate, arity in self._arities.items():
            values = self._values.get(predicate, {})
            parts = [row for row in values if not isnan(values[row])], self._targets(predicate)
            tables = []
            for part in parts:
                columns = np.empty((arity, len(part)), np.int32)
                for place in range(arity):
                    columns[place] = interned([row[place] for row in part], constants)
                tables.append(AtomTable(columns, np.array([values[row] for row in part], float)))
            relations[predicate] = Relation(tables[0], tables[1], no_atoms(arity))
        return Database(tuple(constants), relations)

    def targets(self) -> list[GroundAtom]:
        """Return the targets in the order of the variables of ``database``."""
        return [(predicate, row) for predicate in self._arities for row in self._targets(predicate)]

    def _targets(self, predicate: str) -> list[Constants]:
        return [row for row, value in self._values.get(predicate, {}).items() if isnan(value)]


class _Pattern:
    """An atom of a rule; a binding has the constants of the rule as well as those of its variables."""

    def __init__(self, atom: Atom):
        self.predicate = atom.predicate
        self.names = [_name(term) for term in atom.terms]

    def ground(self, binding: Binding) -> GroundAtom:
        """Return the atom with all its constants."""
        return self.predicate, tuple([binding[name] for name in self.names])

    def matched(self, constants: Constants, binding: Binding) -> Binding | None:
        """Return the binding under which the atom has these constants; None if there is none."""
        extended = dict(binding)
        for name, constant in zip(self.names, constants, strict=True):
            if extended.setdefault(name, constant) != constant:
                return None
        return extended


class _Rule:
    """A plan with its atoms as patterns; ``constants`` is the binding of the constants of the rule."""

    def __init__(self, plan: RulePlan):
        self.plan, form = plan, plan.form
        conditions = [c for item in form.summations for choice in item.choices for c in choice]
        literals = [c.atom for c in conditions if isinstance(c, Literal)]
        compared = [c for c in (*conditions, *form.comparisons) if isinstance(c, Compared)]
        self.joins = [_Pattern(term.atom) for term in form.joins + form.sums]
        self.lookups = [_Pattern(term.atom) for term in form.lookups]
        self.filters = [*map(_Pattern, literals)]
        self.computed = [_Pattern(term.atom) for term in form.computed]
        leaves = [term for c in compared for term in (c.left, c.right)]
        leaves += [term for item in form.terms for term in item.atom.terms]
        leaves += [term for atom in literals for term in atom.terms]
        self.constants = {_name(leaf): leaf.name for leaf in leaves if isinstance(leaf, Constant)}
        self.checks: list[Conditions] = [((item,),) for item in form.comparisons]
        self.checks += [item.choices for item in form.summations if () not in item.choices]

    def value(self, coefficient: Coefficient, counts: Mapping[str, float]) -> float:
        """Return a coefficient. Raises RuleError."""
        if isinstance(coefficient, Number):
            return coefficient.value
        return coefficient_value(self.plan, coefficient, counts)


class IncrementalGrounder:
    """The ground rules of a program over facts that change.

    ``opened`` are the predicates that may have targets. An unlisted atom of theirs in a ground rule is an
    error; with ``skip`` such ground rules are left out. ``plans`` are by number, in the order of the rules;
    those that an ``old`` grounder has as well, with any weights, have its numbers, and all others new ones.
    """

    def __init__(
        self,
        program: PslProgram,
        opened: Iterable[str],
        functions: Functions | None = None,
        skip: bool = False,
        old: IncrementalGrounder | None = None,
    ):
        self._program = program
        plans = plan_program(program)
        self.plans = dict(enumerate(plans)) if old is None else old._numbered(plans)
        self.listed = ListedAtoms(program.predicates)
        self._functions = functions or {}
        self._opened = frozenset(opened)
        self._skip = skip
        self._rules = {number: _Rule(plan) for number, plan in self.plans.items()}
        self._mentions: dict[str, list[tuple[int, _Pattern]]] = {}
        for number, rule in self._rules.items():
            for pattern in rule.joins + rule.lookups + rule.filters:
                self._mentions.setdefault(pattern.predicate, []).append((number, pattern))

    def everything(self) -> dict[Key, Row]:
        """Return all ground rules that are not trivial, by key. Raises as ``change`` does."""
        return self._everything(self.plans)

    def _everything(self, plans: Mapping[int, RulePlan]) -> dict[Key, Row]:
        """Return the ground rules of plans."""
        listing = Listing(self.listed.database())
        listing.opened = self._opened
        compiled = [compile_plan(plan, with_worlds=False) for plan in plans.values()]
        executor = ArrayJoins(compiled, listing, False, MOST, self._skip)
        targets, rows = self.listed.targets(), dict[Key, Row]()
        for order, (number, plan) in enumerate(plans.items()):
            for joined in executor.join(order):
                chosen = listed(plan, joined, self._opened) if self._skip else joined
                keys, group = _groups(plan, chosen, listing)
                atoms = NumberedAtoms(
                    listing.constants,
                    listing.value,
                    listing.variable,
                    len(keys),
                    listing.n_variables,
                )
                grouped = Joined(chosen.atoms, chosen.bindings, group)
                piece = Assembler(atoms, self._functions).assemble(plan, grouped)
                if piece.broken.any():
                    raise self._impossible((number, keys[int(piece.broken.argmax())]))
                forms = piece.forms
                start, variable = forms.start.tolist(), forms.variable.tolist()
                for n, place in enumerate(forms.world.tolist()):
                    entries = slice(start[n], start[n + 1])
                    variables = tuple(targets[j] for j in variable[entries])
                    constant = float(forms.constant[n])
                    row = Row(number, variables, forms.coefficient[entries], constant)
                    rows[number, keys[place]] = row
            for failure in executor.failures.values():
                raise RuleError(failure)
        return rows

    def change(self, atoms: Mapping[GroundAtom, float | None]) -> dict[Key, Row | None]:
        """Change the values of atoms: NaN makes a target, None takes an atom off the list.

        Returns the ground rules that may differ, by key; None: it is trivial, or is no more. Raises
        Infeasible where facts alone break a hard rule, and RuleError where an atom is missing, a coefficient
        divides by 0, or a function returns no value from 0 to 1. Then no atom has changed.
        """
        before = {atom: self.listed.get(atom) for atom in atoms}
        is_first = not len(self.listed)
        self.set_facts({atom: value for atom, value in atoms.items() if value is not None})
        keys = [] if is_first else sorted({*chain.from_iterable(map(self._affected, atoms))})
        self.set_facts(atoms)
        try:
            return {**self.everything()} if is_first else {key: self._row(key) for key in keys}
        except (RuleError, Infeasible):
            self.set_facts(before)
            raise

    def _numbered(self, plans: Iterable[RulePlan]) -> dict[int, RulePlan]:
        """Return plans by the numbers that they have here; others have new numbers."""
        numbers = dict[RulePlan, list[int]]()
        for number, plan in reversed(self.plans.items()):
            numbers.setdefault(_unweighted(plan), []).append(number)
        new, result = count(max(self.plans, default=-1) + 1), dict[int, RulePlan]()
        for plan in plans:
            same = numbers.get(_unweighted(plan))
            result[same.pop() if same else next(new)] = plan
        return result

    def under(
        self, program: PslProgram
    ) -> tuple[IncrementalGrounder, dict[Key, Row], Collection[int]]:
        """Return a grounder of the same facts for another program.

        Also returns the ground rules of the plans that are new, and the numbers of those that are no more.
        Raises as ``change`` does.
        """
        other = IncrementalGrounder(program, self._opened, self._functions, self._skip, self)
        other.set_facts(self.listed.sorted())
        new = {number: plan for number, plan in other.plans.items() if number not in self.plans}
        return other, other._everything(new) if new else {}, self.plans.keys() - other.plans.keys()

    def neighbourhood(self, atoms: Iterable[GroundAtom]) -> set[GroundAtom]:
        """Return the listed atoms of all ground rules that mention some of these atoms."""
        result = set[GroundAtom]()
        for number, constants in {*chain.from_iterable(map(self._affected, atoms))}:
            rule = self._rules[number]
            outer = rule.constants | dict(zip(rule.plan.outer, constants, strict=True))
            for binding in self._bindings(rule.joins, outer, rule.plan.variables):
                for pattern in rule.joins + rule.lookups + rule.filters:
                    result.add(pattern.ground(binding))
        return {atom for atom in result if self.listed.get(atom) is not None}

    def set_facts(self, atoms: Mapping[GroundAtom, float | None]) -> None:
        """Give atoms these values, as they had before a change; no ground rule is made."""
        for atom, value in atoms.items():
            self.listed.set(atom, value)

    def _affected(self, atom: GroundAtom) -> Iterator[Key]:
        """Yield the keys of the ground rules that mention an atom, and perhaps of some that do not."""
        for number, pattern in self._mentions.get(atom[0], ()):
            rule = self._rules[number]
            if (binding := pattern.matched(atom[1], rule.constants)) is not None:
                others = [joined for joined in rule.joins if joined is not pattern]
                names = rule.plan.outer
                for extended in self._bindings(others, binding, names):
                    yield number, tuple([extended[name] for name in names])

    def _bindings(
        self, patterns: Sequence[_Pattern], binding: Binding, names: Sequence[str]
    ) -> Iterator[Binding]:
        """Join atoms until these variables are bound, always the atom that has fewest matches."""
        if not [name for name in names if name not in binding]:
            yield binding
            return
        matches = [self._matching(pattern, binding) for pattern in patterns]
        least = min(range(len(patterns)), key=lambda place: len(matches[place]))
        others = [*patterns[:least], *patterns[least + 1 :]]
        for constants in matches[least]:
            if (extended := patterns[least].matched(constants, binding)) is not None:
                yield from self._bindings(others, extended, names)

    def _matching(self, pattern: _Pattern, binding: Binding) -> Mapping[Constants, object]:
        names = pattern.names
        columns = tuple([place for place, name in enumerate(names) if name in binding])
        cells = tuple([binding[name] for name in names if name in binding])
        return self.listed.matching(pattern.predicate, columns, cells)

    def text(self, key: Key) -> str:
        """Return a ground rule as text."""
        plan, constants = self.plans[key[0]], key[1]
        rule = self._program.rules[plan.form.rule]
        return show_unweighted(bound(rule, dict(zip(plan.outer, constants, strict=True))))

    def hard_rule(self, key: Key) -> HardRule:
        """Return a ground hard rule, which is not trivial, with its facts."""
        row, form = self._row(key, folded=False), self.plans[key[0]].form
        assert row is not None
        values = [
            function_value(form, atom, self._functions)
            if atom[0] in self._functions
            else self.listed.get(atom) or 0.0
            for atom in row.atoms
        ]
        figures = row.atoms, values, row.coefficients, row.constant
        return HardRule(self.text(key), form.equality, *figures)

    def _impossible(self, key: Key) -> Exception:
        """Return the error for a ground hard rule that facts alone break."""
        return conflict([self.hard_rule(key)]) or RuleError(broken(self.plans[key[0]].form))

    def _row(self, key: Key, folded: bool = True) -> Row | None:
        """Make the ground rule of a key; None if it is trivial or has no atoms. Raises RuleError.

        Facts are ``folded`` into the constant; otherwise they are among the atoms, and no rule is trivial.
        """
        number, constants = key
        rule = self._rules[number]
        plan, form = rule.plan, rule.plan.form
        outer = rule.constants | dict(zip(plan.outer, constants, strict=True))
        rows, columns = list[Binding](), list[list[tuple[GroundAtom, float]]]()
        for binding in self._bindings(rule.joins, outer, plan.variables):
            if (atoms := self._atoms(rule, binding)) is not None:
                rows.append(binding)
                columns.append(atoms)
        if not rows:
            return None
        counts = {
            item.variable: len({binding[item.variable] for binding in rows})
            for item in form.summations
        }
        constant, linear = rule.value(form.constant, counts), dict[GroundAtom, float]()
        for term, distinct in zip(form.terms, map(dict, zip(*columns, strict=True)), strict=True):
            coefficient = rule.value(term.coefficient, counts)
            for atom, value in sorted(distinct.items()):
                if isnan(value) or not folded:
                    linear[atom] = linear.get(atom, 0.0) + coefficient
                else:
                    constant += coefficient * value
        linear = {atom: coefficient for atom, coefficient in linear.items() if coefficient}
        if not folded:
            return Row(number, tuple(linear), np.array([*linear.values()]), constant)
        if not linear:
            excess = abs(constant) if form.equality else constant
            if form.weight is None and excess > ACTIVE:
                raise self._impossible(key)
            return None
        if not form.equality and constant + sum([max(q, 0.0) for q in linear.values()]) <= ACTIVE:
            return None
        return Row(number, tuple(linear), np.array([*linear.values()]), constant)

    def _atoms(self, rule: _Rule, binding: Binding) -> list[tuple[GroundAtom, float]] | None:
        """Return the atoms of a joined row, with values, in the order of the form's terms.

        None: what is listed satisfies the rule, a condition does not hold, or an atom is to be skipped.
        """
        clause, atoms = rule.plan.clause, list[tuple[GroundAtom, float]]()
        for pattern in rule.joins:
            ground = pattern.ground(binding)
            value = self.listed.get(ground)
            if value is None or (clause and value == 0.0):
                return None
            atoms.append((ground, value))
        for choices in rule.checks:
            if not any(all(self._holds(item, binding) for item in choice) for choice in choices):
                return None
        unlisted = None
        for place, pattern in enumerate(rule.lookups):
            ground = pattern.ground(binding)
            value = self.listed.get(ground)
            if clause and value == 1.0:
                return None
            if value is None and pattern.predicate in self._opened and unlisted is None:
                unlisted = place
            atoms.append((ground, value or 0.0))
        if unlisted is not None:
            if self._skip:
                return None
            form = rule.plan.form
            raise RuleError(missing(form, form.lookups[unlisted].atom, binding))
        for pattern in rule.computed:
            ground = pattern.ground(binding)
            value = function_value(rule.plan.form, ground, self._functions)
            atoms.append((ground, value))
        return atoms

    def _holds(self, condition: Condition, binding: Binding) -> bool:
        if isinstance(condition, Literal):
            value = self.listed.get(_Pattern(condition.atom).ground(binding))
            return (
                value is not None and value > 0.0
            ) == condition.positive  # a target does not hold
        left, right = (binding[_name(term)] for term in (condition.left, condition.right))
        holds = left == right if condition.op == "=" else comes_before(left, right)
        return holds == condition.positive


def _unweighted(plan: RulePlan) -> RulePlan:
    """Return a plan without what its ground rules do not depend on."""
    weight = None if plan.form.weight is None else 1.0
    return replace(plan, form=replace(plan.form, rule=0, weight=weight))


def _name(term: Term) -> str:
    """Return the name of a variable; that of a constant cannot be a variable's."""
    if isinstance(term, Variable):
        return term.name
    assert isinstance(term, Constant)
    return f"'{term.name}"


def _groups(plan: RulePlan, joined: Joined, listing: Listing) -> tuple[list[Constants], Ints32]:
    """Return the constants of the outer variables of each ground rule, and the ground rule of each row."""
    columns = list[Ints32]()
    for name in plan.outer:
        atom, place, column = next(
            (atom, place, column)
            for place, atom in enumerate(term.atom for term in plan.form.joins + plan.form.sums)
            for column, term in enumerate(atom.terms)
            if isinstance(term, Variable) and term.name == name
        )
        rows = joined.atoms[place] - listing.base[atom.predicate]
        columns.append(listing.columns[atom.predicate][column][rows])
    n = joined.atoms.shape[1]
    group: Ints32 = np.arange(n, dtype=np.int32)
    if plan.form.summations:
        table = np.array(columns, np.int32).reshape(len(columns), n)
        distinct, inverse = np.unique(table, axis=1, return_inverse=True)
        columns, group = [*distinct], inverse.reshape(n).astype(np.int32)
        n = distinct.shape[1]
    names = [[listing.constants[c] for c in column.tolist()] for column in columns]
    return [*zip(*names, strict=True)] if names else [()] * n, group
