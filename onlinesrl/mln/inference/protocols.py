"""The interfaces of engines: a MAP engine maximises the score, a marginal engine averages over states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.inference.mcmc_diagnostics import Diagnostics


@dataclass(frozen=True, eq=False)
class Solution:
    """A feasible state and what is known of it.

    ``score`` is ``model.score(state, weight, bonus)``, with the bonus. No feasible state scores more than
    ``bound``, up to rounding (see ``rounding.py``). ``certified`` says that the engine proved the state
    optimal; a learner uses only such a state as the MPE. ``route`` names the method.
    """

    state: State
    score: float
    bound: float
    route: str
    certified: bool


class Wide(OnlinesrlError):
    """The induced width is beyond elimination; the engine gives no answer."""


class MapEngine(Protocol):
    """An engine that finds a feasible state of high score; deterministic."""

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """Maximise ``w . f(state) + bonus . state`` over the feasible states.

        ``weight`` is float64[n_clauses], 0 for hard clauses; ``bonus`` is
        float64[n_atoms] (loss augmentation: the Hamming loss is linear in the state). Raises
        Infeasible where there is no feasible state.
        """
        ...


@dataclass(frozen=True, eq=False)
class Marginals:
    """The probability of every atom under ``P(state) = exp(w . f(state)) / Z`` of feasible states.

    ``probability`` is float64[n_atoms]; its sum over a group is 1 or at most 1. ``log_z`` is None if the
    engine estimates no Z. ``route`` names the method. ``samples`` is 0 if nothing was sampled, otherwise
    ``diagnostics`` say how far to trust the estimates.
    """

    probability: Floats
    log_z: float | None
    route: str
    samples: int
    diagnostics: Diagnostics | None = None


class MarginalEngine(Protocol):
    """An engine that computes or estimates marginals; deterministic."""

    @property
    def route(self) -> str:
        """The name under which its predictions are counted."""
        ...

    def marginals(self, model: GroundMRF, weight: Floats) -> Marginals:
        """Return the marginals, ``weight`` as in ``MapEngine.solve``.

        Raises Infeasible where there is no feasible state.
        """
        ...
