"""All batch learners of Markov logic, by name."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from onlinesrl.core.section import standard
from onlinesrl.mln.learning.mple import Mple

AnyMlnLearner: TypeAlias = Annotated[
    Mple,  # one line per learner; with several, Field(discriminator="kind")
    BeforeValidator(standard("kind", "mple")),
]
