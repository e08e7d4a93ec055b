"""The interface of engines for hinge-loss models: they minimise the energy over values in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from onlinesrl.core.arrays import Floats
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF, Micrographs


@dataclass(frozen=True, eq=False)
class HingeSolution:
    """An approximate minimiser of a hinge-loss model's energy, with its certificate.

    ``y`` is float64[n_variables] in [0, 1]; ``energy`` is ``w . Phi(y) - bonus . y``; ``dual`` is
    float64[n_rows], for a potential the slope ``w_i phi_i'`` at its form, for a constraint its
    multiplier; ``bound`` is ``dual.lower_bound(dual)``: no feasible values have less energy.
    ``violation`` is ``model.violation(y)``; ``certified`` says that the energy is within the
    engine's tolerance of the bound and the violation within its tolerance of 0; ``route`` names
    the method.
    """

    y: Floats
    energy: float
    dual: Floats
    bound: float
    violation: float
    iterations: int
    route: str
    certified: bool


class Round(NamedTuple):
    """The state of a minimisation after a round; ``bound`` is -inf if not known."""

    number: int
    energy: float
    bound: float
    violation: float


Watch: TypeAlias = Callable[[Round], object]
"""Called with the state after each round of an engine."""


@dataclass(frozen=True)
class EngineOptions:
    """What an engine is made with, beside its section; an engine takes of it what it needs.

    Random numbers are those of ``seed``; ``watch`` is told of rounds; ``threads`` do not change the answer;
    ``large`` is ADMM's (None: its default); ``folder`` takes pages (None: the system's temporary folder).
    """

    seed: int = 0
    watch: Watch | None = None
    threads: int = 1
    large: int | None = None
    folder: Path | None = None

    @property
    def place(self) -> Path:
        """The folder that takes pages."""
        return self.folder or Path(gettempdir())


class HingeEngine(Protocol):
    """A deterministic minimiser of the energy of hinge-loss models over [0, 1]^n."""

    def solve(
        self,
        model: HingeLossMRF,
        weights: Floats,
        *,
        bonus: Floats | None = None,
        start: HingeSolution | None = None,
    ) -> HingeSolution:
        """Minimise ``w . Phi(y) - bonus . y`` over the feasible values.

        ``weights`` is float64[W] with every weight index of the model below W; ``bonus`` is
        float64[n_variables] (loss augmentation: the L1 loss is linear in ``y`` where the truth is 0
        or 1); ``start`` is a solution for the same rows and variables, say for other weights. Raises
        Infeasible where the constraints are shown to have no solution, ValueError where the energy
        is not convex or a number not finite.
        """


@runtime_checkable
class EachEngine(Protocol):
    """An engine that solves many small models in one call."""

    def solutions(self, graphs: Micrographs, weights: Floats) -> Sequence[HingeSolution]:
        """Return for each model what ``HingeEngine.solve`` does, to the bit. Raises as that does for any."""
