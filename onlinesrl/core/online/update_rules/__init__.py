"""The update rules by name, and their steps (Huynh & Mooney 2010, Algorithm 3).

A new rule is one file of this folder, with its formula as a kernel, and one line in ``AnyUpdate``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from onlinesrl.core.io.config_section import kind_of, sections_of, standard
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.online.update_rules.adagrad import AdaGradCda
from onlinesrl.core.online.update_rules.cda1 import Cda1
from onlinesrl.core.online.update_rules.cda2 import Cda2
from onlinesrl.core.online.update_rules.contrastive_divergence import ContrastiveDivergence
from onlinesrl.core.online.update_rules.log_likelihood import LogLikelihood
from onlinesrl.core.online.update_rules.mira import Mira
from onlinesrl.core.online.update_rules.passive_aggressive import PassiveAggressive
from onlinesrl.core.online.update_rules.perceptron import Perceptron
from onlinesrl.core.online.update_rules.rule import OptimizerState, Update, UpdateParams
from onlinesrl.core.online.update_rules.simple import Simple
from onlinesrl.core.online.update_rules.subgradient import Subgradient

__all__ = [
    "FORMULAS",
    "STANDARD",
    "UPDATES",
    "AnyUpdate",
    "Cda1",
    "Cda2",
    "Standard",
    "params_of",
    "step",
]

Standard = AdaGradCda
"""The default update; each update has its own defaults for loss and sigma (streams/papers/defaults)."""
STANDARD = kind_of(Standard)
AnyUpdate: TypeAlias = Annotated[
    AdaGradCda  # one line per update, the standard first
    | Cda1
    | Cda2
    | PassiveAggressive
    | Simple
    | Mira
    | Subgradient
    | Perceptron
    | ContrastiveDivergence
    | LogLikelihood,
    Field(discriminator="update"),
    BeforeValidator(standard("update", STANDARD)),
]
UPDATES: dict[str, type[Any]] = {kind_of(rule): rule for rule in sections_of(AnyUpdate)}
"""The updates by name."""

Step: TypeAlias = Callable[[UpdateParams, int, float, float, float], tuple[float, float]]
FORMULAS: list[Step] = list(dict.fromkeys(rule.formula for rule in UPDATES.values()))
"""The distinct formulas of the rules; ``UpdateParams.kind`` is a place in this list."""


def _by_kind(formulas: Sequence[Step]) -> Step:
    """Return a kernel that computes the formula at the place ``params.kind``."""
    *others, formula = formulas
    if not others:
        return formula
    kind, otherwise = len(others), _by_kind(others)

    @kernel
    def step(
        params: UpdateParams, t: int, margin: float, dot: float, norm: float
    ) -> tuple[float, float]:
        if params.kind == kind:
            return formula(params, t, margin, dot, norm)
        return otherwise(params, t, margin, dot, norm)

    return step


step = _by_kind(FORMULAS)
"""The step of any rule, a kernel; see ``Update.formula``."""


def params_of(update: Update, state: OptimizerState) -> UpdateParams:
    """Return a rule as kernels take it, with the optimiser's ``state``."""
    return update.params(FORMULAS.index(type(update).formula), state)
