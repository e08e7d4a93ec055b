"""All batch learners of PSL, by name."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from onlinesrl.core.io.config_section import Kinds, named
from onlinesrl.core.learning.batch import BatchLearner
from onlinesrl.core.learning.search.bayesian import Bayesian
from onlinesrl.core.learning.search.strategies import Hyperband, RandomGrid, RandomSearch
from onlinesrl.psl.learning.latent import Em, PairedDual, Primal
from onlinesrl.psl.learning.lme import Lme
from onlinesrl.psl.learning.mle import Energy, Mle
from onlinesrl.psl.learning.mple import Mple
from onlinesrl.psl.learning.sampled_mle import SampledMle
from onlinesrl.psl.learning.supervised import CrossEntropy, SquaredError
from onlinesrl.psl.learning.voted_perceptron import VotedPerceptron

LEARNERS: dict[str, type[BatchLearner]] = named(
    Mle,
    Energy,
    SquaredError,
    CrossEntropy,
    SampledMle,
    Mple,
    Lme,
    VotedPerceptron,
    PairedDual,
    Em,
    Primal,
    RandomGrid,
    RandomSearch,
    Hyperband,
    Bayesian,
)
AnyPslLearner: TypeAlias = Annotated[
    BatchLearner, Kinds("onlinesrl.learners", BatchLearner, LEARNERS)
]
