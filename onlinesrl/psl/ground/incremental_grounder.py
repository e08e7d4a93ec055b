"""Incremental grounding of PSL: facts change, and only the ground rules that mention them are made again.

A ground rule of a form depends on the atoms that the form mentions under its substitution, and on nothing
else. So the changed atoms are matched with every literal of every form, in filters as well; the joins,
begun there, lead to the substitutions of the ground rules that may differ. Rows that agree on the variables
outside of summations are one ground rule (``RulePlan.outer``), which is made anew as a whole.

Atoms are joined over the old and the new facts together, so that a ground rule that goes is reached as well
as one that comes. Conditions are only looked at when the ground rule is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isnan
from typing import NamedTuple, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats, Ints32
from onlinesrl.logic.ast import Atom, Constant, Term, Variable
from onlinesrl.logic.cnf import Compared, Literal
from onlinesrl.psl.ground.form_assembly import (
    Assembler,
    Joined,
    Listing,
    NumberedAtoms,
    RuleError,
    broken,
    comes_before,
    listed,
    missing,
)
from onlinesrl.psl.ground.grounder import MOST
from onlinesrl.psl.ground.join_plan import RulePlan, plan_program
from onlinesrl.psl.ground.memory_joins import ArrayJoins, compile_plan
from onlinesrl.psl.lang.ast import PslProgram
from onlinesrl.psl.lang.data import AtomTable, Database, Relation, interned, no_atoms
from onlinesrl.psl.lang.linear_form import Condition, Conditions
from onlinesrl.psl.lang.model import Functions

Constants: TypeAlias = tuple[str, ...]
GroundAtom: TypeAlias = tuple[str, Constants]
"""A predicate and its constants."""
Binding: TypeAlias = Mapping[str, str]
"""The constants of variables."""
Key: TypeAlias = tuple[int, Constants]
"""A ground rule: the number of its plan, and the constants of the plan's outer variables."""
_Index: TypeAlias = dict[Constants, dict[Constants, None]]


class Row(NamedTuple):
    """The linear form of a ground rule: the atoms of its variables, coefficients float64, and constant."""

    plan: int
    atoms: tuple[GroundAtom, ...]
    coefficients: Floats
    constant: float


class ListedAtoms:
    """The listed atoms and their values, NaN for a target.

    The atoms of a predicate are indexed by any of their columns that a join asks for; an index is made when
    it is first used, and follows the changes.
    """

    def __init__(self, arities: Mapping[str, int]) -> None:
        self._arities = arities
        self._values: dict[str, dict[Constants, float]] = {}
        self._indexes: dict[str, dict[tuple[int, ...], _Index]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._values.values()))

    def get(self, atom: GroundAtom) -> float | None:
        """Return the value of an atom; None if it is not listed."""
        return self._values.get(atom[0], {}).get(atom[1])

    def set(self, atom: GroundAtom, value: float | None) -> None:
        """Give an atom another value; None takes it off the list."""
        predicate, constants = atom
        values = self._values.setdefault(predicate, {})
        if value is not None:
            values[constants] = value
        elif values.pop(constants, None) is None:
            return
        for columns, index in self._indexes.get(predicate, {}).items():
            cells = _cells(constants, columns)
            if value is not None:
                index.setdefault(cells, {})[constants] = None
                continue
            del index[cells][constants]
            if not index[cells]:
                del index[cells]

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

    def matching(
        self, predicate: str, columns: tuple[int, ...], cells: Constants
    ) -> Mapping[Constants, object]:
        """Return the constants of the atoms that have these cells in these columns, ascending."""
        values = self._values.get(predicate, {})
        if not columns:
            return values
        indexes = self._indexes.setdefault(predicate, {})
        if columns not in indexes:
            index = indexes[columns] = _Index()
            for constants in values:
                index.setdefault(_cells(constants, columns), {})[constants] = None
        return indexes[columns].get(cells, {})


class _Numbering:
    """Numbers for atoms, targets and constants, in the order in which they are met."""

    def __init__(self) -> None:
        self.atoms: dict[GroundAtom, int] = {}
        self.constants: dict[str, int] = {}
        self.values: list[float] = []
        self.variables: list[int] = []
        self.targets: list[GroundAtom] = []

    def atom(self, atom: GroundAtom, value: float) -> int:
        """Return the number of an atom."""
        if (number := self.atoms.get(atom)) is None:
            number = self.atoms[atom] = len(self.atoms)
            is_target = isnan(value)
            self.values.append(0.0 if is_target else value)
            self.variables.append(len(self.targets) if is_target else -1)
            if is_target:
                self.targets.append(atom)
        return number

    def constant(self, name: str) -> int:
        """Return the number of a constant."""
        return self.constants.setdefault(name, len(self.constants))

    def listing(self, worlds: int) -> NumberedAtoms:
        """Return what an assembler reads; the worlds are the ground rules."""
        values, variables = np.array(self.values), np.array(self.variables, np.int32)
        return NumberedAtoms([*self.constants], values, variables, worlds, len(self.targets))


