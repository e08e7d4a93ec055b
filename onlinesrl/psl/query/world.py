"""A PSL world that stays: facts come and go, and the certified values of its targets follow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import DataError, Infeasible
from onlinesrl.core.explain.explanation import Explanation, ExplanationError, shown
from onlinesrl.core.io.restoring import LARGE, Expected, Misfit, restored
from onlinesrl.logic.atom_index import Change, GroundAtom
from onlinesrl.psl.explain.explanation import balance, reasons_of
from onlinesrl.psl.ground.conflict import HardRule, conflict
from onlinesrl.psl.ground.form_assembly import RuleError
from onlinesrl.psl.ground.grounder import rule_error
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HARD, HINGE
from onlinesrl.psl.ground.incremental_grounder import IncrementalGrounder, Key, Row
from onlinesrl.psl.inference.incremental_admm import Certificate, HingeRow, IncrementalAdmm
from onlinesrl.psl.lang.ast import PslProgram, PslRule
from onlinesrl.psl.lang.model import Functions
from onlinesrl.psl.lang.text import show_program

RESOLUTION = 1e-3
"""A value has changed if it is this far from the value that was reported last."""


class PslWorld:
    """Facts, and the values of least energy of the targets.

    ``opened`` are the predicates that may have targets; with ``skip``, ground rules with an atom of theirs
    that is neither observed nor a target are left out.
    """

    def __init__(
        self,
        program: PslProgram,
        opened: Collection[str],
        functions: Functions | None = None,
        skip: bool = False,
    ):
        self._program, self._opened = program, opened
        self._functions, self._skip = functions, skip
        self._grounder = IncrementalGrounder(program, opened, functions, skip)
        self._answer = IncrementalAdmm(self._weights(self._grounder))
        self._reported = dict[GroundAtom, float]()
        self.touched = 0

    @property
    def certificate(self) -> Certificate:
        """The certificate of the values."""
        return self._answer.certificate

    def fact(self, atom: GroundAtom) -> float | None:
        """Return the observed value of an atom, NaN for a target; None if it is neither."""
        return self._grounder.listed.get(atom)

    def value(self, atom: GroundAtom) -> float | None:
        """Return the value of a target or of an observed atom; None if it is neither."""
        fact = self.fact(atom)
        return self._answer.value(atom) if fact is not None and isnan(fact) else fact

    def neighbourhood(
        self, atoms: Iterable[GroundAtom]
    ) -> tuple[list[GroundAtom], dict[GroundAtom, float]]:
        """See ``GroundWorld.neighbourhood``."""
        beside = sorted(self._grounder.neighbourhood(atoms) - {*atoms})
        return sorted(atoms), {
            atom: value for atom in beside if (value := self.value(atom)) is not None
        }

    def values(self) -> Iterator[tuple[GroundAtom, float]]:
        """Yield the targets and their values."""
        for atom in self._reported:
            yield atom, self._answer.value(atom)

    def facts(self) -> dict[GroundAtom, float]:
        """Return the facts in the order of their names, NaN for targets."""
        return self._grounder.listed.sorted()

    def save(self) -> tuple[dict[GroundAtom, float], dict[str, Floats]]:
        """Return the facts, and arrays for ``resume``; this world then goes on as a resumed one does."""
        facts, targets = self.facts(), sorted(self._reported)
        values, duals = self._answer.state()
        place = {number: n for n, number in enumerate(self._grounder.plans)}
        keys = sorted(duals, key=lambda key: (place[key[0]], key[1]))
        arrays = {
            "values": np.array([values[atom] for atom in targets]),
            "reported": np.array([self._reported[atom] for atom in targets]),
            "duals": np.array([duals[key] for key in keys]),
        }
        self.resume(facts, arrays)
        return facts, arrays

    def resume(self, facts: Mapping[GroundAtom, float], arrays: Mapping[str, Floats]) -> None:
        """Become the world that was saved. Raises Misfit if the arrays are not those of the facts."""
        grounder = IncrementalGrounder(self._program, self._opened, self._functions, self._skip)
        try:
            rows = grounder.change(facts)
        except RuleError as error:
            raise Misfit(str(rule_error(self._program, error.failure))) from None
        except Infeasible as error:
            raise Misfit(str(error)) from None
        targets = [atom for atom, value in facts.items() if isnan(value)]
        expected = {
            "values": Expected(np.float64, ("targets",), 0.0, 1.0),
            "reported": Expected(np.float64, ("targets",), 0.0, 1.0),
            "duals": Expected(np.float64, ("rows",), -LARGE, LARGE),
        }
        arrays = restored(arrays, expected, targets=len(targets), rows=len(rows))
        values, reported, duals = (arrays[name].tolist() for name in expected)
        self._grounder, self._answer = grounder, IncrementalAdmm(self._weights(grounder))
        hinges = {key: self._hinge(row) for key, row in sorted(rows.items()) if row is not None}
        by_name = dict(zip(targets, values, strict=True)), dict(zip(hinges, duals, strict=True))
        self._answer.resume(hinges, *by_name)
        self._reported = dict(zip(targets, reported, strict=True))

    def explain(self, atom: GroundAtom) -> Explanation:
        """Return why an atom has its value. Raises ExplanationError if it is no target and not observed."""
        value = self.fact(atom)
        if value is None:
            raise ExplanationError(f"{shown(atom)} is neither observed nor a target")
        if not isnan(value):
            return Explanation("", shown(atom), value, given=True)
        keys, model, solution = self._answer.around(atom)
        reasons = reasons_of(
            model, solution, 0, [*map(self._grounder.text, keys)], self._answer.weights
        )
        return balance("", atom, float(solution.y[0]), reasons, solution.certified)

    def apply(self, changes: Mapping[GroundAtom, float | None]) -> dict[GroundAtom, Change]:
        """Change facts: a value is observed, NaN makes a target, None takes the atom away.

        Returns the targets whose value changed. Raises ModelError where a rule cannot be ground,
        and Infeasible where the hard rules cannot all hold. Then nothing has changed.
        """
        old = {atom: self.fact(atom) for atom in changes}
        try:
            rows = self._grounder.change(changes)
        except RuleError as error:
            raise rule_error(self._program, error.failure) from None
        added, removed = list[GroundAtom](), list[GroundAtom]()
        for atom, value in changes.items():
            was, is_target = (x is not None and isnan(x) for x in (old[atom], value))
            if is_target and not was:
                added.append(atom)
            elif was and not is_target:
                removed.append(atom)
        hinges: dict[Any, HingeRow | None] = {
            key: None if row is None else self._hinge(row) for key, row in rows.items()
        }
        try:
            moved = self._answer.step(hinges, added, removed)
        except Infeasible as error:
            smallest = conflict(self._hard_rules(hinges))
            self._grounder.set_facts(old)
            raise smallest or error from None
        self.touched = len(rows)
        return dict(self._report(moved))

    def _hinge(self, row: Row) -> HingeRow:
        form = self._grounder.plans[row.plan].form
        figures = row.atoms, row.coefficients, row.constant
        if form.weight is None:
            return HingeRow(*figures, HARD, 1, EQUAL if form.equality else AT_MOST)
        return HingeRow(*figures, row.plan, form.power, HINGE)

    def _weights(self, grounder: IncrementalGrounder) -> Floats:
        """Return the weights of plans by their numbers; 0 for hard rules and for numbers without a plan."""
        weights = np.zeros(max(grounder.plans, default=-1) + 1)
        for number, plan in grounder.plans.items():
            weights[number] = plan.form.weight or 0.0
        return weights

    @property
    def text(self) -> str:
        """The program with the present weights."""
        return show_program(self._program)

    def set_weights(self, program: PslProgram) -> dict[GroundAtom, Change]:
        """Give the rules the weights of a file of weights; return the targets whose value changed.

        Raises DataError where the two do not fit; then nothing has changed.
        """
        weighted = dict[PslRule, list[PslRule]]()
        for rule in program.rules:
            weighted.setdefault(_unweighted(rule), []).append(rule)
        rules = list[PslRule]()
        for rule in self._program.rules:
            if not (same := weighted.get(_unweighted(rule))):
                raise DataError(f"{program.file}: no weight fits the rule `{rule.text}`")
            rules.append(replace(rule, weight=same.pop(0).weight))
        for others in weighted.values():
            for rule in others:
                line = f"{program.file}, line {rule.position.line}"
                raise DataError(f"{line}: no rule of the world fits `{rule.text}`")
        return self.set_model(replace(self._program, rules=tuple(rules)))

    def set_model(self, program: PslProgram) -> dict[GroundAtom, Change]:
        """Go on under another program; return the targets whose value changed.

        The facts fit both. Only rules that are new are ground. Raises ModelError and Infeasible as ``apply``
        does; then nothing has changed.
        """
        old, before = self._grounder, self._answer.weights
        try:
            self._grounder, rows, gone = old.under(program)
        except RuleError as error:
            raise rule_error(program, error.failure) from None
        changed = dict[Any, HingeRow | None]()
        changed |= {key: None for key in self._answer.rows if key[0] in gone}
        changed |= {key: self._hinge(row) for key, row in rows.items()}
        weights = self._weights(self._grounder)
        present = np.zeros(max(len(before), len(weights)))
        present[: len(weights)] = weights
        present[: len(before)] = before
        self._answer.weights = present
        try:
            moved = self._answer.step(changed)
        except Infeasible as error:
            smallest = conflict(self._hard_rules(changed))
            self._grounder, self._answer.weights = old, before
            raise smallest or error from None
        self._program, self.touched = program, len(changed)
        numbers = [*self._grounder.plans]
        if np.any(weights[numbers] != present[numbers]):
            self._answer.set_weights(np.append(weights, np.zeros(len(present) - len(weights))))
            moved |= self._answer.step({})
        return dict(self._report(moved))

    def _hard_rules(self, changed: Mapping[Key, HingeRow | None]) -> Iterator[HardRule]:
        """Yield the hard rules of a step that was taken back, then those that share targets with them."""
        new = dict[Any, list[Key]]()
        for key, row in changed.items():
            for atom in () if row is None else row.variables:
                new.setdefault(atom, []).append(key)
        keys = [key for key, row in changed.items() if row is not None]
        seen, searched = {*keys}, set[GroundAtom]()
        for key in keys:  # it grows
            if self._grounder.plans[key[0]].form.weight is not None:
                continue
            rule = self._grounder.hard_rule(key)
            yield rule
            for atom, value in zip(rule.atoms, rule.values, strict=True):
                if isnan(value) and atom not in searched:
                    searched.add(atom)
                    old = self._answer.around(atom)[0] if atom in self._reported else ()
                    near = [*new.get(atom, ()), *(other for other in old if other not in changed)]
                    keys += [other for other in near if other not in seen]
                    seen |= {*near}

    def _report(
        self, moved: Mapping[GroundAtom, tuple[float, float]]
    ) -> Iterator[tuple[GroundAtom, Change]]:
        """Yield what is new about the targets whose values moved."""
        for atom, (_, value) in moved.items():
            old = self._reported.get(atom)
            if isnan(value):
                del self._reported[atom]
                yield atom, (old, None)
            elif old is None or abs(value - old) >= RESOLUTION:
                self._reported[atom] = value
                yield atom, (old, value)


def _unweighted(rule: PslRule) -> PslRule:
    return rule if rule.weight is None else replace(rule, weight=1.0)
