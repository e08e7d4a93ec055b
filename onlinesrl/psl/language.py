"""PSL as a ``Language``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinesrl.core.rule_instance import Row
from onlinesrl.psl.inference.registry import AnyPslEngine

if TYPE_CHECKING:
    from onlinesrl.core.background import Background
    from onlinesrl.core.engine import EngineSection
    from onlinesrl.core.language import Settings
    from onlinesrl.core.online.update_rules.rule import Update
    from onlinesrl.logic.ground_world import FactSchema
    from onlinesrl.psl.lang.ast import PslProgram, PslRule
    from onlinesrl.psl.online.learner import PslOnlineLearner
    from onlinesrl.psl.online.rule_weights import RuleWeights
    from onlinesrl.psl.query.incremental_world import PslWorld


class Psl:
    """See ``Language``."""

    name = "PSL"
    suffix = ".psl"
    foreign = (("dialect",), ("learner", "max_weights"))
    engines = AnyPslEngine
    lists_targets = True
    targets = ("stop", "skip")
    probabilistic = False
    true_facts = False

    def load(self, path: Path, dialect: str) -> PslProgram:
        """Read a model or a file of weights."""
        from onlinesrl.psl.lang import reader

        return reader.load(path)

    def parse(self, text: str, file: str, dialect: str, alone: bool = False) -> PslProgram:
        """Read the text of a model."""
        from onlinesrl.psl.lang import reader

        return reader.parse(text, file)

    def check_trained(self, path: Path, program: PslProgram) -> None:
        """Take any program: a rule without a weight is hard."""

    def lines(self, rule: PslRule) -> Iterator[tuple[str, float | None, bool, int]]:
        """Yield the text of a rule, its weight, whether it is hard, and its line."""
        from onlinesrl.psl.lang.text import show_unweighted

        yield show_unweighted(rule), rule.weight, rule.weight is None, rule.position.line

    def argument_types(self, program: PslProgram, predicate: str) -> Sequence[str | None]:
        """Return None for every argument."""
        return [None] * program.predicates[predicate]

    def learner(
        self,
        config: Settings,
        program: PslProgram,
        by: tuple[str, int] | None,
        margins: bool,
        facts: Background,
    ) -> PslOnlineLearner:
        """Return a learner; PSL's predictions have no margins."""
        from onlinesrl.psl.inference.protocols import EngineOptions
        from onlinesrl.psl.online.learner import PslInference, PslOnlineLearner

        if config.learner.expects:
            raise config.error(
                "learner.update",
                "the log-likelihood needs the normaliser of the density, for PSL an integral without a "
                "closed form; take an update that learns from one rival, such as adagrad, or "
                "`onlinesrl learn` with sampled-mle or mple",
            )
        if config.learner.calibrated:
            raise config.error(
                "learner.calibrated",
                "a temperature scales the density of PSL's values, whose normaliser is an integral without a "
                "closed form, and predictions are the most probable values, which it does not change; for "
                "calibrated probabilities take a model in Markov logic",
            )
        if config.learner.drawn():
            names = "cda1, cda2, adagrad and others that learn from one rival"
            raise config.error(
                "learner.update", f"samples are of Markov logic; for PSL there are {names}"
            )
        hard = next((rule for rule in program.rules if rule.weight is None), None)
        if hard is not None and not config.inference.takes_hard_rules:
            raise config.error(
                "inference.engine",
                f"{config.inference.engine} is for models without hard rules, such as: {hard.text}",
            )
        inference = PslInference(
            config.inference.make(EngineOptions(config.seed)),
            fallback=config.inference.unsolved == "fallback",
            skip=config.inference.targets == "skip",
            max_groundings=config.inference.max_groundings,
            max_atoms=config.limits.max_atoms,
        )
        return PslOnlineLearner(
            program, config.query, config.learner, inference, by, facts, config.seed
        )

    def facts(self, program: PslProgram, query: Sequence[str], targets: str) -> FactSchema:
        """Return what the facts of a world may be."""
        from onlinesrl.logic.ground_world import FactSchema

        return FactSchema(program.predicates, (), query, soft=True, listed=True)

    def world(
        self, program: PslProgram, query: Sequence[str], targets: str, inference: EngineSection
    ) -> PslWorld:
        """Return a world without facts."""
        from onlinesrl.psl.query.incremental_world import PslWorld

        return PslWorld(program, query, skip=targets == "skip")

    def rows_of_file(self, path: Path) -> Iterator[Row]:
        """Yield the weights in a file of weights."""
        from onlinesrl.core.online.update_rules import Cda2
        from onlinesrl.psl.online.rule_weights import RuleWeights

        return _rows(RuleWeights(self.load(path, ""), Cda2()), counted=False)

    def rows_of_checkpoint(
        self, name: str, header: Mapping[str, Any], arrays: Mapping[str, Any], update: Update
    ) -> Iterator[Row]:
        """Yield the weights in a checkpoint that predict."""
        from onlinesrl.psl.lang import reader
        from onlinesrl.psl.online.rule_weights import RuleWeights

        weights = RuleWeights(reader.parse(header["model"], name), update)
        weights.restore(arrays)
        return _rows(weights, counted=True)


LANGUAGE = Psl()


def _rows(weights: RuleWeights, counted: bool) -> Iterator[Row]:
    numbers = [n for n, rule in enumerate(weights.program.rules, 1) if rule.weight is not None]
    for number, entry in zip(numbers, weights.entries(), strict=True):
        instance = dict.fromkeys(entry.key)
        uses = entry.uses if counted else None
        yield Row(number, entry.text, instance, entry.weight, uses, None)
