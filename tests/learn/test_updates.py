"""The sparse, scaled, lazily averaged learner is the textbook's dense one, and so is its certificate."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from learners import online
from numpy.typing import NDArray
from textbook import CERTIFIED, RULES, Round, Vector, minimiser, objective, textbook

from onlinesrl.ground.convert import network_of
from onlinesrl.ground.model import ClauseModel
from onlinesrl.ground.plan import compile_program
from onlinesrl.infer.brute import Brute
from onlinesrl.kernels import learn as k
from onlinesrl.kernels import updates
from onlinesrl.lang import mln
from onlinesrl.lang.example import decode
from onlinesrl.learn.online import Hyper, Inference, OnlineLearner

WEIGHTS, ATOMS = 5, 4


@dataclass(frozen=True, eq=False)
class Pair:
    """A ground model over `WEIGHTS` weights, the truth and the label it is compared with."""

    model: ClauseModel
    truth: NDArray[np.uint8]
    rival: NDArray[np.uint8]

    @classmethod
    def of_one(cls, truth: int, rival: int) -> "Pair":
        """One atom, one unit clause."""
        indices = np.array([0, 1], np.int64)
        model = ClauseModel(
            n_atoms=1,
            start=indices,
            literals=np.ones(1, np.int32),
            weight_index=np.zeros(1, np.int64),
            sign=np.ones(1),
            group=np.full(1, -1, np.int32),
            exactly=np.zeros(0, np.bool_),
        )
        return cls(model, np.array([truth], np.uint8), np.array([rival], np.uint8))

    def round(self) -> Round:
        delta = np.zeros(WEIGHTS)
        for sign, state in ((1.0, self.truth), (-1.0, self.rival)):
            indices, values = self.model.features(state)
            delta[indices] += sign * values
        return Round(float(np.sum(self.truth != self.rival)), delta)


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Clauses of one to three literals that share weights, some with multiplicity; any two states."""
    literal = st.tuples(st.integers(1, ATOMS), st.sampled_from([1, -1]))
    clause = st.tuples(
        st.integers(0, WEIGHTS - 1),
        st.sampled_from([1.0, -1.0, 2.0]),
        st.lists(literal, min_size=1, max_size=3, unique_by=lambda each: each[0]),
    )
    clauses = draw(st.lists(clause, max_size=8))
    state = st.lists(st.integers(0, 1), min_size=ATOMS, max_size=ATOMS)
    truth = draw(state)
    rival = draw(st.one_of(st.just(truth), state, state, state))
    model = ClauseModel(
        n_atoms=ATOMS,
        start=np.cumsum([0, *(len(c[2]) for c in clauses)], dtype=np.int64),
        literals=np.array([a * s for c in clauses for a, s in c[2]], np.int32),
        weight_index=np.array([c[0] for c in clauses], np.int64),
        sign=np.array([c[1] for c in clauses], np.float64),
        group=np.full(ATOMS, -1, np.int32),
        exactly=np.zeros(0, np.bool_),
    )
    return Pair(model, np.array(truth, np.uint8), np.array(rival, np.uint8))


base_weights = st.lists(
    st.floats(-3, 3, allow_subnormal=False), min_size=WEIGHTS, max_size=WEIGHTS
).map(np.array)
sigmas = st.sampled_from([0.001, 0.1, 1.0, 30.0])


def new_learner(rule: str, sigma: float, eta: float, base: Vector) -> OnlineLearner:
    """A learner whose weights 0 .. WEIGHTS-1 are those of rules without a template."""
    text = "P(x)\n" + "".join(f'{weight!r} P("{n}")\n' for n, weight in enumerate(base.tolist()))
    plan = compile_program(mln.parse(text, "rules.mln"), ["P"])
    hyper = Hyper(rule, "pl", sigma, eta)
    return online(plan, hyper, Inference(Brute(), Brute()))


def take(learner: OnlineLearner, each: Pair) -> float:
    """Make one update; return the loss."""
    net, order = network_of(each.model)
    truth, rival = each.truth[order], each.rival[order]
    return k.learn_world(net, learner.weights.arrays, truth, rival, learner.settings)


def current(learner: OnlineLearner) -> Vector:
    """The weights that the next rival is found with."""
    value = learner.weights.arrays.value[:WEIGHTS]
    return (
        value[:, 0]
        + updates.scale(learner.settings.rule, learner.weights.updates + 1) * value[:, 1]
    )


def close(found: object, expected: object, scale: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * max(1.0, scale))


@pytest.mark.parametrize("rule", RULES)
@given(st.lists(pairs(), max_size=12), sigmas, st.sampled_from([0.5, 1.0]), base_weights)
def test_the_lazy_learner_is_the_dense_one(
    rule: str, seen: list[Pair], sigma: float, eta: float, base: Vector
) -> None:
    learner = new_learner(rule, sigma, eta, base)
    np.testing.assert_array_equal(current(learner), base)
    np.testing.assert_array_equal(learner.weights.averaged()[:WEIGHTS], base)
    scale = 1.0
    for each, step in zip(
        seen, textbook([each.round() for each in seen], rule, sigma, eta, base), strict=True
    ):
        scale = max(scale, float(np.abs(step.weights).max()) * learner.weights.updates)
        close(take(learner, each), step.loss, scale * ATOMS * 20)
        close(current(learner), base + step.weights, scale)
        close(learner.weights.averaged()[:WEIGHTS], base + step.average, scale)


