"""The results of a batch of worlds during its processing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from onlinesrl.core.arrays import enlarged
from onlinesrl.core.evaluation.label_sets import Covered
from onlinesrl.core.example import Atom, ValuedAtom
from onlinesrl.core.learner import Alternative, Estimate, Prediction
from onlinesrl.core.online.averaged_weights import BEYOND_RANGE
from onlinesrl.mln.ground import grounder
from onlinesrl.mln.ground.batch_packer import Packed
from onlinesrl.mln.inference.mcmc_diagnostics import Diagnostics
from onlinesrl.mln.kernels import prediction_counts as k
from onlinesrl.mln.kernels.grounding_frames import INFEASIBLE, Batch
from onlinesrl.mln.kernels.predict_and_learn import NO_COMPLETION, OVERFLOW

ILP = 1
ROUTES = ("elimination", "ilp")
"""The inference routes that are always counted; other routes are counted after their first use."""
UNSOLVED = 32
"""The status of a world whose search ends at its limit without a proven answer."""
REASONS = {
    NO_COMPLETION: "no values of the unlabelled atoms satisfy the hard rules together with the truth",
    INFEASIBLE: "no state satisfies the hard rules",
    OVERFLOW: BEYOND_RANGE,
}
"""The error message of a bad ground world, by status; ``Grounder.reason`` has most others."""
KINDS = {
    **grounder.KINDS,
    INFEASIBLE: "infeasible",
    NO_COMPLETION: "hard_rule",
    OVERFLOW: "overflow",
    UNSOLVED: "unsolved",
}
"""The kind of ExampleError of each status."""


@dataclass(eq=False)
class Results:
    """The worlds of a batch, and the results of the processed worlds."""

    batch: Batch
    worlds: Sequence[Packed]
    out: k.Output
    routes: list[str]  # names of the numbers in ``out.route``
    answered: Mapping[int, Prediction]  # earlier predictions, by world
    probabilities: k.Probabilities
    best: dict[int, list[Alternative]] = field(default_factory=dict)
    """The states next to the predicted one, by world, where they are asked for."""
    apart: dict[int, tuple[set[Atom], set[Atom]]] = field(default_factory=dict)
    """The scored atoms, true and predicted, of worlds that no kernel counts; see ``count_apart``."""
    unproven: set[int] = field(default_factory=set)  # worlds whose predicted state is not certified
    unsolved: set[int] = field(default_factory=set)  # worlds whose search ended at its limit
    reasons: dict[int, str] = field(default_factory=dict)  # why worlds are bad, before ``REASONS``
    audits: dict[int, float] = field(default_factory=dict)  # optimal score of the audit, by world
    marginals: dict[int, dict[str, list[ValuedAtom]]] = field(default_factory=dict)
    truths: dict[int, dict[str, list[bool | None]]] = field(default_factory=dict)
    """By world and predicate the truth of open atoms, see ``AtomCounter.truths``."""
    diagnostics: dict[int, Diagnostics] = field(default_factory=dict)
    formulas: dict[int, dict[str, Estimate]] = field(default_factory=dict)
    """By world the probabilities of the formulas asked about."""
    thresholds: dict[int, Mapping[str, float]] = field(default_factory=dict)
    """By world the thresholds that its prediction was made by, where there are any."""
    covered: list[Covered] = field(default_factory=list)  # the units that have a set and a truth

    def grow(self) -> None:
        """Double the memory for recorded atoms."""
        out = self.out
        size = 2 * len(out.true_key)
        self.out = replace(
            out,
            true_query=enlarged(out.true_query, size),
            true_key=enlarged(out.true_key, size),
            true_mark=enlarged(out.true_mark, size),
        )
        by = self.probabilities
        if by.predict:
            size = 2 * len(by.key)
            query, key, value = (enlarged(a, size) for a in (by.query, by.key, by.value))
            self.probabilities = replace(by, query=query, key=key, value=value)
