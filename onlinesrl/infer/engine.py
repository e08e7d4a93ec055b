"""What engines are: a MAP engine maximises a ground model's score, a marginal engine averages over it.

A relaxed engine minimises a hinge-loss model's energy over values in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from onlinesrl.errors import OnlinesrlError
from onlinesrl.ground.hinges import HingeModel
from onlinesrl.ground.model import ClauseModel, Floats, State
from onlinesrl.infer.diagnostics import Diagnostics

UNPROVEN = "this answer is not proven to be the best"
"""What a person is told of an uncertified one."""


class Infeasible(OnlinesrlError):
    """No state satisfies the hard clauses and the groups, or no values the constraints."""

    exit_code = 65


class Unsolved(OnlinesrlError):
    """The search ended at its limit without a feasible state; there may be one."""


@dataclass(frozen=True, eq=False)
class Solution:
    """A feasible state and what is known of it.

    ``score`` is ``value(model, state, weight, bonus)``, so it has the bonus in it; no feasible
    state has more than ``bound``; ``certified`` says that the engine proved the state optimal, and
    a learner takes only such a one for an MPE; ``route`` names what found it.
    """

    state: State
    score: float
    bound: float
    route: str
    certified: bool


class MapEngine(Protocol):
    """Anything that finds a feasible state of high score; deterministic."""

    def solve(self, model: ClauseModel, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """Maximise ``w . f(state) + bonus . state`` over the feasible states.

        ``weight`` is float64[n_clauses], 0 for hard clauses; ``bonus`` is
        float64[n_atoms] (loss augmentation: the Hamming loss is linear in the state). Raises
        Infeasible where there is no feasible state.
        """
        ...


class RankingEngine(MapEngine, Protocol):
    """A MapEngine that finds the runner-up as well."""

    def second_best(
        self,
        model: ClauseModel,
        weight: Floats,
        best_state: State,
        bonus: Floats | None = None,
    ) -> Solution | None:
        """Return the best feasible state other than ``best_state``; None where there is none."""
        ...


@dataclass(frozen=True, eq=False)
class Marginals:
    """The probability of every atom under ``P(state) = exp(w . f(state)) / Z`` of feasible states.

    ``probability`` is float64[n_atoms], its sum over a group 1 or at most 1; ``log_z`` is None where
    the engine estimates no Z; ``route`` names what computed them; ``samples`` is 0 where nothing was
    sampled, else ``diagnostics`` say how far to trust them.
    """

    probability: Floats
    log_z: float | None
    route: str
    samples: int
    diagnostics: Diagnostics | None = None


class MarginalEngine(Protocol):
    """Anything that computes or estimates marginals; deterministic."""

    def marginals(self, model: ClauseModel, weight: Floats) -> Marginals:
        """Return the marginals, ``weight`` as in ``MapEngine.solve``.

        Raises Infeasible where there is no feasible state.
        """
        ...


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Values that minimise a hinge-loss model's energy, and what is known of them.

    ``y`` is float64[n_variables] in [0, 1]; ``energy`` is ``w . Phi(y) - bonus . y``; ``dual`` is
    float64[n_rows], for a potential the slope ``w_i phi_i'`` at its form, for a constraint its
    multiplier; ``bound`` is ``dual.lower_bound(dual)``: no feasible values have less energy.
    ``violation`` is ``model.violation(y)``; ``certified`` says that the energy is within the
    engine's tolerance of the bound and the violation within its tolerance of 0; ``route`` names
    what found it.
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
    """Where the minimisation of an energy stands; ``bound`` is -inf where the engine knows none."""

    number: int
    energy: float
    bound: float
    violation: float


Watch: TypeAlias = Callable[[Round], object]
"""Is told of rounds while an engine works."""


class RelaxedEngine(Protocol):
    """Anything that minimises the energy of a hinge-loss model over [0, 1]^n; deterministic."""

    def solve(
        self,
        model: HingeModel,
        weights: Floats,
        *,
        bonus: Floats | None = None,
        start: Relaxed | None = None,
    ) -> Relaxed:
        """Minimise ``w . Phi(y) - bonus . y`` over the feasible values.

        ``weights`` is float64[W] with every weight index of the model below W; ``bonus`` is
        float64[n_variables] (loss augmentation: the L1 loss is linear in ``y`` where the truth is 0
        or 1); ``start`` is an answer for the same rows and variables, as of other weights. Raises
        Infeasible where the constraints are shown to have no solution, ValueError where the energy
        is not convex or a number not finite.
        """
        ...


def value(model: ClauseModel, state: State, weight: Floats, bonus: Floats | None) -> float:
    """``w . f(state) + bonus . state``, the number that every engine maximises and reports."""
    score = model.score(state, weight)
    return score if bonus is None else score + float(bonus[state != 0].sum())