positive = st.floats(0, exclude_min=True, allow_infinity=False)
wild_weights = st.lists(
    st.floats(allow_nan=False, allow_infinity=False), min_size=WEIGHTS, max_size=WEIGHTS
).map(np.array)


@pytest.mark.parametrize("rule", RULES)
@given(st.lists(pairs(), min_size=1, max_size=12), positive, positive, wild_weights)
@example([Pair.of_one(1, 0)] * 3, 5e-324, 1.7e308, np.zeros(WEIGHTS))
@example([Pair.of_one(1, 0)] * 3, 1e-149, 1e149, np.zeros(WEIGHTS))
@example([Pair.of_one(1, 0)] * 3, 1.7e308, 5e-324, np.full(WEIGHTS, -1.7e308))
def test_no_update_makes_a_weight_that_is_not_finite(
    rule: str, seen: list[Pair], sigma: float, eta: float, base: Vector
) -> None:
    """Whatever the constants and the starting weights: what cannot be done is left, whole."""
    learner = new_learner(rule, sigma, eta, base)
    arrays = learner.weights.arrays
    for each in seen:
        before = [arrays.value.tobytes(), arrays.uses.tobytes(), arrays.scalar.tobytes()]
        if np.isnan(take(learner, each)):
            after = [arrays.value.tobytes(), arrays.uses.tobytes(), arrays.scalar.tobytes()]
            assert after == before
        assert not arrays.delta.any()
        assert not arrays.mark.any()
        for found in (arrays.value, arrays.scalar, current(learner), learner.weights.averaged()):
            assert np.isfinite(found).all()


@pytest.mark.parametrize("presolve", [True, False])
def test_an_update_out_of_range_is_a_bad_example(presolve: bool) -> None:
    plan = compile_program(mln.parse("Q(x)\nP(x)\nQ(x) => P(x)\n", "rules.mln"), ["P"])
    engines = Inference(Brute(), Brute(), Brute(), presolve=presolve)
    learner = online(plan, Hyper("subgradient", "ml", 5e-324), engines)
    bad = decode(b'{"id": 1, "evidence": {"Q": [["a"]]}, "truth": {"P": [["a"]]}}')
    outcomes, tally = learner.step([bad, bad])
    assert [o.error for o in outcomes] == [
        "its update is beyond the range of numbers: learner.sigma is too small, or the weights are "
        "too large"
    ] * 2
    assert (tally.predicted, learner.weights.updates) == (0, 0)


@pytest.mark.parametrize("rule", CERTIFIED)
@given(st.lists(pairs(), min_size=1, max_size=12), sigmas, base_weights)
def test_the_certificate_is_what_all_rounds_give(
    rule: str, seen: list[Pair], sigma: float, base: Vector
) -> None:
    learner = new_learner(rule, sigma, 1.0, base)
    for each, step in zip(
        seen, textbook([each.round() for each in seen], rule, sigma, 1.0, base), strict=True
    ):
        take(learner, each)
        found = learner.certificate()
        scale = 1e3 * max(1.0, abs(step.dual), abs(step.bound))
        close(found["dual"], step.dual, scale)
        close(found["regret_bound"], step.bound, scale)


@pytest.mark.parametrize("rule", CERTIFIED)
@given(
    st.lists(pairs(), min_size=1, max_size=12),
    sigmas,
    base_weights,
    st.lists(base_weights, min_size=5, max_size=5),
)
def test_no_fixed_weights_do_better_than_the_dual_value(
    rule: str, seen: list[Pair], sigma: float, base: Vector, others: list[Vector]
) -> None:
    learner = new_learner(rule, sigma, 1.0, base)
    for each in seen:
        take(learner, each)
    dual = learner.certificate()["dual"]
    assert dual is not None
    rounds = [each.round() for each in seen]
    best = minimiser(rounds, rule, sigma, base)
    for w in [np.zeros(WEIGHTS), best, *others]:
        least = objective(rounds, rule, sigma, base, w)
        assert dual <= least + 1e-9 * max(1.0, abs(least))


@pytest.mark.parametrize("rule", ["cda1", "cda2"])
@given(st.lists(pairs(), min_size=1, max_size=12), sigmas, base_weights)
def test_coordinate_steps_never_lower_the_dual_value(
    rule: str, seen: list[Pair], sigma: float, base: Vector
) -> None:
    learner = new_learner(rule, sigma, 1.0, base)
    before = 0.0
    for each in seen:
        take(learner, each)
        dual = learner.certificate()["dual"]
        assert dual is not None
        assert dual >= before - 1e-9 * max(1.0, abs(before))
        before = dual


@pytest.mark.parametrize("rule", ["mira", "perceptron"])
def test_no_certificate_without_multipliers(rule: str) -> None:
    learner = new_learner(rule, 1.0, 1.0, np.zeros(WEIGHTS))
    one = Pair(
        ClauseModel(
            n_atoms=ATOMS,
            start=np.array([0, 1], np.int64),
            literals=np.array([1], np.int32),
            weight_index=np.array([0], np.int64),
            sign=np.array([1.0]),
            group=np.full(ATOMS, -1, np.int32),
            exactly=np.zeros(0, np.bool_),
        ),
        np.array([1, 0, 0, 0], np.uint8),
        np.array([0, 0, 0, 0], np.uint8),
    )
    assert take(learner, one) == 1.0
    found = learner.certificate()
    assert found == {"loss": 1.0, "dual": None, "regret_bound": None}
