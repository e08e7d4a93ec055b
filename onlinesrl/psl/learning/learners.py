"""All batch learners of PSL, by name."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from onlinesrl.core.section import standard
from onlinesrl.psl.learning.mle import Mle

AnyPslLearner: TypeAlias = Annotated[
    Mle,  # one line per learner
    BeforeValidator(standard("kind", "mle")),
]
