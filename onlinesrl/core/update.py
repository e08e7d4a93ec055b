"""What an online update is: the step that it makes for each example (online-learning.md).

An example gives the features of its truth less those of a rival, Delta, and their label loss, rho. Weights
are w_t = base + s_t u_t, with s_t = 1 or, where an update shrinks all weights, 1 / (t - 1); an update is
u += c Delta, which touches the non-zeros of Delta only. Both languages' weights ask here for c.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from onlinesrl.core.arrays import Floats
from onlinesrl.core.costs import Given
from onlinesrl.core.kernels import averaged as kernels
from onlinesrl.core.kernels.jit import on, ready
from onlinesrl.core.section import Section
from onlinesrl.core.values import Count, Existing, Positive

Kept = Mapping[str, Floats]
"""What an update keeps of each weight, float64[weights], by its name in ``columns``."""


class Gap(NamedTuple):
    """What a step depends on, of the gap between a truth and its rival."""

    margin: float  # rho - <base, Delta>
    dot: float  # <u_t, Delta>
    norm: float  # ||Delta||^2, in the metric of the step
    moved: float  # <u, Delta>, in the metric of the step
    rescaled: float = 0.0  # ||u||^2 in that metric less its old value


class Update(Section, ABC):
    """The online update, its loss and its constants (Huynh & Mooney 2010, Algorithm 3)."""

    tag = "update"
    shrinks: ClassVar[bool] = False
    """Whether each step shrinks all weights by (t - 1) / t."""
    dual: ClassVar[bool] = True
    """Whether its steps ascend a dual, whose value bounds the regret."""
    columns: ClassVar[tuple[str, ...]] = ()

    update: str
    """the online update."""
    loss: Literal["ml", "pl"]
    """the rival of the truth is the loss-augmented (ml) or the plain (pl) prediction; the default
    is the first that the update takes."""
    sigma: Positive = 0.01
    """strength of the regularisation; larger values make smaller steps."""
    max_weights: Count | None = None
    """past so many weights the least influential are dropped; null: never."""
    costs: Given | None = None
    """the label loss of a wrong atom where it is not 1, by predicate or atom (`_`: any constant): a
    number, or `missed` (of a true atom) and `extra` (of a false one); of several that fit the last holds."""
    start: Existing | None = None
    """what to start from: a file of weights, .mln or .psl, or a run folder or checkpoint, whose
    learning goes on whole; null: the weights of the rules."""

    def scale(self, t: int) -> float:
        """Return s_t: w_t = base + s_t u_t."""
        if not self.shrinks:
            return 1.0
        return 1.0 / (t - 1) if t > 1 else 0.0

    def required(self, rho: float) -> float:
        """Return by how much the truth's score is to exceed that of a rival whose label loss is ``rho``."""
        return rho

    def drawn(self) -> int:
        """Return how many sampled states stand for the rival; 0: it is the best state."""
        return 0

    @abstractmethod
    def step(self, t: int, margin: float, dot: float, norm: float) -> tuple[float, float]:
        """Return (c, alpha): the step on u, and the multiplier of the dual (0 where there is none).

        ``margin``, ``dot`` and ``norm`` are rho - <base, Delta>, <u, Delta> and ||Delta||^2 > 0.
        """

    def compile(self, weights: kernels.Averaged, kept: Kept) -> None:
        """Compile the kernels of ``measure`` and ``move``, or load them from the cache."""
        ready(kernels.measure, weights, 0, 0.0)
        ready(kernels.move, weights, 0, 0.0, 0.0)

    def measure(self, weights: kernels.Averaged, kept: Kept, n: int, rho: float) -> Gap:
        """Measure the gap in ``weights.delta``, which touches ``n`` weights."""
        margin, dot, norm = on(kernels.measure, weights, n, rho)
        return Gap(margin, dot, norm, dot)

    def move(self, weights: kernels.Averaged, kept: Kept, n: int, c: float, s: float) -> bool:
        """Make the step, with averages, and forget the gap.

        False, with nothing changed: ``c`` or some weight would not be finite.
        """
        return on(kernels.move, weights, n, c, s)

    def metric(self, kept: Kept, delta: Floats) -> Floats | float:
        """Return the divisor of each weight's step, after a step along ``delta``: float64[weights], or 1."""
        return 1.0

    def keep(self, kept: Kept, delta: Floats) -> None:
        """Add a step along ``delta``, float64[weights], to the kept columns."""


class CoordinateAscent(Update, ABC):
    """An update that sets the dual multiplier of its example to the best value, no more than 1 / sigma."""

    def step(self, t: int, margin: float, dot: float, norm: float) -> tuple[float, float]:
        """See ``Update.step``."""
        loss = max(0.0, margin - dot)
        step = min(1.0 / self.sigma, loss / norm)
        return step, self.sigma * step
