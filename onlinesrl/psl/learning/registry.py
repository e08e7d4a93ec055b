"""All batch learners of PSL, by name."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from onlinesrl.core.io.config_section import standard
from onlinesrl.core.learning.search.bayesian import Bayesian
from onlinesrl.core.learning.search.strategies import Hyperband, RandomGrid, RandomSearch
from onlinesrl.psl.learning.latent import Em, PairedDual, Primal
from onlinesrl.psl.learning.lme import Lme
from onlinesrl.psl.learning.mle import Energy, Mle
from onlinesrl.psl.learning.mple import Mple
from onlinesrl.psl.learning.sampled_mle import SampledMle
from onlinesrl.psl.learning.supervised import CrossEntropy, SquaredError
from onlinesrl.psl.learning.voted_perceptron import VotedPerceptron

AnyPslLearner: TypeAlias = Annotated[
    Mle  # one line per learner
    | Energy
    | SquaredError
    | CrossEntropy
    | SampledMle
    | Mple
    | Lme
    | VotedPerceptron
    | PairedDual
    | Em
    | Primal
    | RandomGrid
    | RandomSearch
    | Hyperband
    | Bayesian,
    Field(discriminator="kind"),
    BeforeValidator(standard("kind", "mle")),
]
