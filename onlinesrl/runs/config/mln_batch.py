"""The configuration of batch learning of Markov logic."""

from __future__ import annotations

from typing import Literal

from onlinesrl.core.io.config_types import Count, Names
from onlinesrl.mln.inference.registry import Method
from onlinesrl.mln.learning.pseudo_likelihood import Mple
from onlinesrl.mln.learning.registry import AnyMlnLearner
from onlinesrl.runs.config.schema import Batch, DialectName
from onlinesrl.stream.sources import AnySource


class MlnBatch(Batch):
    """Batch learning of Markov logic: the keys outside of sections."""

    dialect: DialectName = "alchemy"
    """how the model and .db files are written; the learned weights are Alchemy's in any case."""
    source: AnySource
    """the examples, each a world with its truth: a section as that of a run. A .db file is one of them."""
    query: Names
    """the predicates that the others predict."""
    test: AnySource | None = None
    """held-out examples, like source: the learned weights are scored there."""
    learner: AnyMlnLearner = Mple()
    method: Method | Literal["counted-gibbs"] = "mpe"
    """how the query is predicted for scores: as one state (mpe, lp, walksat) or by probabilities;
    counted-gibbs: by Gibbs sampling with odds from counts, without grounding."""
    samples: Count | None = None
    """from how many samples gibbs, mcsat and counted-gibbs estimate probabilities, after a tenth as many in
    each of four chains (counted-gibbs: one chain); null: 20,000 of gibbs, 1,000 of the others."""
    max_atoms: Count = 1_000_000
    """the most open atoms of a world."""
    max_groundings: Count = 10_000_000
    """the most ground clauses of a world, and the longest intermediate result of a join."""
