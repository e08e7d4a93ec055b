"""The sparse, scaled, lazily averaged learner is the textbook's dense one, and so is its certificate."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from onlinesrl.core.example import decode
from onlinesrl.core.jit.address import pair_at
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.online import averaged_weights
from onlinesrl.core.online.update_rules import UPDATES
from onlinesrl.core.online.update_rules.rule import UpdateParams
from onlinesrl.mln.ground.ground_mrf import network_of
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.kernels.ground_network import Network
from onlinesrl.mln.kernels.weight_lookup import gap
from onlinesrl.mln.lang import reader
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.mln.online.weight_table import WeightTable
from tests.support.ground_mrfs import clause_model
from tests.support.random_networks import true
from tests.support.small_learners import update_of
from tests.support.textbook_updates import (
    ASCENDING,
    CERTIFIED,
    RULES,
    Round,
    Vector,
    minimiser,
    objective,
    textbook,
)

WEIGHTS, ATOMS = 5, 4
FEWER = settings(max_examples=settings.default.max_examples // 2)
"""For each of the updates."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Clauses ``(weight, sign, literals)`` over `WEIGHTS` weights, the truth, and its rival."""

    clauses: list[tuple[int, float, list[int]]]
    truth: NDArray[np.uint8]
    rival: NDArray[np.uint8]
    cost: float = 1.0

    @classmethod
    def of_one(cls, truth: int, rival: int) -> "Pair":
        """One atom, one unit clause."""
        return cls([(0, 1.0, [1])], np.array([truth], np.uint8), np.array([rival], np.uint8))

    def round(self) -> Round:
        delta = np.zeros(WEIGHTS)
        for index, sign, literals in self.clauses:
            delta[index] += sign * (true(literals, self.truth) - true(literals, self.rival))
        return Round(float(np.sum(self.truth != self.rival)), delta, self.cost)

    def network(self) -> Network:
        """As grounding and numbering leave it: no groups, so the atoms are in their order."""
        net, _ = network_of(clause_model(len(self.truth), [(1.0, x) for *_, x in self.clauses])[0])
        net.row_weight[: len(self.clauses)] = [index for index, *_ in self.clauses]
        net.row_factor[: len(self.clauses)] = [sign for _, sign, _ in self.clauses]
        return net


FACTORS = st.integers(-192, 192).map(lambda n: n / 64)
"""What clauses with numeric atoms count; their sums are exact."""


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Clauses of one to three literals that share weights, with signs or numbers; any two states."""
    literal = st.tuples(st.integers(1, ATOMS), st.sampled_from([1, -1]))
    clause = st.tuples(
        st.integers(0, WEIGHTS - 1),
        st.sampled_from([1.0, -1.0, 2.0]) | FACTORS,
        st.lists(literal, min_size=1, max_size=3, unique_by=lambda each: each[0]),
    )
    clauses = draw(st.lists(clause, max_size=8))
    state = st.lists(st.integers(0, 1), min_size=ATOMS, max_size=ATOMS)
    truth = draw(state)
    rival = draw(st.one_of(st.just(truth), state, state, state))
    signed = [(index, sign, [a * s for a, s in literals]) for index, sign, literals in clauses]
    cost = draw(st.sampled_from([1.0, 0.25, 8.0]))
    return Pair(signed, np.array(truth, np.uint8), np.array(rival, np.uint8), cost)


base_weights = st.lists(
    st.floats(-3, 3, allow_subnormal=False), min_size=WEIGHTS, max_size=WEIGHTS
).map(np.array)
sigmas = st.sampled_from([0.001, 0.1, 1.0, 30.0])


def new_table(rule: str, sigma: float, eta: float, base: Vector) -> WeightTable:
    """A table whose weights 0 .. WEIGHTS-1 are those of rules without a template."""
    text = "P(x)\n" + "".join(f'{weight!r} P("{n}")\n' for n, weight in enumerate(base.tolist()))
    plan = compile_program(reader.parse(text, "rules.mln"), ["P"])
    return WeightTable(Layout(plan), update_of(rule, sigma=sigma, eta=eta, delta=eta))


def take(table: WeightTable, each: Pair) -> float:
    """Make one update; return the loss."""
    ones = np.ones(ATOMS)
    n, rho = gap(each.network(), table.arrays, each.truth, each.rival, ones)
    return averaged_weights.learn(table.arrays, table.how, table.scalar, n, rho, each.cost, False)


def current(table: WeightTable) -> Vector:
    """The weights that the next rival is found with."""
    one = Pair([(n, 1.0, [1]) for n in range(WEIGHTS)], *np.zeros((2, 1), np.uint8))
    return table.of(one.network(), averaged=False)[:WEIGHTS].copy()


def metric_of(table: WeightTable) -> Vector:
    """AdaGrad's H, of other updates ones."""
    metric = table.update.metric(table.optimizer_state, np.zeros(len(table.arrays.uses)))
    return np.broadcast_to(metric, len(table.arrays.uses))[:WEIGHTS].copy()


