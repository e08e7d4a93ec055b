"""The gradient of the conditional log-likelihood, with AdaGrad's rates or constant ones.

The loss of an example is - log P(truth | evidence) = log Z(w) - <w, f(truth)>. Its gradient is the expected
features less those of the truth (Lafferty et al. 2001). So Delta = f(truth) - E f stands where
other updates have the difference to one rival, and the entropy of the states where they have its label
loss. Weights are those of dual averaging (Duchi, Hazan & Singer 2011, equation 3), with H as in ``adagrad``,
or 1 with constant rates:

    w_{t+1} - base = H^-1 sum_t Delta_t / sigma,

the least of - sum_t <Delta_t, w> + sigma/2 ||w - base||_H^2. The loss is convex, so it is at least its
tangent at w_t, entropy_t - <w, Delta_t>. The least sum of the tangents and the regulariser is therefore a
lower bound of the least regularised loss of any fixed weights,

    D = sum_t (entropy_t - <base, Delta_t>) - sigma/2 ||w_{T+1} - base||_H^2,

the dual with each alpha_t = 1, whatever delta is. The bound on the regret is the summed loss less D. It is at
most that of their proposition 2. Sampled expectations give no tangent, and so no bound.

>>> LogLikelihood(sigma=0.5).step(t=2, margin=1.0, dot=0.0, norm=4.0)
(2.0, 1.0)
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Count, Positive
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.online.update_rules.adagrad import AdaptiveRates
from onlinesrl.core.online.update_rules.rule import OptimizerState, Update, UpdateParams


class Likelihood(Update, ABC):
    """An update of the log-likelihood: expected features stand for those of a rival."""

    expects: ClassVar[bool] = True
    loss: Literal["pl"] = "pl"
    costs: None = None
    """not for the log-likelihood, which has no label loss."""
    label_loss: None = None
    """not for the log-likelihood, which has no label loss."""
    samples: Count = 100
    """how many sampled states stand for the marginals where elimination is too wide for exact ones."""

    def drawn(self) -> int:
        """See ``Update.drawn``."""
        return self.samples


class LogLikelihood(Likelihood, AdaptiveRates):
    """The gradient of the conditional log-likelihood, by exact marginals."""

    name = "log-likelihood"
    sigma: Positive = 1.0
    """the step is 1 / sigma; larger values make smaller steps, and keep weights nearer to their start."""
    rates: Literal["adagrad", "constant"] = "adagrad"
    """adagrad: each weight's step is divided by `delta` + the norm of its gradients; constant: it is not."""
    delta: Positive = 0.1
    """what is added to the norm of a weight's gradients; smaller values make larger first steps."""

    @model_validator(mode="after")
    def _delta_is_used(self) -> Self:
        if self.rates == "constant" and self.delta != type(self).model_fields["delta"].default:
            raise ValueError("delta: not for constant rates, which divide by nothing; leave it out")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """See ``Update.columns``."""
        return () if self.rates == "constant" else super().columns

    def metric(self, state: OptimizerState, delta: Floats | float = 0.0) -> Floats | float:
        """See ``Update.metric``."""
        return super().metric(state, delta) if self.columns else 1.0

    def accumulate(self, state: OptimizerState, delta: Floats) -> None:
        """See ``Update.accumulate``."""
        if self.columns:
            super().accumulate(state, delta)

    @staticmethod
    @kernel
    def formula(
        params: UpdateParams, t: int, margin: float, dot: float, norm: float
    ) -> tuple[float, float]:
        """Return c = 1 / sigma."""
        return 1.0 / params.sigma, 1.0
