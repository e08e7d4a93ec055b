"""Incremental grounding of PSL: facts change, and only the ground rules that mention them are made again.

A ground rule of a form depends on the atoms that the form mentions under its substitution, and on nothing
else; a soft one without targets is none. So the changed atoms are matched with every literal of every form,
in filters as well; the joins, begun there with all changed atoms of a predicate at once, lead to the
substitutions of the ground rules that may differ. Rows that agree on the variables outside of summations are
one ground rule (``RulePlan.outer``), which is made anew as a whole, by the form's plan begun with these
variables.

Atoms are joined over the old and the new facts together, so that a ground rule that goes is reached as well
as one that comes. Conditions are only looked at when the ground rule is made. A form of which a step changes
a large share of the atoms is ground from the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count
from math import nan
from typing import NamedTuple, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Ints, Ints32
from onlinesrl.core.errors import Infeasible
from onlinesrl.core.explain.conflict import Pattern
from onlinesrl.logic.ast import Atom, Variable, terms
from onlinesrl.logic.atom_index import Constants, GroundAtom
from onlinesrl.logic.cnf import Literal
from onlinesrl.logic.compiled_joins import WORLD, begin
from onlinesrl.logic.ground_world import GroundRule, GroundRules
from onlinesrl.logic.indexed_atoms import IndexedAtoms
from onlinesrl.logic.indexed_rows import IndexedRows, distinct
from onlinesrl.logic.kernels import join as kernel
from onlinesrl.psl.ground.conflict import HardRule, conflict
from onlinesrl.psl.ground.form_assembly import (
    Assembled,
    Assembler,
    Joined,
    RuleError,
    broken,
    listed,
)
from onlinesrl.psl.ground.grounder import MOST
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF, united
from onlinesrl.psl.ground.join_plan import RulePlan, pinned_plan, plan_form, plan_program
from onlinesrl.psl.ground.memory_joins import CompiledPlan, compile_plan, failure_of, joined_rows
from onlinesrl.psl.ground.rule_trace import bound
from onlinesrl.psl.lang.ast import Number, PslProgram
from onlinesrl.psl.lang.linear_form import LinearTerm
from onlinesrl.psl.lang.model import Functions
from onlinesrl.psl.lang.text import show_unweighted

Key: TypeAlias = tuple[int, Constants]
"""A ground rule: the number of its plan, and the constants of the plan's outer variables."""

LARGE = 0.5
"""A form is ground from the start if the shares of changed atoms of its literals add up to it."""
BEGIN = 0, 1
"""The depth of loops that begin."""


class Step(NamedTuple):
    """The ground rules that may differ, by number, and targets; the number of a variable is that of its atom.

    ``rows`` int64[model.n_rows] are the numbers of ground rules that are made anew, ``new`` of those that
    were none before, ``gone`` of those that are no more or are trivial, with ``gone_plans``. ``added`` and
    ``removed`` are atoms that became targets, or ceased to be.
    """

    rows: Ints
    model: HingeLossMRF
    new: Ints
    gone: Ints
    gone_plans: Ints
    added: Ints
    removed: Ints


_Piece: TypeAlias = tuple[int, Ints32, Assembled]
"""The forms of a plan that were made for keys [outer, n]; the world of a form is the number of its key."""


class _Pin(NamedTuple):
    """Plans that lead from an atom to ground rules of some forms, and the slots of their keys in them.

    ``wide`` leads to all, ``narrow`` to those that may have a target beside the atom.
    """

    wide: CompiledPlan
    narrow: CompiledPlan
    slots: list[int]
    loops: kernel.Loops
    plans: list[int]


