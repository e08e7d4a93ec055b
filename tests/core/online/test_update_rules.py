"""The steps of the online updates, against their formulas (Huynh & Mooney 2010, Algorithm 3)."""

import doctest
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.online.update_rules import UPDATES
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.lang import reader
from onlinesrl.mln.online.weight_table import WeightTable
from tests.support.small_learners import update_of

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

    def step(rule: str) -> tuple[float, float]:
        return update_of(rule, sigma=sigma, eta=0.25).step(t, margin, dot, norm)

    loss = max(0.0, margin - dot)
    tau = min(1 / sigma, loss / norm)
    assert step("cda1") == pytest.approx((tau, sigma * tau))

    w = dot / (t - 1) if t > 1 else 0.0
    loss = max(0.0, margin - (t - 1) / t * w) if t > 1 else max(0.0, margin - dot)
    tau = min(1 / (sigma * t), loss / norm)
    assert step("cda2") == pytest.approx((t * tau, sigma * t * tau))

    assert step("mira") == pytest.approx((max(0.0, margin - dot) / norm, 0.0))
    assert step("subgradient") == pytest.approx((1 / sigma, 1.0))
    assert step("perceptron") == (0.25, 0.0)


@pytest.mark.parametrize("rule", UPDATES)
def test_equal_counts_change_nothing_and_have_multiplier_one(rule):
    """A gap that touches no weight, with a loss of 4: the dual gets all of it, where there is one."""
    plan = compile_program(reader.parse("P(x)\n0.5 P(x)\n"), ["P"])
    table = WeightTable(Layout(plan), update_of(rule, sigma=0.01))
    before = table.arrays.value.tobytes()

    asked = 2.0 if rule == "pa1" else 4.0
    assert table.learn(0, 4.0) == asked
    assert table.arrays.value.tobytes() == before
    assert not table.arrays.uses.any()
    assert table.updates == 1
    assert table.certificate()["dual"] == (asked if UPDATES[rule].dual else None)


@pytest.mark.parametrize("rule", UPDATES)
def test_the_scale_turns_u_into_w(rule):
    """CDA2 and subgradient: u_t = (t - 1) w_t, and w_1 = 0."""
    shrinks, update = rule in {"cda2", "subgradient"}, update_of(rule)

    assert update.shrinks == shrinks
    assert [update.scale(t) for t in (1, 2, 5)] == ([0, 1, 0.25] if shrinks else [1, 1, 1])


@pytest.mark.parametrize("rule", UPDATES)
def test_the_example_of_a_rule_holds(rule):
    results = doctest.testmod(sys.modules[UPDATES[rule].__module__])
    assert results.attempted
    assert not results.failed
