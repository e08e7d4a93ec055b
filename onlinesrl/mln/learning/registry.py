"""All batch learners of Markov logic, by name."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from onlinesrl.core.io.config_section import Kinds, named
from onlinesrl.core.learning.batch import BatchLearner
from onlinesrl.core.learning.search.bayesian import Bayesian
from onlinesrl.core.learning.search.strategies import Hyperband, RandomGrid, RandomSearch
from onlinesrl.mln.learning.contrastive_divergence import ContrastiveDivergence, VotedPerceptron
from onlinesrl.mln.learning.max_margin import MaxMargin
from onlinesrl.mln.learning.pseudo_likelihood import Mple

LEARNERS: dict[str, type[BatchLearner]] = named(
    Mple,
    ContrastiveDivergence,
    VotedPerceptron,
    MaxMargin,
    RandomGrid,
    RandomSearch,
    Hyperband,
    Bayesian,
)
AnyMlnLearner: TypeAlias = Annotated[
    BatchLearner, Kinds("onlinesrl.learners", BatchLearner, LEARNERS)
]