class IncrementalGrounder:
    """The ground rules of a program over facts that change.

    ``opened`` are the predicates that may have targets. An unlisted atom of theirs in a ground rule is an
    error; with ``skip`` such ground rules are left out. ``plans`` are by number, in the order of the rules;
    those that an ``old`` grounder has as well, with any weights, have its numbers, and all others new ones.
    The weight index of a ground rule is the number of its plan.
    """

    def __init__(
        self,
        program: PslProgram,
        opened: Iterable[str],
        functions: Functions | None = None,
        skip: bool = False,
        old: IncrementalGrounder | None = None,
    ):
        self._program, self._functions = program, functions or {}
        self._opened, self._skip = frozenset(opened), skip
        plans = [
            plan_form(plan.form, plan.clause, given=plan.outer) for plan in plan_program(program)
        ]
        self.plans = dict(enumerate(plans)) if old is None else old._renumbered(plans)
        made = {n: compile_plan(plan, False, _keys_atom(plan)) for n, plan in self.plans.items()}
        pins = _pinned(self.plans, self._opened)
        roots = {number: _roots(plan) for number, plan in self.plans.items()}
        every = [*made.values(), *(compiled for _, compiled, _, _ in pins)]
        every += [compiled for of_plan in roots.values() for compiled in of_plan.values()]
        widths = [0] * (max(self.plans, default=-1) + 1)
        for number, plan in self.plans.items():
            widths[number] = len(plan.outer)
        asked = program.predicates, every, max(widths, default=0)
        if old is None:
            self.listed, self._rules = IndexedAtoms(*asked), IndexedRows(widths)
        else:
            widths += old._rules.widths[len(widths) :]
            self.listed, self._rules = old.listed.under_plans(*asked), old._rules.under(widths)
        self._made = {number: self._bound(compiled) for number, compiled in made.items()}
        self._roots = {
            number: {atom: self._bound(compiled) for atom, compiled in of_plan.items()}
            for number, of_plan in roots.items()
        }
        self._pins: dict[int, list[_Pin]] = {}
        for atom, compiled, slots, numbers in pins:
            loops = begin(compiled, np.zeros(1, np.int64), np.zeros(1, np.uint8))
            narrow = self._bound(compiled)
            code = replace(narrow.code, lookup_open=kernel.PASSES * narrow.code.lookup_open)
            wide = replace(narrow, code=replace(code, without_targets=True))
            pin = _Pin(wide, replace(narrow, code=code), slots, loops, numbers)
            self._pins.setdefault(self.listed.relation_of[atom.predicate], []).append(pin)
        self._around = dict[int, CompiledPlan]()
        self._assemblers = dict[bool, Assembler]()
        self._undo = list[Callable[[], object]]()
        """What takes the last change back, in the order in which it was made."""

    def _renumbered(self, plans: Iterable[RulePlan]) -> dict[int, RulePlan]:
        """Return plans by the numbers that they have here; others have new numbers."""
        numbers = dict[RulePlan, list[int]]()
        for number, plan in reversed(self.plans.items()):
            numbers.setdefault(_unweighted(plan), []).append(number)
        new, result = count(len(self._rules.widths)), dict[int, RulePlan]()
        for plan in plans:
            same = numbers.get(_unweighted(plan))
            result[same.pop() if same else next(new)] = plan
        return result

    def under(self, program: PslProgram) -> tuple[IncrementalGrounder, Step]:
        """Return a grounder of the same facts for another program, and the ground rules that differ.

        Raises RuleError and Infeasible as ``change`` does.
        """
        opened, functions, skip = self._opened, self._functions, self._skip
        other = IncrementalGrounder(program, opened, functions, skip, self)
        new = [number for number in other.plans if number not in self.plans]
        none = np.empty(0, np.int64)
        pieces = [*map(other._whole, new)]
        rows, _, _ = other._numbered(pieces, [])
        gone = [other._rules.numbers(number) for number in self.plans if number not in other.plans]
        lost = np.concatenate([none, *gone])
        plans = self.plans_of(lost)
        other._rules.remove(lost)
        return other, Step(rows, other._united(pieces), rows, lost, plans, none, none)

    def reweigh(self, program: PslProgram) -> None:
        """Give the plans the weights of a program, which has the same rules otherwise."""
        weights, self._program = [rule.weight for rule in program.rules], program
        self.plans = {
            number: replace(plan, form=replace(plan.form, weight=weights[plan.form.rule]))
            for number, plan in self.plans.items()
        }

    def neighbourhood(self, atoms: Iterable[GroundAtom]) -> set[GroundAtom]:
        """Return the listed atoms of all ground rules that mention some of these atoms."""
        numbers = self.listed.find_atoms([*atoms])
        result = np.empty(0, np.int32)
        for number, keys in self._affected(numbers[numbers >= 0], numbers[:0], []).items():
            if number not in self._around:
                self._around[number] = self._bound(_around(self.plans[number]))
            self.listed.list_keys(keys)
            for rows, _ in self._run(self._around[number], _begin(self._around[number], keys)):
                result = np.union1d(result, rows)
        return {self.listed.atom(number) for number in result[result >= 0].tolist()}

    def _bound(self, compiled: CompiledPlan) -> CompiledPlan:
        """Return a plan with the numbers of the indexes, and what is to be done with unlisted atoms."""
        compiled = self.listed.bound(compiled)
        opened = np.array([name in self._opened for name in compiled.looked_up], np.uint8)
        code = replace(
            compiled.code,
            lookup_open=np.zeros_like(opened) if self._skip else opened,
            without_targets=compiled.code.without_targets or (self._skip and bool(opened.any())),
        )
        return replace(compiled, code=code)

    def key(self, row: int) -> Key:
        """Return a ground rule's plan and constants."""
        plan, key = self.cells(row)
        return plan, self._constants(key[:, 0])

    def cells(self, row: int) -> tuple[int, Ints32]:
        """Return a ground rule's plan, and the numbers of its constants [outer, 1]."""
        plan = int(self._rules.relation[row])
        return plan, self._rules.cells(np.array([row]))[: len(self.plans[plan].outer)]

    def ground_rules(self) -> Ints:
        """Return the numbers of the ground rules that are not trivial, in the order of their keys."""
        names, rules = self.listed.constants, self._rules
        rank = np.empty(len(names), np.int64)
        rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        ordered = [np.empty(0, np.int64)]
        for number, plan in self.plans.items():
            rows = rules.numbers(number)
            keys = rank[rules.cells(rows)[: len(plan.outer)]]
            ordered.append(rows[np.lexsort(keys[::-1])] if len(keys) else rows)
        return np.concatenate(ordered)

    def change(self, atoms: Mapping[GroundAtom, float | None]) -> Step:
        """Change the values of atoms: NaN makes a target, None takes an atom off the list.

        Returns the ground rules that may differ. Raises Infeasible where facts alone break a hard rule, and
        RuleError where an atom is missing, a coefficient divides by 0, or a function returns no value from 0
        to 1. Then no atom has changed.
        """
        facts = self.listed
        facts.release()
        self._rules.release()
        every, listed_ = [*atoms], facts.find_atoms(atoms)
        value = np.array([nan if value is None else value for value in atoms.values()], float)
        goes = np.array([value is None for value in atoms.values()], np.bool_)
        is_listed, old = listed_ >= 0, facts.value[listed_]
        same = is_listed & ((old == value) | (np.isnan(old) & np.isnan(value)))
        comes = ~is_listed & ~goes
        listed_[comes] = new = facts.insert([every[n] for n in np.flatnonzero(comes).tolist()])
        sets = (comes | is_listed) & ~goes & ~same
        numbers, gone = listed_[sets], listed_[is_listed & goes]
        before = facts.value[numbers]
        self._undo = [partial(facts.remove, new), partial(facts.set_values, numbers, before)]
        touched = np.concatenate((numbers, gone))
        was_target = facts.variable[touched] >= 0
        everything = self._largely_changed(touched)
        try:
            revalued = ~(np.isnan(before) | np.isnan(value[sets]) | comes[sets])
            others = np.concatenate((numbers[~revalued], gone))
            keys = self._affected(others, numbers[revalued], everything)
            facts.set_values(numbers, value[sets])
            is_target = facts.variable[touched] >= 0
            is_target[len(numbers) :] = False
            relation = facts.relation[gone].astype(np.int64)
            facts.remove(gone)
            self._undo.append(partial(facts.restore, gone, relation))
            pieces = [self._made_of(*item) for item in keys.items()]
            pieces += map(self._whole, everything)
        except (RuleError, Infeasible):
            self.undo()
            raise
        rows, lost, new_rows = self._numbered(pieces, everything)
        plans = self.plans_of(lost)
        self._rules.remove(lost)
        self._undo.append(partial(self._rules.remove, new_rows))
        self._undo.append(partial(self._rules.restore, lost, plans))
        return Step(
            rows,
            self._united(pieces),
            new_rows,
            lost,
            plans,
            touched[is_target & ~was_target],
            touched[was_target & ~is_target],
        )

    def undo(self) -> None:
        """Undo the last change."""
        while self._undo:
            self._undo.pop()()

    # affected ground rules -----------------------------------------------------------------------

    def _largely_changed(self, touched: Ints) -> list[int]:
        """Return the plans of which a large share of the atoms is touched."""
        share = np.zeros(len(self._rules.widths))
        counts = np.bincount(self.listed.relation[touched], minlength=len(self.listed.predicates))
        for relation in np.flatnonzero(counts).tolist():
            for pin in self._pins.get(relation, ()):
                share[pin.plans] += counts[relation] / self.listed.size(relation)
        return [number for number in self.plans if share[number] >= LARGE]

    def _affected(self, touched: Ints, revalued: Ints, but: Sequence[int]) -> dict[int, Ints32]:
        """Return the keys [outer, n] of the ground rules that mention atoms, by plan, and perhaps more.

        Of the revalued atoms, which are observed and stay so, those that have a target beside them.
        """
        keys = dict[int, list[Ints32]]()
        for numbers, is_narrow in (touched, False), (revalued, True):
            relation = self.listed.relation[numbers]
            for predicate in dict.fromkeys(relation.tolist()):
                self.listed.list_rows(predicate, numbers[relation == predicate])
                for pin in self._pins.get(predicate, ()):
                    plans = [plan for plan in pin.plans if plan not in but]
                    pin.loops.depth[:], pin.loops.rows[0] = BEGIN, 0
                    compiled = pin.narrow if is_narrow else pin.wide
                    for _, bindings in self._run(compiled, pin.loops) if plans else ():
                        for plan in plans:
                            keys.setdefault(plan, []).append(bindings[pin.slots])
        return {plan: distinct(np.concatenate(keys[plan], axis=1)) for plan in sorted(keys)}

    def _run(self, compiled: CompiledPlan, loops: kernel.Loops) -> Iterator[tuple[Ints32, Ints32]]:
        """Yield the atoms and bindings of a plan's rows, in chunks. Raises RuleError."""
        yield from self.listed.run(compiled, loops, MOST)
        for world in np.flatnonzero(loops.problem).tolist():
            loops.problem[world] = kernel.FINE
            names = self.listed.constants
            raise RuleError(failure_of(compiled.plan, loops, world, names, MOST))

    # making ground rules -------------------------------------------------------------------------

    def _made_of(self, number: int, keys: Ints32) -> _Piece:
        """Make the ground rules of keys. Raises RuleError."""
        return self._piece(number, self.plans[number], keys, self._joined(number, keys))

    def _whole(self, number: int) -> _Piece:
        """Make all ground rules of a plan, by joins that begin at its smallest relation. Raises RuleError."""
        facts, roots, outer = self.listed, self._roots[number], self.plans[number].outer
        if not roots:
            return self._made_of(number, np.empty((0, 1), np.int32))
        relations = {atom: facts.relation_of[atom.predicate] for atom in roots}
        first = min(roots, key=lambda atom: facts.size(relations[atom]))
        facts.list_rows(relations[first], facts.numbers(relations[first]))
        compiled = roots[first]
        plan = compiled.plan
        joined = self._rows(compiled, begin(compiled, np.zeros(1, np.int64), np.zeros(1, np.uint8)))
        keys: Ints32 = joined.bindings[[plan.variables.index(name) for name in outer]]
        group: Ints32 = np.arange(keys.shape[1], dtype=np.int32)
        if plan.form.summations:
            keys, inverse = np.unique(keys, axis=1, return_inverse=True)
            group = inverse.reshape(len(group)).astype(np.int32)
        return self._piece(number, plan, keys, Joined(joined.atoms, joined.bindings, group))

    def _piece(self, number: int, plan: RulePlan, keys: Ints32, joined: Joined) -> _Piece:
        """Make ground rules of rows. Raises RuleError, and Infeasible where facts break a hard rule."""
        piece = self._assembler().assemble(plan, joined, keys.shape[1], number)
        if piece.broken.any():
            place = int(piece.broken.argmax())
            rule = self.hard_rule(number, keys[:, place : place + 1])
            raise conflict([rule]) or RuleError(broken(plan.form))
        return number, keys, piece

    def _joined(self, number: int, keys: Ints32) -> Joined:
        """Return the rows of keys. Raises RuleError."""
        self.listed.list_keys(keys)
        return self._rows(self._made[number], _begin(self._made[number], keys))

    def _rows(self, compiled: CompiledPlan, loops: kernel.Loops) -> Joined:
        """Return all rows of a plan. Raises RuleError."""
        plan = compiled.plan
        atoms, bindings = [loops.atom[1:, None][:, :0]], [loops.binding[:, None][:, :0]]
        for chunk in self._run(compiled, loops):
            atoms.append(chunk[0])
            bindings.append(chunk[1])
        joined = joined_rows(plan, np.concatenate(atoms, axis=1), np.concatenate(bindings, axis=1))
        return listed(plan, joined, self._opened) if self._skip else joined

    def hard_rule(self, number: int, key: Ints32) -> HardRule:
        """Return the ground hard rule of a plan and a key [outer, 1], with its facts among its atoms."""
        plan, facts = self.plans[number], self.listed
        joined = self._joined(number, key)
        model = self._assembler(every=True).assemble(plan, joined, 1, number).model
        numbers = model.variable.tolist()
        constants = self._constants(key[:, 0])
        return HardRule(
            self.text((number, constants)),
            plan.form.equality,
            [facts.atom(n) for n in numbers],
            facts.value[numbers].tolist(),
            model.coefficient,
            float(model.constant[0]),
            [*_depends(plan, constants)],
        )

    def text(self, key: Key) -> str:
        """Return a ground rule as text."""
        return _text(self._program, self.plans[key[0]], key[1])

    def plans_of(self, rows: Ints) -> Ints:
        """Return the plans of ground rules."""
        return self._rules.relation[rows].astype(np.int64)

    def counted(self, rows: Ints, plans: Ints) -> GroundRules:
        """Return what counts ground rules of these plans, by their present texts and weights."""
        named = dict[int, tuple[Ints32, dict[int, str]]]()
        for number in np.unique(plans).tolist():
            cells = self._rules.cells(rows[plans == number])[: len(self.plans[number].outer)]
            constants = np.unique(cells).tolist()
            named[number] = cells, {n: self.listed.constants[n] for n in constants}
        return partial(_counted, self.plans, self._program, named)

    def _constants(self, numbers: Ints32) -> Constants:
        return tuple([self.listed.constants[n] for n in numbers.tolist()])

    def _assembler(self, every: bool = False) -> Assembler:
        """Return what makes ground rules over the targets, or over ``every`` atom."""
        facts, assembler = self.listed, self._assemblers.get(every)
        if assembler is None or assembler.value is not facts.value:
            variable = np.arange(facts.room, dtype=np.int32) if every else facts.variable
            of_atoms = facts.constants, facts.value, variable, facts.room
            assembler = self._assemblers[every] = Assembler(*of_atoms, self._functions)
        return assembler

    def _numbered(
        self, pieces: Sequence[_Piece], everything: Sequence[int]
    ) -> tuple[Ints, Ints, Ints]:
        """Return the numbers of the ground rules of pieces, of those that went, and of new ones."""
        rules, numbers, fresh = self._rules, list[Ints](), list[tuple[Ints, Ints32]]()
        gone = [np.empty(0, np.int64)]
        for plan, keys, piece in pieces:
            number, made = rules.find(plan, keys), piece.world
            if plan not in everything:
                is_made = np.zeros(len(number), np.bool_)
                is_made[made] = True
                gone.append(number[~is_made & (number >= 0)])
            numbers.append(number[made])
            new = keys[:, made[numbers[-1] < 0]]
            fresh.append((np.full(new.shape[1], plan), rules.widened(new)))
        made_rows, added = np.concatenate([gone[0], *numbers]), gone[0]
        if fresh:
            relations, rows = zip(*fresh, strict=True)
            added = rules.add(np.concatenate(relations), np.concatenate(rows, axis=1))
            made_rows[made_rows < 0] = added
        if everything:
            stays = np.zeros(rules.room, np.bool_)
            stays[made_rows] = True
            gone += [row[~stays[row]] for row in map(rules.numbers, everything)]
        return made_rows, np.concatenate(gone), added

    def _united(self, pieces: Sequence[_Piece]) -> HingeLossMRF:
        """Return the ground rules of pieces as a model; the number of a variable is that of its atom."""
        return united(self.listed.room, [piece.model for _, _, piece in pieces])


