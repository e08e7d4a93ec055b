"""All batch learners of Markov logic, by name."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from onlinesrl.core.io.config_section import standard
from onlinesrl.core.learning.search.bayesian import Bayesian
from onlinesrl.core.learning.search.strategies import Hyperband, RandomGrid, RandomSearch
from onlinesrl.mln.learning.contrastive_divergence import ContrastiveDivergence, VotedPerceptron
from onlinesrl.mln.learning.max_margin import MaxMargin
from onlinesrl.mln.learning.pseudo_likelihood import Mple

AnyMlnLearner: TypeAlias = Annotated[
    Mple  # one line per learner
    | ContrastiveDivergence
    | VotedPerceptron
    | MaxMargin
    | RandomGrid
    | RandomSearch
    | Hyperband
    | Bayesian,
    Field(discriminator="kind"),
    BeforeValidator(standard("kind", "mple")),
]
