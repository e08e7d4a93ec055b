"""What an online update is: the step that it makes for each example (online-learning.md).

An example gives the features of its truth less those of a rival, Delta, and their label loss, rho. Weights
are w_t = base + s_t u_t, with s_t = 1 or, where an update shrinks all weights, 1 / (t - 1); an update is
u += c Delta, which touches the non-zeros of Delta only. Both languages' weights ask here for c.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.evaluation.label_loss import Given
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Count, Existing, Positive
from onlinesrl.core.jit.decorators import plain
from onlinesrl.core.kernels import step_sizes

Kept = Mapping[str, Floats]
"""What an update keeps of each weight, float64[weights], by its name in ``columns``."""
_NONE = np.zeros(0)


class Update(Section, ABC):
    """The online update, its loss and its constants (Huynh & Mooney 2010, Algorithm 3)."""

    tag = "update"
    kind: ClassVar[int]
    """Its step, in ``core.kernels.step_sizes``."""
    rooted: ClassVar[bool] = False
    """Whether the square root of the label loss is the margin that it asks for."""
    shrinks: ClassVar[bool] = False
    """Whether each step shrinks all weights by (t - 1) / t."""
    dual: ClassVar[bool] = False
    """Whether its steps ascend a dual, whose value bounds the regret."""
    columns: ClassVar[tuple[str, ...]] = ()

    update: str
    """the online update."""
    loss: Literal["pl", "ml"] = "pl"
    """the rival of the truth is the plain (pl) or the loss-augmented (ml) prediction."""
    max_weights: Count | None = None
    """past so many weights the least influential are dropped; null: never."""
    costs: Given | None = None
    """the label loss of a wrong atom where it is not 1, by predicate or atom (`_`: any constant): a
    number, or `missed` (of a true atom) and `extra` (of a false one); of several that fit the last holds."""
    start: Existing | None = None
    """what to start from: a file of weights, .mln or .psl, or a run folder or checkpoint, whose
    learning goes on whole; null: the weights of the rules."""

    @property
    def strength(self) -> float:
        """The strength of the regularisation, sigma; 0 where there is none."""
        return 0.0

    def how(self, kept: Kept) -> step_sizes.UpdateParams:
        """Return what kernels know it by, with its columns ``kept`` of the weights."""
        return step_sizes.UpdateParams(
            kind=self.kind,
            shrinks=self.shrinks,
            rooted=self.rooted,
            sigma=self.strength,
            eta=0.0,
            delta=0.0,
            square=_NONE,
            rates=False,
        )

    def scale(self, t: int) -> float:
        """Return s_t: w_t = base + s_t u_t."""
        return plain(step_sizes.scale)(self.shrinks, t)

    def required(self, rho: float) -> float:
        """Return by how much the truth's score is to exceed that of a rival whose label loss is ``rho``."""
        return plain(step_sizes.required)(self.rooted, rho)

    def step(self, t: int, margin: float, dot: float, norm: float) -> tuple[float, float]:
        """See ``core.kernels.step_sizes.step``."""
        return plain(step_sizes.step)(self.how({}), t, margin, dot, norm)

    def drawn(self) -> int:
        """Return how many sampled states stand for the rival; 0: it is the best state."""
        return 0

    def metric(self, kept: Kept, delta: Floats | float = 0.0) -> Floats | float:
        """Return the divisor of each weight's step, after a step along ``delta``: float64[weights], or 1."""
        return 1.0

    def keep(self, kept: Kept, delta: Floats) -> None:
        """Add a step along ``delta``, float64[weights], to the kept columns."""


class Regularised(Update, ABC):
    """An update of regularised losses."""

    sigma: Positive = 0.01
    """strength of the regularisation; larger values make smaller steps."""
    dual = True

    @property
    def strength(self) -> float:
        """See ``Update.strength``."""
        return self.sigma


class CoordinateAscent(Regularised, ABC):
    """An update that sets the dual multiplier of its example to the best value, no more than 1 / sigma."""

    kind = step_sizes.ASCENT
