"""A PSL world that stays: facts come and go, and the certified values of its targets follow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import DataError, Infeasible
from onlinesrl.core.explain.explanation import Explanation, ExplanationError, shown
from onlinesrl.core.io.restoring import LARGE, Expected, Misfit, restored
from onlinesrl.core.rule_instance import PlacedWeight
from onlinesrl.logic.atom_index import Change, GroundAtom
from onlinesrl.logic.ground_world import Exchange
from onlinesrl.psl.explain.explanation import balance, reasons_of
from onlinesrl.psl.ground.conflict import HardRule, conflict
from onlinesrl.psl.ground.form_assembly import RuleError
from onlinesrl.psl.ground.grounder import rule_error
from onlinesrl.psl.ground.hinge_loss_mrf import united
from onlinesrl.psl.ground.incremental_grounder import IncrementalGrounder, Step
from onlinesrl.psl.inference.incremental_admm import Certificate, IncrementalAdmm
from onlinesrl.psl.lang.ast import LARGEST, PslProgram, PslRule
from onlinesrl.psl.lang.model import Functions
from onlinesrl.psl.lang.text import show_program

RESOLUTION = 1e-3
"""A value has changed if it is this far from the value that was reported last."""


class _State(NamedTuple):
    """What a step changes: the facts of its atoms, None where there is none, grounder, program, reports."""

    facts: dict[GroundAtom, float | None]
    grounder: IncrementalGrounder
    program: PslProgram
    replaced: dict[GroundAtom, float]


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
        self._reported = np.empty(0)
        """The values that were reported last, by number; NaN for what is no target."""
        self._replaced = dict[GroundAtom, float]()
        """The values that the present step reports others instead of."""
        self._all_due = False
        """Whether the next step reports on all targets."""
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
        if fact is None or not isnan(fact):
            return fact
        return float(self._answer.values[self._grounder.listed.number(atom)])

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
        facts, values = self._grounder.listed, self._answer.values
        for number in np.flatnonzero(facts.variable >= 0).tolist():
            yield facts.atom(number), float(values[number])

    def facts(self) -> dict[GroundAtom, float]:
        """Return the facts in the order of their names, NaN for targets."""
        return dict(sorted(self._grounder.listed.items()))

    def save(self) -> tuple[dict[GroundAtom, float], dict[str, Floats]]:
        """Return the facts, and arrays for ``resume``; this world then goes on as a resumed one does."""
        facts = self.facts()
        targets, rows = self._targets(facts), self._grounder.ground_rules()
        arrays = {
            "values": self._answer.values[targets],
            "reported": self._reported[targets],
            "duals": self._answer.duals(rows),
        }
        self.resume(facts, arrays)
        return facts, arrays

    def resume(self, facts: Mapping[GroundAtom, float], arrays: Mapping[str, Floats]) -> None:
        """Become the world that was saved. Raises Misfit if the arrays are not those of the facts."""
        other = PslWorld(self._program, self._opened, self._functions, self._skip)
        try:
            step = other._grounder.change(facts)
        except RuleError as error:
            raise Misfit(str(rule_error(self._program, error.failure))) from None
        except Infeasible as error:
            raise Misfit(str(error)) from None
        targets, rows = other._targets(facts), other._grounder.ground_rules()
        expected = {
            "values": Expected(np.float64, ("targets",), 0.0, 1.0),
            "reported": Expected(np.float64, ("targets",), 0.0, 1.0),
            "duals": Expected(np.float64, ("rows",), -LARGE, LARGE),
        }
        arrays = restored(arrays, expected, targets=len(targets), rows=len(rows))
        duals = np.empty(len(rows))
        order = np.argsort(step.rows)
        duals[order[np.searchsorted(step.rows, rows, sorter=order)]] = arrays["duals"]
        other._answer.resume(step.rows, step.model, duals, targets, arrays["values"])
        other._reported = np.full(other._grounder.listed.room, np.nan)
        other._reported[targets] = arrays["reported"]
        # they are others than the values where the world was made again, see ``remade``
        other._all_due = bool(np.any(np.abs(arrays["values"] - arrays["reported"]) >= RESOLUTION))
        vars(self).update(vars(other))

    def state(self, atoms: Iterable[GroundAtom]) -> _State:
        """See ``GroundWorld``."""
        self._replaced = {}
        facts = {atom: self.fact(atom) for atom in atoms}
        return _State(facts, self._grounder, self._program, self._replaced)

    def go_back(self, facts: Mapping[GroundAtom, float | None], states: Sequence[_State]) -> None:
        """See ``GroundWorld``; the next step reports values that are others than before."""
        told = {atom: x for state in reversed(states) for atom, x in state.replaced.items()}
        self._replaced = {}
        self.apply(facts)
        for atom, value in {**self._replaced, **told}.items():
            if not isnan(value):
                self._reported[self._grounder.listed.number(atom)] = value
        self._all_due = True

    def remade(self, state: _State) -> PslWorld:
        """See ``GroundWorld``; the facts of other atoms are those of the step.

        The values are those of a cold start, which the next step reports where they are others.
        """
        before, grounder, program, replaced = state
        world = PslWorld(program, self._opened, self._functions, self._skip)
        facts = sorted({**dict(grounder.listed.items()), **before}.items())
        world.apply({atom: value for atom, value in facts if value is not None})
        number = self._grounder.listed.numbered()
        for atom, _ in world.values():
            value = replaced[atom] if atom in replaced else self._reported[number[atom]]
            world._reported[world._grounder.listed.number(atom)] = value
        world._all_due = True
        return world

    def _targets(self, facts: Mapping[GroundAtom, float]) -> Ints:
        """Return the numbers of the targets in the order of facts."""
        number = self._grounder.listed.number
        return np.array([number(atom) for atom, value in facts.items() if isnan(value)], np.int64)

    def explain(self, atom: GroundAtom) -> Explanation:
        """Return why an atom has its value. Raises ExplanationError if it is no target and not observed."""
        value = self.fact(atom)
        if value is None:
            raise ExplanationError(f"{shown(atom)} is neither observed nor a target")
        if not isnan(value):
            return Explanation("", shown(atom), value, given=True)
        rows, model, solution = self._answer.around(np.array([self._grounder.listed.number(atom)]))
        texts = [self._grounder.text(self._grounder.key(row)) for row in rows.tolist()]
        reasons = reasons_of(model, solution, 0, texts, self._answer.weights)
        return balance("", atom, float(solution.y[0]), reasons, solution.certified)

    def apply(
        self, changes: Mapping[GroundAtom, float | None], exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """Change facts: a value is observed, NaN makes a target, None takes the atom away.

        Returns the targets whose value changed; adds the exchange of ground rules to ``exchanges``. Raises
        ModelError where a rule cannot be ground, and Infeasible where the hard rules cannot all hold. Then
        nothing has changed.
        """
        try:
            step = self._grounder.change(changes)
        except RuleError as error:
            raise rule_error(self._program, error.failure) from None
        try:
            moved = self._answer.step(step.rows, step.model, step.gone, step.added, step.removed)
        except Infeasible as error:
            smallest = conflict(self._hard_rules(step))
            self._grounder.undo()
            raise smallest or error from None
        self.touched = len(step.rows) + len(step.gone)
        if exchanges is not None:
            exchanges.append(self._exchange(step, self._grounder))
        return self._report(moved)

    def _exchange(self, step: Step, old: IncrementalGrounder) -> Exchange:
        came = self._grounder.counted(step.new, self._grounder.plans_of(step.new))
        return Exchange(came, old.counted(step.gone, step.gone_plans))

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

    def weights_of(self, program: PslProgram) -> list[PlacedWeight]:
        """Return the weights of a file of weights. Raises DataError where it does not fit the rules."""
        weighted = dict[PslRule, list[PslRule]]()
        for rule in program.rules:
            weighted.setdefault(_unweighted(rule), []).append(rule)
        weights = list[PlacedWeight]()
        for n, rule in enumerate(self._program.rules):
            if not (same := weighted.get(_unweighted(rule))):
                raise DataError(f"{program.file}: no weight fits the rule `{rule.text}`")
            if (weight := same.pop(0).weight) is not None:
                weights.append(PlacedWeight(n, (), weight))
        for others in weighted.values():
            for rule in others:
                line = f"{program.file}, line {rule.position.line}"
                raise DataError(f"{line}: no rule of the world fits `{rule.text}`")
        return weights

    def set_weights(self, weights: Iterable[PlacedWeight]) -> dict[GroundAtom, Change]:
        """Give the rules weights; return the targets whose value changed.

        Raises DataError for a weight that is too large; then nothing has changed.
        """
        present = {n: weight for n, _, weight in weights}
        if wrong := [weight for weight in present.values() if abs(weight) > LARGEST]:
            raise DataError(f"the weight of a rule is {wrong[0]:g}; expected at most {LARGEST:g}")
        rules = (
            rule if rule.weight is None else replace(rule, weight=present.get(n, rule.weight))
            for n, rule in enumerate(self._program.rules)
        )
        self._program = replace(self._program, rules=tuple(rules))
        self._grounder.reweigh(self._program)
        self.touched = 0
        return self._reweighed(np.empty(0, np.int64))

    def set_model(
        self, program: PslProgram, exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """Go on under another program, which the facts fit; see ``apply``.

        Only rules that are new are ground. Raises ModelError and Infeasible as ``apply``
        does; then nothing has changed.
        """
        old, before = self._grounder, self._answer.weights
        try:
            self._grounder, step = old.under(program)
        except RuleError as error:
            raise rule_error(program, error.failure) from None
        weights = self._weights(self._grounder)
        present = np.zeros(max(len(before), len(weights)))
        present[: len(weights)] = weights
        present[: len(before)] = before
        self._answer.weights = present
        try:
            moved = self._answer.step(step.rows, step.model, step.gone)
        except Infeasible as error:
            smallest = conflict(self._hard_rules(step))
            self._grounder, self._answer.weights = old, before
            raise smallest or error from None
        self._program, self.touched = program, len(step.rows) + len(step.gone)
        if exchanges is not None:
            exchanges.append(self._exchange(step, old))
        return self._reweighed(moved)

    def _reweighed(self, variables: Ints) -> dict[GroundAtom, Change]:
        """Solve again where the weights of the plans are new; return what changed, ``variables`` as well."""
        weights, old, numbers = (
            self._weights(self._grounder),
            self._answer.weights,
            [*self._grounder.plans],
        )
        if np.any(weights[numbers] != old[numbers]):
            self._answer.set_weights(np.append(weights, np.zeros(len(old) - len(weights))))
            moved = self._answer.step(variables[:0], united(0, []))
            variables = np.union1d(variables, moved)
        return self._report(variables)

    def _hard_rules(self, step: Step) -> Iterator[HardRule]:
        """Yield the hard rules of a step that was taken back, then those that share targets with them."""
        grounder, model = self._grounder, step.model
        changed, added = {*step.rows.tolist(), *step.gone.tolist()}, {*step.added.tolist()}
        new = dict[int, list[int]]()
        owner = np.repeat(step.rows, np.diff(model.start))
        for row, variable in zip(owner.tolist(), model.variable.tolist(), strict=True):
            new.setdefault(variable, []).append(row)
        rows = step.rows.tolist()
        seen, searched = {*rows}, set[int]()
        for row in rows:  # it grows
            plan, key = grounder.cells(row)
            if grounder.plans[plan].form.weight is not None:
                continue
            rule = grounder.hard_rule(plan, key)
            yield rule
            for atom, value in zip(rule.atoms, rule.values, strict=True):
                variable = grounder.listed.number(atom)
                if isnan(value) and variable not in searched:
                    searched.add(variable)
                    old = (
                        ()
                        if variable in added
                        else self._answer.around(np.array([variable]))[0].tolist()
                    )
                    near = [*new.get(variable, ()), *(x for x in old if x not in changed)]
                    rows += [other for other in near if other not in seen]
                    seen |= {*near}

    def _report(self, variables: Ints) -> dict[GroundAtom, Change]:
        """Return what is new about targets that may have new values."""
        listed, n = self._grounder.listed, len(self._reported)
        if n < listed.room:
            self._reported = np.concatenate((self._reported, np.full(listed.room - n, np.nan)))
        if self._all_due:
            variables = np.union1d(variables, np.flatnonzero(listed.variable >= 0))
        is_target = listed.variable[variables] >= 0
        new, old = self._answer.values[variables], self._reported[variables]
        new = np.where(is_target, new, np.nan)
        told = ~(np.abs(new - old) < RESOLUTION)
        variables, old, new = variables[told], old[told], new[told]
        changes = dict[GroundAtom, Change]()
        for number, *values in zip(*(x.tolist() for x in (variables, old, new)), strict=True):
            before, after = (None if isnan(value) else value for value in values)
            changes[listed.atom(number)] = (before, after)
        for atom, value in zip(changes, old.tolist(), strict=True):
            self._replaced.setdefault(atom, value)
        self._reported[variables], self._all_due = new, False
        return changes


def _unweighted(rule: PslRule) -> PslRule:
    return rule if rule.weight is None else replace(rule, weight=1.0)
