"""Markov logic as a language of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinesrl.core.errors import ModelError, UsageError
from onlinesrl.core.io.restoring import Misfit, converted
from onlinesrl.core.rule_instance import Row
from onlinesrl.logic.ast import Constant, Formula, Leaf, Program, Rule, Variable, terms
from onlinesrl.logic.text import show, show_instance, show_leaf
from onlinesrl.mln.inference.registry import AnyMlnEngine, MlnEngine

if TYPE_CHECKING:
    from onlinesrl.core.background import Background
    from onlinesrl.core.engine import EngineSection
    from onlinesrl.core.language import Settings
    from onlinesrl.core.online.update_rules.rule import Update
    from onlinesrl.logic.ground_world import FactSchema
    from onlinesrl.mln.online.learner import MlnOnlineLearner
    from onlinesrl.mln.query.incremental_world import MlnWorld


class MarkovLogic:
    """Markov logic; see ``Language``."""

    name = "Markov logic"
    suffix = ".mln"
    foreign = ()
    engines = AnyMlnEngine
    lists_targets = False
    targets = ("all", "listed")
    probabilistic = True
    true_facts = True

    def load(self, path: Path, dialect: str) -> Program:
        """Read the model of a run; a model in another dialect is converted to Alchemy's syntax."""
        from onlinesrl.logic.source import read_text
        from onlinesrl.mln.lang.evidence_weights import check_learned

        program = self.parse(read_text(path), str(path), dialect)
        check_learned(program)
        return program

    def parse(self, text: str, file: str, dialect: str, alone: bool = False) -> Program:
        """Parse the text of a model; ``alone``: includes are forbidden.

        One with weights that are fixed or come from evidence, which Alchemy has not, is not converted.
        """
        from onlinesrl.logic.dialect import dialect_of
        from onlinesrl.mln.lang import reader
        from onlinesrl.mln.lang.weight_file import alchemy_text

        program = reader.parse(text, file, dialect_of(dialect), alone)
        if dialect == "alchemy" or any(r.fixed or r.weight_variable for r in program.rules):
            return program
        return reader.parse(alchemy_text(program), file)

    def check_trained(self, path: Path, program: Program) -> None:
        """Raise ModelError if a soft rule has no weight."""
        for rule in program.rules:
            if rule.weight is None and not rule.hard and rule.weight_variable is None:
                raise ModelError(
                    f"this rule has no weight, so the file is not a trained model: {rule.text}",
                    file=str(path),
                    line=rule.position.line,
                    column=rule.position.column,
                )

    def lines(self, rule: Rule) -> Iterator[tuple[str, float | None, bool, int]]:
        """Yield a rule's text, weight, hardness and line number, once for each weight of a template."""
        from onlinesrl.mln.lang.clausal_form import plus_variables

        if rule.table is None or rule.weight:
            yield rule.text, rule.weight, rule.hard, rule.position.line
        for key, weight in rule.table or ():
            constants = dict(zip(plus_variables(rule.formula), key, strict=True))
            text = show(rule.formula, partial(show_instance, constants=constants))
            yield text, weight, False, rule.position.line

    def argument_types(self, program: Program, predicate: str) -> Sequence[str | None]:
        """Return the types of a predicate's arguments."""
        return program.predicates[predicate].types

    def learner(
        self,
        config: Settings,
        program: Program,
        by: tuple[str, int] | None,
        margins: bool,
        facts: Background,
    ) -> MlnOnlineLearner:
        """Return a learner.

        Raises ModelError for a weight that is not learned, and ConfigError if ``learner.max_weights`` is too
        small for the rules.
        """
        from onlinesrl.mln.ground.join_planner import compile_program
        from onlinesrl.mln.lang.evidence_weights import check_learned
        from onlinesrl.mln.online.learner import MlnOnlineLearner

        check_learned(program)
        plan = compile_program(program, config.query)
        inference = config.inference.make(config.seed, config.limits.max_atoms)
        for name in inference.threshold or ():
            key = f"inference.threshold.{name}"
            if name not in config.query:
                names = ", ".join(config.query)
                raise config.error(key, f"expected a predicate of the query ({names})")
            if name in plan.groups:
                reason = f"there is {plan.groups[name].show(name)}: the most probable is predicted"
                raise config.error(key, f"{reason}, and no threshold applies")
        try:
            learner = MlnOnlineLearner(plan, config.learner, inference, by, margins, facts)
        except UsageError as error:
            raise config.error("inference.formulas", str(error)) from None
        most, fixed = config.learner.max_weights, learner.weights.reserved
        if most is not None and most < 2 * fixed:
            reason = f"the rules alone have {fixed} weights; expected at least {2 * fixed}"
            raise config.error("learner.max_weights", reason)
        return learner

    def facts(self, program: Program, query: Sequence[str], targets: str) -> FactSchema:
        """Return what the facts of a world may be."""
        from onlinesrl.logic.ground_world import FactSchema

        predicates = program.predicates.items()
        arities = {name: len(predicate.types) for name, predicate in predicates}
        numeric = [name for name, predicate in predicates if predicate.numeric]
        return FactSchema(arities, numeric, query, soft=False, listed=targets == "listed")

    def world(
        self, program: Program, query: Sequence[str], targets: str, inference: EngineSection
    ) -> MlnWorld:
        """Return a world without facts. Raises UsageError, and Infeasible if hard rules contradict."""
        from onlinesrl.mln.query.incremental_world import MlnWorld

        lines = (self.lines(rule) for rule in program.rules if rule.weight_variable is None)
        for text, weight, hard, line in chain.from_iterable(lines):
            if weight is None and not hard:
                place = f"{program.file}:{line}"
                raise UsageError(f"{place}: a rule without a weight: {text}; write one before it")
        from onlinesrl.mln.ground.grounder import LIMITS

        assert isinstance(inference, MlnEngine)
        made = inference.make(seed=0, max_atoms=LIMITS.atoms)
        listed = targets == "listed"
        return MlnWorld(program, query, listed, made.engine, made.eager, made.max_work)

    def rows_of_file(self, path: Path) -> Iterator[Row]:
        """Yield the weights of a weight file."""
        return _distinct(self._rows_of_file(path))

    @staticmethod
    def _rows_of_file(path: Path) -> Iterator[_Row]:
        from onlinesrl.mln.lang import reader
        from onlinesrl.mln.lang.clausal_form import plus_variables

        for number, rule in enumerate(reader.load(path).rules, 1):
            template = plus_variables(rule.formula)
            weighted = () if rule.weight is None else (((), rule.weight),)
            for key, weight in weighted if rule.table is None else rule.table:
                constants = dict(zip(template, key, strict=False))
                yield _Row(number, rule.text, constants, weight, None, None, rule.formula)

    def rows_of_checkpoint(
        self, name: str, header: Mapping[str, Any], arrays: Mapping[str, Any], update: Update
    ) -> Iterator[Row]:
        """Yield the weights in a checkpoint that predict."""
        return _distinct(self._rows_of_checkpoint(name, header, arrays, update))

    @staticmethod
    def _rows_of_checkpoint(
        name: str, header: Mapping[str, Any], arrays: Mapping[str, Any], update: Update
    ) -> Iterator[_Row]:
        from onlinesrl.mln.ground.join_planner import compile_program
        from onlinesrl.mln.ground.model_index import Layout
        from onlinesrl.mln.lang import reader
        from onlinesrl.mln.lang.weight_file import written
        from onlinesrl.mln.online.weight_table import WeightTable

        program = reader.parse(header["model"], name, alone=True)
        query: list[str] = converted(header["fingerprint"].get("query"), list[str])
        if unknown := [predicate for predicate in query if predicate not in program.predicates]:
            raise Misfit(f"its query {unknown[0]} is not declared in its model")
        weights = WeightTable(Layout(compile_program(program, query)), update)
        weights.restore(header["learner"], arrays)
        formulas = {id(c): written(c, program.rules[c.rule]) for c in weights.clauses}
        for e in weights.entries():
            constants = dict(zip(e.clause.template, e.key, strict=True))
            formula = formulas[id(e.clause)]
            number = e.clause.rule + 1
            yield _Row(number, e.text, constants, e.weight, e.uses, e.standard_error, formula)


