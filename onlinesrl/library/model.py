"""A model: weighted rules in Markov logic or PSL, from text or from a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import UsageError, shown
from onlinesrl.core.language import Program, language_of, languages
from onlinesrl.library.notebook import table_html
from onlinesrl.logic.source import read_text


@dataclass(frozen=True)
class Rule:
    """A rule: its number (from 1), its text, its weight (None: hard, or not given), and its line.

    Lines that have the weights of a template's constants are one rule, with a number for all of them.
    """

    number: int
    text: str
    weight: float | None
    hard: bool
    line: int

    def __str__(self) -> str:
        """Return the rule as a line of a model."""
        if self.hard:
            return f"{self.text}."
        return self.text if self.weight is None else f"{self.weight:g} {self.text}"


def model_of(model: Model | str, language: str = "mln") -> Model:
    """Return a model, or the model of a text in a language. Raises ModelError, UsageError."""
    if isinstance(model, str):
        return Model(model, language)
    if not isinstance(model, Model):
        raise UsageError(f"model is {shown(model)}, expected a Model or the text of one")
    return model


def names_of(names: str | Iterable[str], key: str) -> tuple[str, ...]:
    """Return predicates or formulas; one may stand alone. Raises UsageError, which names the ``key``."""
    if isinstance(names, str):
        return (names,)
    listed = (*names,) if isinstance(names, Iterable) else (names,)
    if not all(isinstance(name, str) for name in listed):
        wanted = "a formula" if key in {"formulas", "given"} else "the name of a predicate"
        raise UsageError(f"{key} is {shown(names)}, expected {wanted}, or several")
    return listed


def check_keys(keys: Mapping[str, Any], known: type[Any], name: str) -> None:
    """Raise TypeError where ``name`` was called with keywords that the dict type ``known`` does not have."""
    if unknown := keys.keys() - known.__annotations__:
        raise TypeError(f"{name} has no parameter {', '.join(sorted(unknown))}")


class Model:
    """Weighted rules.

    ``text`` is a Markov logic program, written in a ``dialect`` (Alchemy's unless another is named), or
    with ``language="psl"`` a PSL program. ``file`` names it in errors, and what it includes is beside it;
    nothing if it is ``alone``. Raises ModelError, with line and column, at the first mistake.

    >>> model = Model("Smokes(person)  Cancer(person)  1.5 Smokes(x) => Cancer(x)")
    Traceback (most recent call last):
    ...
    onlinesrl.core.errors.ModelError: ...
    """

    def __init__(
        self,
        text: str,
        language: str = "mln",
        dialect: str = "alchemy",
        *,
        file: str = "<model>",
        alone: bool = False,
    ):
        self.text = text
        self.file = file
        self.dialect = dialect
        known = [known_language.suffix[1:] for known_language in languages()]
        if language not in known:
            raise UsageError(f"unknown language {language!r}; expected {' or '.join(known)}")
        self.language = language_of(f".{language}")
        self.program: Program = self.language.parse(text, file, dialect, alone)

    @classmethod
    def read(cls, path: str | Path, dialect: str = "alchemy") -> Model:
        """Read a model from an .mln or a .psl file. Raises ModelError, StorageError."""
        path = Path(path)
        return cls(read_text(path), path.suffix[1:], dialect, file=str(path))

    @cached_property
    def written(self) -> Any:
        """The program of Markov logic as its dialect means it; ``program`` is Alchemy's."""
        from onlinesrl.logic.dialect import dialect_of
        from onlinesrl.mln.lang import reader

        if self.dialect == "alchemy":
            return self.program
        return reader.parse(self.text, self.file, dialect_of(self.dialect))

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in the order of the text."""
        return tuple(
            Rule(number, *line)
            for number, rule in enumerate(self.program.rules, 1)
            for line in self.language.lines(rule)
        )

    @property
    def predicates(self) -> Mapping[str, tuple[str | None, ...]]:
        """The types of each predicate's arguments; None where an argument has no type (PSL)."""
        types_of = self.language.argument_types
        return {name: (*types_of(self.program, name),) for name in self.program.predicates}

    def __repr__(self) -> str:
        return f"<Model in {self.language.name}: {len(self.rules)} rules>"

    def __str__(self) -> str:
        """Return the rules, one per line."""
        return "\n".join(map(str, self.rules))

    def _repr_html_(self) -> str:
        rows: list[list[Any]] = [
            [rule.number, "hard" if rule.hard else rule.weight, rule.text] for rule in self.rules
        ]
        return table_html(f"{self.language.name}, {len(rows)} rules", ["", "weight", "rule"], rows)
