"""The interface between a run and a modelling language (``mln.language``, ``psl.language``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from warnings import warn

from onlinesrl.core.errors import OnlinesrlWarning
from onlinesrl.core.evaluation.label_loss import Costs

if TYPE_CHECKING:
    from onlinesrl.core.background import Background
    from onlinesrl.core.engine import EngineSection
    from onlinesrl.core.errors import ConfigError
    from onlinesrl.core.learner import ExampleLearner
    from onlinesrl.core.online.update_rules.rule import Update
    from onlinesrl.core.rule_instance import Row

Program: TypeAlias = Any
"""A parsed model, of a class of its language; ``predicates`` has the predicates by name."""


class Asks(Protocol):
    """A configuration that says what is to be predicted."""

    @property
    def query(self) -> tuple[str, ...]:
        """The predicates to predict."""

    def error(self, key: str, reason: str) -> ConfigError:
        """Return the error for a key found wrong."""


class Settings(Asks, Protocol):
    """The parts of a configuration that a learner reads."""

    @property
    def learner(self) -> Update:
        """The online update."""

    @property
    def inference(self) -> Any:
        """The section of the engine."""

    @property
    def limits(self) -> Any:
        """The section of limits."""

    @property
    def seed(self) -> int:
        """The seed of random numbers."""


class Language(Protocol):
    """How models and weights are read, and which learner trains them."""

    name: str
    suffix: str
    """The suffix of models and of files of weights."""
    foreign: tuple[tuple[str, ...], ...]
    """The keys of a configuration that do not apply to such a model."""
    engines: Any
    """The choice of sections ``inference``, as pydantic takes it."""
    lists_targets: bool
    """Whether an example lists the atoms to predict, rather than all of the query being open."""
    targets: tuple[str, ...]
    """What ``targets`` of a world may be, the default first."""
    probabilistic: bool
    """Whether predictions may be probabilities."""
    true_facts: bool
    """Whether background facts must be true, rather than have any value."""

    def load(self, path: Path, dialect: str) -> Program:
        """Read a model or a file of weights. Raises ModelError."""

    def parse(self, text: str, file: str, dialect: str, alone: bool = False) -> Program:
        """Read the text of a model; ``file`` names it in errors. Raises ModelError.

        ``alone``: it may include no other file.
        """

    def check_trained(self, path: Path, program: Program) -> None:
        """Raise ModelError where a file of weights lacks a weight."""

    def lines(self, rule: Any) -> Iterator[tuple[str, float | None, bool, int]]:
        """Yield a rule's text, weight, whether it is hard, and its line; of a template for each weight."""

    def argument_types(self, program: Program, predicate: str) -> Sequence[str | None]:
        """Return the types of a predicate's arguments; None for an untyped argument."""

    def learner(
        self,
        config: Settings,
        program: Program,
        by: tuple[str, int] | None,
        margins: bool,
        facts: Background,
    ) -> ExampleLearner:
        """Return a learner for the weights of a model."""

    def facts(self, program: Any, query: Sequence[str], targets: str) -> Any:
        """Return what the facts of a world may be, a ``logic.ground_world.FactSchema``."""

    def world(
        self, program: Any, query: Sequence[str], targets: str, inference: EngineSection
    ) -> Any:
        """Return a ``logic.ground_world.GroundWorld`` without facts. Raises UsageError, Infeasible.

        ``inference`` is for the wide components of Markov logic.
        """

    def rows_of_file(self, path: Path) -> Iterator[Row]:
        """Yield the weights in a file of weights."""

    def rows_of_checkpoint(
        self, name: str, header: Mapping[str, Any], arrays: Mapping[str, Any], update: Update
    ) -> Iterator[Row]:
        """Yield the weights in a checkpoint that predict; its model is called ``name``."""


_MODULES = {
    ".mln": "onlinesrl.mln.language",
    ".psl": "onlinesrl.psl.language",
    ".json": "onlinesrl.psl.language",
}
"""The module of each language, by the suffix of its files."""


@cache
def language_of(suffix: str) -> Language:
    """Return the language of files with a suffix; Markov logic for an unknown one."""
    language: Language = import_module(_MODULES.get(suffix, _MODULES[".mln"])).LANGUAGE
    return language


def languages() -> tuple[Language, ...]:
    """Return all languages."""
    return tuple(dict.fromkeys(map(language_of, _MODULES)))


def check_query(program: Program, settings: Asks) -> None:
    """Raise ConfigError where a predicate to predict is not declared."""
    for name in settings.query:
        if name not in program.predicates:
            names = ", ".join(sorted(program.predicates))
            raise settings.error("query", f"{name} is not declared in the model, which has {names}")


def check_costs(language: Language, program: Program, settings: Settings) -> None:
    """Raise ConfigError where ``learner.costs`` names no atom of the query; warn of unknown constants."""
    try:
        costs = Costs(
            settings.learner.costs or {},
            {name: len(language.argument_types(program, name)) for name in settings.query},
        )
    except ValueError as error:
        raise settings.error("learner.costs", str(error)) from None
    for name, place, constant in costs.constants():
        kind = language.argument_types(program, name)[place]
        declared = () if kind is None or kind in program.open else program.types[kind]
        if declared and constant not in declared:
            reason = f"the model declares no {kind} {constant} (it has {', '.join(declared)})"
            warn(f"learner.costs for {name}: {reason}", OnlinesrlWarning, stacklevel=3)


def counted(
    language: Language, program: Program, settings: Settings, by: str | None
) -> tuple[str, int] | None:
    """Resolve ``metrics.by``: ``Predicate.N`` (from 1) or the name of a query argument's type.

    Returns the predicate and the argument, from 0. Raises ConfigError.
    """
    if by is None:
        return None
    arguments = [
        (name, n, kind)
        for name in settings.query
        for n, kind in enumerate(language.argument_types(program, name))
    ]
    for name, n, kind in arguments:
        if by in (f"{name}.{n + 1}", kind):
            return name, n
    choices = [f"{q}.{n + 1}{f' ({kind})' if kind else ''}" for q, n, kind in arguments]
    reason = f"{by} is no argument of a query predicate: {', '.join(choices)}"
    raise settings.error("metrics.by", reason)
