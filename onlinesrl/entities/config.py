"""The section ``entities`` of a configuration."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, Self

from pydantic import model_validator

from onlinesrl.core.errors import UsageError
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Count, Name
from onlinesrl.core.language import Program
from onlinesrl.entities.resolver import LARGEST, EntityResolver
from onlinesrl.entities.world import ENTITY, SAME, EntityWorld, RecordSchema


class EntitiesSection(Section):
    """Which records are of one entity, in a world with the query Same; `onlinesrl guide entities`."""

    block: list[Name | list[Name]]
    """keys; only records with an equal key are compared: a column, the first letters of one (name[:4]), or a
    list of columns."""
    compare: dict[Name, Name | dict[Name, list[float]]]
    """how each column is compared: exact, jaro_winkler, edits, words or word_set, or one of these with
    thresholds."""
    one_to_one: Name | None = None
    """a column; records with an equal value are of one entity only where a label says so."""
    largest: Count = LARGEST
    """the most records that may share a key; one more is bad."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            columns = self.resolver().columns
        except UsageError as error:
            raise ValueError(str(error)) from None
        for name in (SAME, ENTITY):
            if name in columns:
                raise ValueError(f"the column {name} has the name of a predicate: give it another")
        return self

    def resolver(self) -> EntityResolver:
        """Return a resolver without weights and records."""
        return EntityResolver(
            self.block, self.compare, one_to_one=self.one_to_one, largest=self.largest
        )

    def facts(self) -> RecordSchema:
        """Return what the facts of records may be."""
        arities = {**dict.fromkeys(self.resolver().columns, 2), SAME: 2}
        return RecordSchema(arities, (), [SAME], soft=False, listed=False)

    def world(self, program: Program) -> EntityWorld:
        """Return a world without records, with the weights of a model. Raises UsageError for another one."""
        world = EntityWorld(self.resolver)
        texts = ([*map(_text, rules)] for rules in (world.program.rules, program.rules))
        for number, (expected, text) in enumerate(zip_longest(*texts, fillvalue="none"), 1):
            if text != expected:
                raise UsageError(
                    f"{program.file}: rule {number} is {text}, expected {expected}, as in the `rules` of an "
                    "EntityResolver with this section; `onlinesrl learn --fresh` writes these"
                )
        world.set_model(program)
        return world


def _text(rule: Any) -> str:
    """Return a rule as it is written, without its weight."""
    if rule.hard:
        return f"{rule.text}."
    text: str = rule.text
    return text if rule.weight is not None else f"{text} without a weight"
