"""Weights that are never below 0: the updates and their certificates are the textbook's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from onlinesrl.core.online.reservoir import NO_DUAL, DualBlock, ReplaySection
from onlinesrl.core.online.update_rules import UPDATES, Cda2
from onlinesrl.psl.lang import reader
from onlinesrl.psl.online.rule_weights import RuleWeights
from tests.support.small_learners import update_of
from tests.support.textbook_updates import (
    CERTIFIED,
    CLOSE_CALL,
    RULES,
    SHRINKING,
    Round,
    Vector,
    asked,
    length,
)

RULE_TEXTS = ["P(X) -> Q(X)", "Q(X) -> P(X) ^2", "!Q(X)"]
NUMBERS = st.floats(-3, 3).map(lambda x: round(x, 3))


@dataclass(frozen=True, eq=False)
class Step:
    """What is known after a round."""

    weights: Vector
    average: Vector
    loss: float
    dual: float
    bound: float
    margin: float

    @property
    def undecided(self) -> bool:
        """Whether rounding decides if the example has a loss."""
        return abs(self.margin) <= CLOSE_CALL


def projected(seen: list[Round], rule: str, sigma: float, eta: float, base: Vector) -> list[Step]:
    """The updates with w >= 0, term by term; the dual as the minimum of its Lagrangian."""
    w, total, primal, steps = base.copy(), np.zeros(len(base)), 0.0, []
    multipliers: list[float] = []
    square = np.zeros(len(base))  # of AdaGrad
    for t, each in enumerate(seen, start=1):
        loss = max(0.0, each.rho - float(w @ each.delta))
        primal += loss + (sigma / 2 * float(np.sum((w - base) ** 2)) if rule in SHRINKING else 0.0)
        pull = sum(
            (a * r.delta for a, r in zip(multipliers, seen, strict=False)), np.zeros(len(base))
        )
        strength = sigma * (t if rule in SHRINKING else 1)
        squared = (each.delta / each.cost) ** 2
        metric = eta + np.sqrt(square + squared) if rule == "adagrad" else np.ones(len(base))
        before = np.maximum(base + pull / (strength * metric), 0.0) if rule in CERTIFIED else w
        margin = each.rho - float(before @ each.delta)
        step, alpha = length(rule, t, margin, each.delta, sigma=sigma, eta=eta, metric=metric)
        if rule in CERTIFIED:
            multipliers.append(alpha)
            pull = pull + alpha * each.delta
            if rule == "adagrad":
                square = square + (squared if alpha else 0.0)
                metric = eta + np.sqrt(square)
            w = np.maximum(base + pull / (strength * metric), 0.0)
        else:
            w = np.maximum(w + step * each.delta, 0.0)
        total += w
        dual = strength / 2 * float(metric @ (w - base) ** 2) + sum(
            a * (r.rho - float(w @ r.delta)) for a, r in zip(multipliers, seen, strict=False)
        )
        steps.append(Step(w.copy(), total / t, loss, dual, primal - dual, margin))
    return steps


def rule_weights(rule: str, base: Vector, sigma: float = 0.1, **keys: Any) -> RuleWeights:
    lines = [f"{weight}: {text}\n" for weight, text in zip(base, RULE_TEXTS, strict=True)]
    return RuleWeights(
        reader.parse("".join([*lines, "P(X) + Q(X) <= 1 ."])), update_of(rule, sigma=sigma, **keys)
    )


def with_hard(delta: Vector) -> NDArray[np.float64]:
    return np.append(delta, 0.0)


rounds = st.lists(
    st.builds(
        Round,
        st.floats(0, 4).map(lambda x: round(x, 3)),
        st.lists(NUMBERS, min_size=3, max_size=3).map(np.array),
        st.sampled_from([1.0, 0.25, 8.0]),
    ),
    min_size=1,
    max_size=12,
)
bases = st.lists(st.sampled_from([0.0, 0.5, 2.0]), min_size=3, max_size=3).map(np.array)
sigmas = st.sampled_from([0.01, 0.1, 1.0])


MARGINS = [rule for rule in RULES if not UPDATES[rule].expects]
"""The rules that PSL takes: it refuses those that learn from expectations."""


@given(rounds, st.sampled_from(MARGINS), sigmas, bases)
def test_the_updates_are_the_textbooks(
    seen: list[Round], rule: str, sigma: float, base: Vector
) -> None:
    weights = rule_weights(rule, base, sigma)
    expected = projected([*asked(rule, seen)], rule, sigma, 1.0, base)
    for each, step in zip(seen, expected, strict=True):
        if rule == "adagrad" and step.undecided:
            break
        loss = weights.learn(each.rho, with_hard(each.delta), each.cost)
        size = 1.0 + float(np.max(np.abs(step.weights)))
        assert loss == pytest.approx(step.loss, rel=1e-12, abs=1e-12 * size)
        np.testing.assert_allclose(
            weights.current()[:3], step.weights, atol=1e-12 * size, rtol=1e-12
        )
        np.testing.assert_allclose(
            weights.averaged()[:3], step.average, atol=1e-12 * size, rtol=1e-12
        )
        assert weights.current()[3] == weights.averaged()[3] == 0.0
        found = weights.certificate()
        if rule in CERTIFIED:
            scale = 1.0 + abs(step.dual) + abs(step.bound) + size**2
            assert found["dual"] == pytest.approx(step.dual, rel=1e-12, abs=1e-12 * scale)
            assert found["regret_bound"] == pytest.approx(step.bound, rel=1e-12, abs=1e-12 * scale)
        else:
            assert found["dual"] is found["regret_bound"] is None


@pytest.mark.parametrize("rule", RULES)
def test_an_update_beyond_the_range_of_numbers_changes_nothing(rule: str) -> None:
    weights = rule_weights(rule, np.array([1.0, 1.0, 1.0]))
    weights.learn(1.0, np.array([1.0, -1.0, 0.5, 0.0]))
    before = {name: array.tobytes() for name, array in weights.save().items()}
    for rho, delta in ((1e300, 1e-200), (np.inf, 1.0), (np.nan, 1.0), (1.0, np.inf)):
        with np.errstate(all="ignore"):
            assert np.isnan(weights.learn(rho, np.array([delta, 0.0, 0.0, 0.0])))
        assert {name: array.tobytes() for name, array in weights.save().items()} == before


def test_weights_are_found_again_by_their_rules() -> None:
    weights = rule_weights("cda2", np.array([0.5, 0.0, 2.0]))
    for k in range(5):
        weights.learn(1.0 + k, np.array([1.0 / 3.0, -0.1, 0.7, 0.0]))
    again = rule_weights("cda2", np.array([1.0, 1.0, 1.0]))
    other = reader.parse("7: !Q(X)\n8: Q(X) -> P(X)\n")
    assert [rule.text for rule in again.start(other)] == ["8: Q(X) -> P(X)"]
    np.testing.assert_array_equal(again.base, [1.0, 1.0, 7.0, 0.0])
    assert again.start(weights.trained()) == []
    np.testing.assert_array_equal(again.averaged(), weights.averaged())
    twice = RuleWeights(reader.parse("1: !Q(X)\n1: !Q(X)\n"), Cda2())
    assert twice.start(reader.parse("2: !Q(X)\n3: !Q(X)\n")) == []
    np.testing.assert_array_equal(twice.base, [2.0, 3.0])


@pytest.mark.parametrize("rule", ["cda1", "cda2", "pa1", "adagrad"])
@given(rounds, st.lists(st.integers(0, 2), min_size=12, max_size=12), sigmas, bases, bases)
def test_an_examples_part_of_the_dual_is_moved(
    rule: str, seen: list[Round], names: list[int], sigma: float, base: Vector, other: Vector
) -> None:
    """The dual never falls then, and is below the loss of any weights; the mean has each example once."""
    weights = rule_weights(rule, base, sigma, replay=ReplaySection())
    blocks: dict[int, DualBlock] = {}
    cuts: list[tuple[int, float, Vector]] = []
    after: list[Vector] = []
    for each, name in zip(asked(rule, seen), names, strict=False):
        cuts.append((name, each.rho, each.delta))
        again, before = name in blocks, weights.certificate()["dual"]
        weights.dual_block = blocks.get(name, NO_DUAL)
        rho = each.rho**2 if rule == "pa1" else each.rho
        assert not np.isnan(weights.learn(rho, with_hard(each.delta), again=again))
        blocks[name] = weights.dual_block
        after[len(after) - again :] = [weights.current()[:3]]
        assert weights.updates == len(blocks) == len(after)
        np.testing.assert_allclose(weights.averaged()[:3], np.mean(after, axis=0), atol=1e-9)
        dual = weights.certificate()["dual"]
        assert dual is not None
        assert not again or before is None or dual >= before - 1e-9 * max(1.0, abs(before))
        metric = np.broadcast_to(weights.update.metric(weights.optimizer_state), 4)[:3]
        strength = sigma * (len(blocks) if rule == "cda2" else 1)
        for w in (weights.current()[:3], base, other):
            losses = (
                max([0.0, *(r - float(w @ delta) for n, r, delta in cuts if n == name)])
                for name in blocks
            )
            least = sum(losses) + strength / 2 * float(metric @ (w - base) ** 2)
            assert dual <= least + 1e-9 * max(1.0, abs(least))
