"""The gradient of the conditional log-likelihood, with AdaGrad's rates.

The loss of an example is - log P(truth | evidence) = log Z(w) - <w, f(truth)>. Its gradient is the expected
features less those of the truth (Lafferty et al. 2001). So Delta = f(truth) - E f stands where
other updates have the difference to one rival, and the entropy of the states where they have its label
loss. Weights are those of dual averaging (Duchi, Hazan & Singer 2011, equation 3), with H as in ``adagrad``:

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

from typing import ClassVar, Literal

from onlinesrl.core.io.config_types import Count, Positive
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.online.update_rules.adagrad import AdaptiveRates
from onlinesrl.core.online.update_rules.rule import UpdateParams


class LogLikelihood(AdaptiveRates):
    """The gradient of the conditional log-likelihood, by exact marginals; AdaGrad's rates."""

    expects: ClassVar[bool] = True
    update: Literal["log-likelihood"] = "log-likelihood"
    loss: Literal["pl"] = "pl"
    costs: None = None
    """not for the log-likelihood, which has no label loss."""
    label_loss: None = None
    """not for the log-likelihood, which has no label loss."""
    sigma: Positive = 1.0
    """the step is 1 / sigma; larger values make smaller steps, and keep weights nearer to their start."""
    delta: Positive = 0.1
    """what is added to the norm of a weight's gradients; smaller values make larger first steps."""
    samples: Count = 100
    """how many sampled states stand for the marginals where elimination is too wide for exact ones."""

    def drawn(self) -> int:
        """See ``Update.drawn``."""
        return self.samples

    @staticmethod
    @kernel
    def formula(
        params: UpdateParams, t: int, margin: float, dot: float, norm: float
    ) -> tuple[float, float]:
        """Return c = 1 / sigma."""
        return 1.0 / params.sigma, 1.0
