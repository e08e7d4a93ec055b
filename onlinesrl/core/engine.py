"""What the sections of all inference engines have, in every language."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Literal

from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Count


class EngineSection(Section, ABC):
    """How examples are predicted, and how far a search may go."""

    tag = "engine"
    scores: ClassVar[bool] = True
    """Whether atoms are predicted with probabilities, or with values."""

    engine: str = ""
    """how examples are predicted"""
    max_groundings: Count = 1_000_000
    """the most ground clauses (PSL: rows of joins) of an example; one with more is bad."""
    unsolved: Literal["fallback", "skip", "stop"] = "fallback"
    """what becomes of an example whose search ended without proof: predicted by the best state
    found, put aside as bad, or the end of the run."""