class IncrementalGrounder:
    """The ground rules of a program over facts that change.

    ``opened`` are the predicates that may have targets. An unlisted atom of theirs in a ground rule is an
    error; with ``skip`` such ground rules are left out.
    """

    def __init__(
        self,
        program: PslProgram,
        opened: Iterable[str],
        functions: Functions | None = None,
        skip: bool = False,
    ):
        self.plans = plan_program(program)
        self.listed = ListedAtoms(program.predicates)
        self._functions = functions or {}
        self._opened = frozenset(opened)
        self._skip = skip
        self._literals: dict[str, list[tuple[int, Atom]]] = {}
        for number, plan in enumerate(self.plans):
            for atom in _literals(plan):
                self._literals.setdefault(atom.predicate, []).append((number, atom))

    def everything(self) -> dict[Key, Row]:
        """Return all ground rules that are not trivial, by key. Raises RuleError as ``change`` does."""
        listing = Listing(self.listed.database())
        listing.opened = self._opened
        compiled = [compile_plan(plan, with_worlds=False) for plan in self.plans]
        executor = ArrayJoins(compiled, listing, False, MOST, self._skip)
        targets, rows = self.listed.targets(), dict[Key, Row]()
        for number, plan in enumerate(self.plans):
            for joined in executor.join(number):
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
                rows.update(self._assembled(number, grouped, keys, atoms, targets))
            for failure in executor.failures.values():
                raise RuleError(failure)
        return rows

    def change(self, atoms: Mapping[GroundAtom, float | None]) -> dict[Key, Row | None]:
        """Change the values of atoms: NaN makes a target, None takes an atom off the list.

        Returns the ground rules that may differ, by key; None: it is trivial, or is no more. Raises
        RuleError where a hard rule cannot hold, an atom is missing, a coefficient divides by 0, or a
        function returns no value from 0 to 1. Then no atom has changed.
        """
        before = {atom: self.listed.get(atom) for atom in atoms}
        if not len(self.listed):
            self._set(atoms)
            try:
                return {**self.everything()}
            except RuleError:
                self._set(before)
                raise
        self._set({atom: value for atom, value in atoms.items() if value is not None})
        keys = dict.fromkeys(chain.from_iterable(map(self._affected, atoms)))
        self._set(atoms)
        try:
            return self._rows(keys)
        except RuleError:
            self._set(before)
            raise

    def _set(self, atoms: Mapping[GroundAtom, float | None]) -> None:
        for atom, value in atoms.items():
            self.listed.set(atom, value)

    def _affected(self, atom: GroundAtom) -> Iterator[Key]:
        """Yield the keys of the ground rules that mention an atom, and perhaps of some that do not."""
        for number, literal in self._literals.get(atom[0], ()):
            plan = self.plans[number]
            if (binding := _matched(literal, atom[1], {})) is None:
                continue
            others = [joined for joined in _joined(plan) if joined is not literal]
            for extended in self._bindings(others, binding, plan.outer):
                yield number, _cells_of(plan.outer, extended)

    def _bindings(
        self, atoms: Sequence[Atom], binding: Binding, names: Sequence[str]
    ) -> Iterator[Binding]:
        """Join atoms until these variables are bound, always the atom that has fewest matches."""
        if all(name in binding for name in names):
            yield binding
            return
        matches = [self._matching(atom, binding) for atom in atoms]
        least = min(range(len(atoms)), key=lambda place: len(matches[place]))
        others = [*atoms[:least], *atoms[least + 1 :]]
        for constants in matches[least]:
            if (extended := _matched(atoms[least], constants, binding)) is not None:
                yield from self._bindings(others, extended, names)

    def _matching(self, atom: Atom, binding: Binding) -> Mapping[Constants, object]:
        cells = [_value(term, binding) for term in atom.terms]
        columns = tuple(column for column, cell in enumerate(cells) if cell is not None)
        return self.listed.matching(
            atom.predicate, columns, tuple(cell for cell in cells if cell is not None)
        )

    def _rows(self, keys: Iterable[Key]) -> dict[Key, Row | None]:
        """Make the ground rules of these keys."""
        rows: dict[Key, Row | None] = dict.fromkeys(keys)
        by_plan: dict[int, list[Constants]] = {}
        for number, constants in rows:
            by_plan.setdefault(number, []).append(constants)
        for number, groups in by_plan.items():
            plan, numbering = self.plans[number], _Numbering()
            atoms, bindings, worlds = list[list[int]](), list[list[int]](), list[int]()
            for group, constants in enumerate(groups):
                outer = dict(zip(plan.outer, constants, strict=True))
                for binding in self._bindings(_joined(plan), outer, plan.variables):
                    if (row := self._row(plan, binding, numbering)) is not None:
                        atoms.append(row)
                        bindings.append([numbering.constant(binding[v]) for v in plan.variables])
                        worlds.append(group)
            if worlds:
                joined = Joined(_columns(atoms), _columns(bindings), np.array(worlds, np.int32))
                listing = numbering.listing(len(groups))
                new = self._assembled(number, joined, groups, listing, numbering.targets)
                rows.update(new)
        return rows

    def _assembled(
        self,
        number: int,
        joined: Joined,
        groups: Sequence[Constants],
        listing: NumberedAtoms,
        targets: Sequence[GroundAtom],
    ) -> Iterator[tuple[Key, Row]]:
        """Yield the ground rules of joined rows of a plan, whose worlds are numbers of ``groups``."""
        plan = self.plans[number]
        piece = Assembler(listing, self._functions).assemble(plan, joined)
        if piece.broken.any():
            raise RuleError(broken(plan.form))
        forms = piece.forms
        start, variable = forms.start.tolist(), forms.variable.tolist()
        for n, group in enumerate(forms.world.tolist()):
            entries = slice(start[n], start[n + 1])
            atoms = tuple(targets[j] for j in variable[entries])
            row = Row(number, atoms, forms.coefficient[entries], float(forms.constant[n]))
            yield (number, groups[group]), row

    def _row(self, plan: RulePlan, binding: Binding, numbering: _Numbering) -> list[int] | None:
        """Return the numbers of a joined row's atoms, as ``Joined`` has them; None where it is no row."""
        form, numbers = plan.form, list[int]()
        for atom in _joined(plan):
            ground = _ground(atom, binding)
            value = self.listed.get(ground)
            if value is None or (plan.clause and value == 0.0):
                return None
            numbers.append(numbering.atom(ground, value))
        conditions: list[Conditions] = [((compared,),) for compared in form.comparisons]
        conditions += [summation.choices for summation in form.summations]
        if not all(
            any(all(self._holds(condition, binding) for condition in choice) for choice in choices)
            for choices in conditions
        ):
            return None
        unlisted = None
        for term in form.lookups:
            ground = _ground(term.atom, binding)
            value = self.listed.get(ground)
            if plan.clause and value == 1.0:
                return None
            if value is None and term.atom.predicate in self._opened:
                unlisted = unlisted or term.atom
            numbers.append(-1 if value is None else numbering.atom(ground, value))
        if unlisted is not None and not self._skip:
            raise RuleError(missing(form, unlisted, binding))
        return None if unlisted is not None else numbers

    def _holds(self, condition: Condition, binding: Binding) -> bool:
        if isinstance(condition, Literal):
            value = self.listed.get(_ground(condition.atom, binding))
            return (
                value is not None and value > 0.0
            ) == condition.positive  # a target does not hold
        assert isinstance(condition, Compared)
        left, right = (_value(term, binding) for term in (condition.left, condition.right))
        assert left is not None
        assert right is not None
        holds = left == right if condition.op == "=" else comes_before(left, right)
        return holds == condition.positive


