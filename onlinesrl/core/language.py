"""What a run asks of a language of models: Markov logic's is ``mln.language``, PSL's ``psl.language``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from onlinesrl.core.background import Background
    from onlinesrl.core.errors import ConfigError
    from onlinesrl.core.learner import Learner
    from onlinesrl.core.row import Row
    from onlinesrl.core.update import Update

Program: TypeAlias = Any
"""A model as its language has it; it knows the ``predicates`` by name."""


class Settings(Protocol):
    """What a learner is told of a configuration."""

    @property
    def query(self) -> tuple[str, ...]:
        """The predicates to predict."""
        ...

    @property
    def learner(self) -> Update:
        """The online update."""
        ...

    @property
    def inference(self) -> Any:
        """The section of the engine."""
        ...

    @property
    def limits(self) -> Any:
        """The section of limits."""
        ...

    @property
    def seed(self) -> int:
        """Of random numbers."""
        ...

    def error(self, key: str, reason: str) -> ConfigError:
        """Return the error for a key found wrong."""
        ...


class Language(Protocol):
    """How models and weights are read, and what learns them."""

    name: str
    suffix: str
    """Of files of models and of weights."""
    foreign: tuple[tuple[str, ...], ...]
    """The keys of a configuration that say nothing of such a model."""
    true_facts: bool
    """Whether background facts must be true, and have no other value."""

    def load(self, path: Path, dialect: str) -> Program:
        """Read a model or a file of weights. Raises ModelError."""
        ...

    def check_trained(self, path: Path, program: Program) -> None:
        """Raise ModelError where a file of weights lacks some."""
        ...

    def argument_types(self, program: Program, predicate: str) -> Sequence[str | None]:
        """Return the types of a predicate's arguments; None for one that has none."""
        ...

    def learner(
        self,
        config: Settings,
        program: Program,
        by: tuple[str, int] | None,
        margins: bool,
        facts: Background,
    ) -> Learner:
        """Return what learns the weights of a model."""
        ...

    def rows_of_file(self, path: Path) -> Iterator[Row]:
        """Yield the weights in a file of weights."""
        ...

    def rows_of_checkpoint(
        self, name: str, header: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> Iterator[Row]:
        """Yield the weights in a checkpoint, whose model is called ``name``."""
        ...


_MODULES = {
    ".mln": "onlinesrl.mln.language",
    ".psl": "onlinesrl.psl.language",
    ".json": "onlinesrl.psl.language",
}
"""The module of each language, by the suffix of its files."""


def language_of(suffix: str) -> Language:
    """Return the language of files with a suffix; Markov logic for an unknown one."""
    language: Language = import_module(_MODULES.get(suffix, _MODULES[".mln"])).LANGUAGE
    return language


def languages() -> tuple[Language, ...]:
    """Return all languages."""
    return tuple(dict.fromkeys(map(language_of, _MODULES)))