def close(found: object, expected: object, scale: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * max(1.0, scale))


def test_the_textbook_has_them_all() -> None:
    assert {*RULES, "second-order"} == {*UPDATES}  # that is in test_second_order


@pytest.mark.parametrize("rule", RULES)
@FEWER
@given(st.lists(pairs(), max_size=12), sigmas, st.sampled_from([0.5, 1.0]), base_weights)
def test_the_lazy_learner_is_the_dense_one(
    rule: str, seen: list[Pair], sigma: float, eta: float, base: Vector
) -> None:
    """So is its certificate."""
    table = new_table(rule, sigma, eta, base)
    np.testing.assert_array_equal(current(table), base)
    np.testing.assert_array_equal(table.averaged()[:WEIGHTS], base)
    scale = 1.0
    for each, step in zip(
        seen, textbook([each.round() for each in seen], rule, sigma, eta, base), strict=True
    ):
        if step.undecided:
            break
        scale = max(scale, float(np.abs(step.weights).max()) * table.updates)
        close(take(table, each), step.loss, scale * ATOMS * 20)
        close(current(table), base + step.weights, scale)
        close(table.averaged()[:WEIGHTS], base + step.average, scale)
        close(metric_of(table), step.metric, scale)
        if rule in CERTIFIED:
            found = table.certificate()
            scale = 1e3 * max(1.0, abs(step.dual), abs(step.bound))
            close(found["dual"], step.dual, scale)
            close(found["regret_bound"], step.bound, scale)


def contents(table: WeightTable) -> list[bytes]:
    """All that an update may change."""
    arrays = (
        table.arrays.value,
        table.arrays.uses,
        np.array(table.scalar),
        *table.optimizer_state.values(),
    )
    return [array.tobytes() for array in arrays]


@pytest.mark.parametrize("rule", RULES)
def test_numbers_that_cancel_leave_no_gap(rule: str) -> None:
    """0.1 + 0.2 - 0.2 - 0.1 is 3e-17 in floating point; MIRA would step by its inverse."""
    numbers = [0.1, 0.2, -0.2, -0.1]
    assert sum(numbers) != 0
    table = new_table(rule, 1e-9, 1.0, np.zeros(WEIGHTS))
    clauses = [(0, number, [atom]) for atom, number in enumerate(numbers, 1)]
    loss = take(table, Pair(clauses, *np.array([[1] * 4, [0] * 4], np.uint8)))
    assert loss == (2.0 if rule == "pa1" else 4.0)
    assert not current(table).any()


positive = st.floats(0, exclude_min=True, allow_infinity=False)
wild_weights = st.lists(
    st.floats(allow_nan=False, allow_infinity=False), min_size=WEIGHTS, max_size=WEIGHTS
).map(np.array)