def _text(program: PslProgram, plan: RulePlan, constants: Constants) -> str:
    binding = dict(zip(plan.outer, constants, strict=True))
    return show_unweighted(bound(program.rules[plan.form.rule], binding))


def _counted(
    plans: Mapping[int, RulePlan],
    program: PslProgram,
    named: Mapping[int, tuple[Ints32, Mapping[int, str]]],
) -> Counter[GroundRule]:
    """Count ground rules by text and weight, from the cells of each plan and the names in them."""
    return Counter(
        (_text(program, plans[number], tuple([names[n] for n in row])), plans[number].form.weight)
        for number, (cells, names) in named.items()
        for row in cells.T.tolist()
    )


def _literals(plan: RulePlan) -> list[Atom]:
    form = plan.form
    conditions = chain.from_iterable(choice for s in form.summations for choice in s.choices)
    atoms = [term.atom for term in form.joins + form.sums + form.lookups]
    atoms += [item.atom for item in conditions if isinstance(item, Literal)]
    return [*dict.fromkeys(atoms)]


def _depends(plan: RulePlan, constants: Constants) -> Iterator[Pattern]:
    """Yield patterns of the atoms on which a ground rule depends; summed variables are any."""
    binding = dict(zip(plan.outer, constants, strict=True))
    for atom in _literals(plan):
        named = terms(atom)
        cells = [binding.get(x.name) if isinstance(x, Variable) else x.name for x in named]
        yield atom.predicate, tuple(cells)


