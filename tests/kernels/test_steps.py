"""The steps of the online updates, against their formulas (Huynh & Mooney 2010, Algorithm 3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.kernels import updates

rho = st.integers(1, 20).map(float)
product = st.floats(-30, 30)
squared = st.integers(1, 50).map(float)
sigmas = st.sampled_from([0.001, 0.01, 0.5, 3.0])
times = st.integers(1, 1000)


@given(rho, st.tuples(product, product), squared, sigmas, times)
def test_every_step_is_its_formula(rho, products, norm, sigma, t):
    """The step is on u, w_t = base + s_t u_t; so CDA2 and subgradient multiply theirs on w by t."""
    base, dot = products  # of the starting weights and of u with Delta
    margin = rho - base

    def step(rule: int) -> tuple[float, float]:
        return updates.step(rule, t, margin, dot, norm, sigma, 0.25)

    loss = max(0.0, margin - dot)
    tau = min(1 / sigma, loss / norm)
    assert step(updates.CDA1) == pytest.approx((tau, sigma * tau))

    w = dot / (t - 1) if t > 1 else 0.0
    loss = max(0.0, margin - (t - 1) / t * w) if t > 1 else max(0.0, margin - dot)
    tau = min(1 / (sigma * t), loss / norm)
    assert step(updates.CDA2) == pytest.approx((t * tau, sigma * t * tau))

    assert step(updates.MIRA) == pytest.approx((max(0.0, margin - dot) / norm, 0.0))
    assert step(updates.SUBGRADIENT) == pytest.approx((1 / sigma, 1.0))
    assert step(updates.PERCEPTRON) == (0.25, 0.0)


@pytest.mark.parametrize("rule", range(5))
def test_equal_counts_change_nothing_and_have_multiplier_one(rule):
    assert updates.step(rule, 3, 2.0, 0.0, 0.0, 0.01, 1.0) == (0.0, 1.0)


@pytest.mark.parametrize("rule", range(5))
def test_the_scale_turns_u_into_w(rule):
    """CDA2 and subgradient: u_t = (t - 1) w_t, and w_1 = 0."""
    shrinks = rule in (updates.CDA2, updates.SUBGRADIENT)

    assert updates.shrinks(rule) == shrinks
    assert [updates.scale(rule, t) for t in (1, 2, 5)] == ([0, 1, 0.25] if shrinks else [1, 1, 1])