@pytest.mark.parametrize("rule", RULES)
@FEWER
@given(st.lists(pairs(), min_size=1, max_size=12), positive, positive, wild_weights)
@example([Pair.of_one(1, 0)] * 3, 5e-324, 1.7e308, np.zeros(WEIGHTS))
@example([Pair.of_one(1, 0)] * 3, 1e-149, 1e149, np.zeros(WEIGHTS))
@example([Pair.of_one(1, 0)] * 3, 1.7e308, 5e-324, np.full(WEIGHTS, -1.7e308))
def test_no_update_makes_a_weight_that_is_not_finite(
    rule: str, seen: list[Pair], sigma: float, eta: float, base: Vector
) -> None:
    """Whatever the constants and the starting weights: what cannot be done is left, whole."""
    table = new_table(rule, sigma, eta, base)
    arrays = table.arrays
    for each in seen:
        before = contents(table)
        if np.isnan(take(table, each)):
            after = contents(table)
            assert after == before
        assert not arrays.delta.any()
        assert not arrays.mark.any()
        for found in (arrays.value, np.array(table.scalar), current(table), table.averaged()):
            assert np.isfinite(found).all()


@pytest.mark.parametrize("presolve", [True, False])
def test_an_update_out_of_range_is_a_bad_example(presolve: bool) -> None:
    plan = compile_program(reader.parse("Q(x)\nP(x)\nQ(x) => P(x)\n", "rules.mln"), ["P"])
    engines = Inference(Brute(), Brute(), presolve=presolve)
    learner = MlnOnlineLearner(plan, update_of("subgradient", sigma=5e-324), engines)
    bad = decode(b'{"id": 1, "evidence": {"Q": [["a"]]}, "truth": {"P": [["a"]]}}')
    outcomes, tally = learner.step([bad, bad])
    assert [o.error for o in outcomes] == [
        "its update overflows: learner.sigma is too small, or the weights are too large"
    ] * 2
    assert (tally.predicted, learner.weights.updates) == (0, 0)


@pytest.mark.parametrize("rule", CERTIFIED)
@FEWER
@given(
    st.lists(pairs(), min_size=1, max_size=12),
    sigmas,
    base_weights,
    st.lists(base_weights, min_size=5, max_size=5),
)
def test_no_fixed_weights_do_better_than_the_dual_value(
    rule: str, seen: list[Pair], sigma: float, base: Vector, others: list[Vector]
) -> None:
    """Nor do steps of coordinate ascent ever lower it."""
    table = new_table(rule, sigma, 1.0, base)
    dual = 0.0
    for each in seen:
        before = dual
        take(table, each)
        dual = table.certificate()["dual"] or 0.0
        assert rule not in ASCENDING or dual >= before - 1e-9 * max(1.0, abs(before))
    rounds = [each.round() for each in seen]
    metric = metric_of(table)
    best = minimiser(rounds, rule, sigma, base, metric)
    for w in [np.zeros(WEIGHTS), best, *others]:
        least = objective(rounds, rule, sigma, base, w, metric)
        assert dual <= least + 1e-9 * max(1.0, abs(least))


numbers = st.floats(-1e3, 1e3)


@kernel
def compiled_step(
    params: UpdateParams, t: int, margin: float, dot: float, norm: float
) -> tuple[float, float]:
    return pair_at(params.formula, params, t, margin, dot, norm)


@pytest.mark.parametrize("rule", RULES)
@given(st.integers(1, 10**9), st.tuples(numbers, numbers, positive), positive)
def test_steps_are_the_same_compiled(
    rule: str, t: int, measures: tuple[float, float, float], sigma: float
) -> None:
    """PSL takes them without compiling."""
    update = update_of(rule, sigma=sigma)
    compiled = compiled_step(update.compiled({}), t, *measures)
    assert np.array(compiled).tobytes() == np.array(update.step(t, *measures)).tobytes()