def _unweighted(plan: RulePlan) -> RulePlan:
    """Return a plan without what its ground rules do not depend on."""
    weight = None if plan.form.weight is None else 1.0
    return replace(plan, form=replace(plan.form, rule=0, weight=weight))


def _begin(compiled: CompiledPlan, keys: Ints32) -> kernel.Loops:
    """Return the loops of a plan over keys."""
    n = keys.shape[1]
    return begin(compiled, np.zeros(n, np.int64), np.zeros(n, np.uint8))


def _roots(plan: RulePlan) -> dict[Atom, CompiledPlan]:
    """Return the plans of all ground rules that begin with the rows of each joined atom."""
    result = dict[Atom, CompiledPlan]()
    for atom in (term.atom for term in plan.form.joins + plan.form.sums):
        names = [leaf.name for leaf in terms(atom) if isinstance(leaf, Variable)]
        result[atom] = compile_plan(plan_form(plan.form, plan.clause, given=names), False, atom)
    return result


def _around(plan: RulePlan) -> CompiledPlan:
    """Return the plan that leads from keys to all atoms of their ground rules, whatever their values are."""
    form = plan.form
    joined = {term.atom for term in form.joins + form.sums}
    others = [LinearTerm(Number(0.0), atom) for atom in _literals(plan) if atom not in joined]
    wide = replace(form, lookups=(*others,), computed=(), summations=(), weight=None)
    compiled = compile_plan(plan_form(wide, False, given=plan.outer), False, _keys_atom(plan))
    return replace(compiled, looked_up=("",) * len(others))


def _pinned(
    plans: Mapping[int, RulePlan], opened: Collection[str]
) -> list[tuple[Atom, CompiledPlan, list[int], list[int]]]:
    """Return the literals of plans with their compiled plans, the slots of keys, and the plans' numbers."""
    numbers = dict[tuple[Atom, RulePlan, tuple[str, ...]], list[int]]()
    for number, plan in plans.items():
        for atom in _literals(plan):
            pinned = pinned_plan(plan.form, atom, plan.outer, opened)
            numbers.setdefault((atom, pinned, plan.outer), []).append(number)
    return [
        (
            atom,
            compile_plan(pinned, False, atom),
            [1 + pinned.variables.index(n) for n in outer],
            same,
        )
        for (atom, pinned, outer), same in numbers.items()
    ]


def _keys_atom(plan: RulePlan) -> Atom:
    """Return the atom of keys: the number of the key, and the outer variables."""
    return Atom(WORLD, (Variable(WORLD), *map(Variable, plan.outer)))