LANGUAGE = MarkovLogic()


@dataclass(frozen=True)
class _Row(Row):
    """A weight with its formula."""

    formula: Formula

    def line(self) -> str:
        """Return the rule with its constants, as in a weight file."""
        again = (name for name, constant in self.constants.items() if constant is None)
        spelled = partial(show_instance, constants=self.constants)
        return " ".join([show(self.formula, spelled), *again])

    def shape(self) -> str:
        """Return the rule without its constants, as an identifier of the rule across files."""

        def spelled(leaf: Leaf) -> str:
            return show_leaf(leaf) if isinstance(leaf, Variable) and not leaf.plus else "_"

        return show(self.formula, spelled)

    def about(self) -> set[str]:
        """Return the constants of the weight and its formula."""
        leaves = terms(self.formula)
        return {*super().about(), *(t.name for t in leaves if isinstance(t, Constant))}


def _distinct(rows: Iterable[_Row]) -> Iterator[Row]:
    """Yield the rows; the weights of a repeated rule are numbered from the second occurrence on."""
    seen: Counter[tuple[str | None, ...]] = Counter()
    for row in rows:
        key = (row.text, *row.constants.values())
        seen[key] += 1
        again = {f"the {seen[key]}.": None} if seen[key] > 1 else {}
        yield replace(row, constants={**row.constants, **again})