def _joined(plan: RulePlan) -> list[Atom]:
    return [term.atom for term in plan.form.joins + plan.form.sums]


def _literals(plan: RulePlan) -> Iterator[Atom]:
    """Yield every atom whose facts a form's ground rules depend on."""
    yield from _joined(plan)
    yield from (term.atom for term in plan.form.lookups)
    for summation in plan.form.summations:
        for condition in chain(*summation.choices):
            if isinstance(condition, Literal):
                yield condition.atom


def _value(term: Term, binding: Binding) -> str | None:
    if isinstance(term, Variable):
        return binding.get(term.name)
    assert isinstance(term, Constant)
    return term.name


def _ground(atom: Atom, binding: Binding) -> GroundAtom:
    return atom.predicate, tuple(
        binding[term.name] if isinstance(term, Variable) else term.name  # type: ignore[union-attr]
        for term in atom.terms
    )


def _matched(atom: Atom, constants: Constants, binding: Binding) -> Binding | None:
    """Return the binding under which an atom has these constants; None if there is none."""
    extended = dict(binding)
    for term, constant in zip(atom.terms, constants, strict=True):
        if isinstance(term, Variable):
            if extended.setdefault(term.name, constant) != constant:
                return None
        elif _value(term, binding) != constant:
            return None
    return extended


def _groups(plan: RulePlan, joined: Joined, listing: Listing) -> tuple[list[Constants], Ints32]:
    """Return the constants of the outer variables of each ground rule, and the ground rule of each row."""
    columns = list[Ints32]()
    for name in plan.outer:
        atom, place, column = next(
            (atom, place, column)
            for place, atom in enumerate(_joined(plan))
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


def _columns(rows: Sequence[Sequence[int]]) -> Ints32:
    return np.array(rows, np.int32).reshape(len(rows), -1).T


def _cells(constants: Constants, columns: tuple[int, ...]) -> Constants:
    return tuple(constants[column] for column in columns)


def _cells_of(names: Sequence[str], binding: Binding) -> Constants:
    return tuple(binding[name] for name in names)
