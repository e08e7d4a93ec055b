"""The engines of PSL, in one table: a section of the configuration for each.

An engine is one file of this folder, and one section here, which stands in ``ENGINES``. A run makes its
engine of the section ``inference``. The command ``infer`` takes the name of an engine for its method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from onlinesrl.core.engine import EngineSection
from onlinesrl.core.io.config_section import Kinds, named
from onlinesrl.core.io.config_types import Count, Positive

if TYPE_CHECKING:
    from onlinesrl.core.arrays import Floats
    from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF
    from onlinesrl.psl.inference.protocols import EngineOptions, HingeEngine
    from onlinesrl.psl.inference.tandem import Tandem


class PslEngine(EngineSection):
    """An engine of PSL."""

    takes_hard_rules: ClassVar[bool] = True
    targets: Literal["stop", "skip"] = "stop"
    """what becomes of a ground rule that reaches an atom, of a predicate with targets, that is
    neither observed nor a target: its example is bad, or the ground rule is left out and
    counted."""

    @abstractmethod
    def make(self, options: EngineOptions) -> HingeEngine:
        """Return the engine for models in memory."""


class AdmmSection(PslEngine):
    """Consensus ADMM with a certificate."""

    name = "admm"

    def make(self, options: EngineOptions) -> HingeEngine:
        """See ``PslEngine.make``."""
        from onlinesrl.psl.inference.admm import Admm

        large = {} if options.large is None else {"large": options.large}
        return Admm(watch=options.watch, threads=options.threads, **large)


class LiftedAdmmSection(PslEngine):
    """ADMM on classes of targets that cannot be distinguished."""

    name = "lifted-admm"

    def make(self, options: EngineOptions) -> HingeEngine:
        """See ``PslEngine.make``."""
        from onlinesrl.psl.inference.lifting import Lifted

        return Lifted(AdmmSection().make(options))


class TronSection(PslEngine):
    """Trust-region Newton, for squared and linear potentials without hard rules."""

    takes_hard_rules = False
    name = "tron"

    def make(self, options: EngineOptions) -> HingeEngine:
        """See ``PslEngine.make``."""
        from onlinesrl.psl.inference.tron import Tron

        return Tron()


class TandemSection(PslEngine):
    """Stochastic gradient descent, then ADMM, over ground rules in pages on disk."""

    name = "tandem"
    rate: Positive = 0.3
    """the size of steps of gradient descent, by AdaGrad."""
    passes: Count = 10
    """the most passes of descent over the ground rules; rounds of ADMM follow."""
    page_bytes: Annotated[int, Field(ge=4096)] = 1 << 23
    """the size of a page, in the system's temporary folder."""

    def make(self, options: EngineOptions) -> HingeEngine:
        """See ``PslEngine.make``."""
        from onlinesrl.psl.inference.tandem import TandemEngine

        return TandemEngine(self.tandem(options))

    def tandem(self, options: EngineOptions) -> Tandem:
        """Return tandem inference, for models of any size that come in chunks."""
        from onlinesrl.psl.inference.tandem import Tandem

        return Tandem(
            options.place,
            self.passes,
            rate=self.rate,
            page_bytes=self.page_bytes,
            seed=options.seed,
            threads=options.threads,
        )


class PslMapEngine(PslEngine, ABC):
    """A minimiser of the energy: the base class of engines of one's own.

    The bound that certifies values is computed from their multipliers. Learned from are certified values
    alone, so that an engine without multipliers only predicts.
    """

    @abstractmethod
    def solve(
        self, model: HingeLossMRF, weights: Floats, bonus: Floats
    ) -> tuple[Floats, Floats | None]:
        """Return values of low energy ``weights . Phi(y) - bonus . y``, and their multipliers or None.

        ``weights`` is float64[weights], ``bonus`` float64[variables]. The values are float64[variables] in
        [0, 1]; the multipliers float64[rows], for a potential the slope ``w_i phi_i'`` at its form. The same
        arguments must give the same values.
        """

    def make(self, options: EngineOptions) -> HingeEngine:
        """See ``PslEngine.make``."""
        from onlinesrl.psl.inference.checked import Checked

        return Checked(self.engine, self.solve)


ENGINES: dict[str, Any] = named(AdmmSection, LiftedAdmmSection, TandemSection, TronSection)
AnyPslEngine: TypeAlias = Annotated[PslEngine, Kinds("onlinesrl.engines", PslMapEngine, ENGINES)]
