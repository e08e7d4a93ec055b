"""A weight with its rule and constants, the same for both languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class PlacedWeight(NamedTuple):
    """A weight by its place in the model: the number of a clause or of a rule of PSL, from 0.

    ``key`` has the constants of a template's instance; it is empty where the rule has one weight.
    """

    place: int
    key: tuple[str, ...]
    weight: float


@dataclass(frozen=True)
class Row:
    """A weight by name: the number of its rule, from 1, its text, and the constants of its template.

    The constant is None where a name only tells a rule from another with the same text. ``updates`` is None
    where a file does not state it. ``standard_error`` is the root of the weight's variance, where the update
    has one.
    """

    rule: int
    text: str
    constants: Mapping[str, str | None]
    weight: float
    updates: int | None
    standard_error: float | None

    def line(self) -> str:
        """Return the rule with its constants, as a file of weights has it."""
        return " ".join([self.text, *self.constants])

    def shape(self) -> str:
        """Return the rule without its constants, which is the same for all its weights."""
        return self.text

    def shown(self) -> str:
        """Return the rule, with the constants of its variables."""
        if self.updates is None:
            return self.line()
        instance = [
            name if value is None else f"{name} = {value}" for name, value in self.constants.items()
        ]
        return f"{self.text}  [{', '.join(instance)}]" if instance else self.text

    def number(self) -> str:
        """Return the weight, with its standard error if it has one."""
        error = "" if self.standard_error is None else f" \u00b1 {self.standard_error:.6f}"
        return f"{self.weight:+12.6f}{error}"

    def about(self) -> set[str]:
        """Return the constants that the weight is about."""
        return {value for value in self.constants.values() if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """Return the row for JSON."""
        return {
            "rule": self.rule,
            "text": self.text,
            "constants": self.constants,
            "weight": self.weight,
            "updates": self.updates,
            "standard_error": self.standard_error,
        }
