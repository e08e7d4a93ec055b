"""The online updates, each as the step it makes (online-learning.md; Huynh & Mooney 2010, Algorithm 3).

Weights are kept as w_t = base + s_t u_t, with s_t = 1 (CDA1, MIRA, perceptron) or 1 / (t - 1) (CDA2,
subgradient), so that an update u += c Delta touches the non-zeros of Delta only. Every rule gets

    margin = rho - <base, Delta>,  dot = <u_t, Delta>,  norm = ||Delta||^2

and returns (c, alpha): the step on u, and the multiplier of the dual (0 where there is none).
"""

from onlinesrl.kernels.jit import kernel

CDA1, CDA2, MIRA, SUBGRADIENT, PERCEPTRON = 0, 1, 2, 3, 4


@kernel
def shrinks(rule: int) -> bool:
    """Tell whether the rule shrinks all weights by (t - 1) / t each step."""
    return rule in (CDA2, SUBGRADIENT)


@kernel
def scale(rule: int, t: int) -> float:
    """Return s_t: w_t = base + s_t u_t."""
    if not shrinks(rule):
        return 1.0
    return 1.0 / (t - 1) if t > 1 else 0.0


@kernel
def _cda1(margin: float, dot: float, norm: float, sigma: float) -> tuple[float, float]:
    loss = max(0.0, margin - dot)
    step = min(1.0 / sigma, loss / norm)
    return step, sigma * step


@kernel
def _cda2(margin: float, dot: float, norm: float, sigma: float, t: int) -> tuple[float, float]:
    loss = max(0.0, margin - dot / t)  # (t-1)/t <w_t, Delta> = <u_t, Delta> / t
    step = min(1.0 / (sigma * t), loss / norm)
    return t * step, sigma * t * step


@kernel
def _mira(margin: float, dot: float, norm: float) -> tuple[float, float]:
    return max(0.0, margin - dot) / norm, 0.0


@kernel
def step(
    rule: int, t: int, margin: float, dot: float, norm: float, sigma: float, eta: float
) -> tuple[float, float]:
    """Return (c, alpha) of a rule at step t; equal counts (norm 0) leave u as it is, with alpha 1."""
    if norm == 0.0:
        return 0.0, 1.0
    if rule == CDA1:
        return _cda1(margin, dot, norm, sigma)
    if rule == CDA2:
        return _cda2(margin, dot, norm, sigma, t)
    if rule == MIRA:
        return _mira(margin, dot, norm)
    if rule == SUBGRADIENT:
        return 1.0 / sigma, 1.0
    return eta, 0.0
