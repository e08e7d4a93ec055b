"""Merged learning: the dual is greatest along the shards' sum, averages are of all vectors, names decide."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from onlinesrl.core.example import Example
from onlinesrl.mln.online import merging as mln_merging
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.psl.lang.reader import parse
from onlinesrl.psl.online import merging as psl_merging
from onlinesrl.psl.online.learner import PslOnlineLearner
from onlinesrl.psl.online.rule_weights import RuleWeights
from tests.support import small_learners, trust_program
from tests.support.small_learners import update_of

SHARES = np.linspace(0.0, 1.0, 9)
DUAL = ("cda1", "cda2", "simple", "subgradient", "pa1", "adagrad")


def mln(update: str) -> MlnOnlineLearner:
    return small_learners.new_learner(update)


def psl(update: str) -> PslOnlineLearner:
    return trust_program.soft(parse(trust_program.MODEL), ["Trusts"], update_of(update, sigma=0.1))


def gained(new: Any, update: str, state: Any, examples: Sequence[Example]) -> Any:
    """What a learner of its own gains from a shard."""
    learner = new(update)
    learner.restore(*state)
    learner.step(examples)
    return learner.gain(state)


def rounds(
    new: Any, update: str, shards: Sequence[Sequence[Example]], by_dual: bool, size: int = 4
) -> Any:
    """Learn from shards in rounds; return the learner and the gammas."""
    learner, shares = new(update), []
    for first in range(0, max(map(len, shards)), size):
        state = learner.save()
        parts = [shard[first : first + size] for shard in shards]
        gains = [gained(new, update, state, part) for part in parts if part]
        shares.append(learner.merge(gains, by_dual))
    return learner, shares


def cases(*updates: str) -> list[tuple[Any, str]]:
    """Every update of Markov logic, and two of PSL."""
    return [*((mln, update) for update in updates), (psl, "cda2"), (psl, "adagrad")]


EXAMPLES = {mln: small_learners.examples(24, seed=3, words=12), psl: trust_program.examples(12)}


@pytest.mark.parametrize(("new", "update"), cases(*DUAL))
def test_the_dual_is_greatest_at_the_share(
    new: Any, update: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merges by any other share, from the same state, have a dual that is no greater."""
    examples = EXAMPLES[new]
    shards = [examples[n::3] for n in range(3)]
    learner, _ = rounds(new, update, [shard[:2] for shard in shards], by_dual=True)
    state = deepcopy(learner.save())
    gains = [gained(new, update, state, shard[2:5]) for shard in shards]
    best = learner.merge(gains, by_dual=True)
    module = mln_merging if new is mln else psl_merging

    def dual(share: float) -> float:
        monkeypatch.setattr(module, "mean_share", lambda *_: share)
        other = new(update)
        other.restore(*state)
        other.merge(gains, by_dual=False)
        return float(other.certificate()["dual"])

    found = [dual(share) for share in SHARES]
    assert dual(best) == learner.certificate()["dual"] >= max(found) - 1e-9
    assert 0.0 <= best <= 1.0


@pytest.mark.parametrize("update", DUAL)
def test_the_dual_is_below_the_regularised_loss_of_fixed_weights(
    update: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all weights w >= 0 that were tried, on the losses of all shards' own rivals."""
    seen: list[tuple[float, Any]] = []
    step = RuleWeights.learn

    def spied(weights: RuleWeights, rho: float, delta: Any, cost: float, again: bool) -> float:
        seen.append((weights.update.required(rho), delta))
        return step(weights, rho, delta, cost, again)

    monkeypatch.setattr(RuleWeights, "learn", spied)
    learner, _ = rounds(psl, update, [EXAMPLES[psl][n::3] for n in range(3)], by_dual=True, size=2)
    weights = learner.weights
    assert len(seen) == weights.updates == 12
    metric = weights.update.metric(weights.optimizer_state, np.zeros(len(weights.base)))
    strength = 0.1 * (12 if weights.update.shrinks else 1)

    def primal(w: Any) -> float:
        losses = [max(0.0, rho - float(w @ delta)) for rho, delta in seen]
        length = float(np.sum(metric * (w - weights.base) ** 2))
        return strength / 2 * length + sum(losses)

    rng = np.random.default_rng(0)
    tried = [weights.current(), weights.averaged(), weights.base]
    tried += [np.maximum(w + rng.normal(0, 0.5, len(w)), 0.0) for w in tried for _ in range(100)]
    assert learner.certificate()["dual"] <= min(map(primal, tried)) + 1e-9


@pytest.mark.parametrize(
    ("new", "update"), cases("cda1", "cda2", "mira", "perceptron", "adagrad", "second-order")
)
def test_one_shard_alone_is_learned_as_without_rounds(new: Any, update: str) -> None:
    """Where all of every round is kept, as the mean of one shard is; PSL's rivals to a tolerance."""
    examples = EXAMPLES[new]
    merged, shares = rounds(new, update, [examples], by_dual=False)
    whole = new(update)
    whole.step(examples)
    assert shares == [1.0] * len(shares)
    np.testing.assert_allclose(
        average(merged), average(whole), rtol=0, atol=1e-9 if new is mln else 1e-3
    )


def average(learner: Any) -> Any:
    found = learner.weights.averaged()
    if isinstance(learner, PslOnlineLearner):
        return found
    return np.array([w for _, (w, _) in sorted(small_learners.named(learner.weights).items())])


@pytest.mark.parametrize("update", ["perceptron", "cda1", "adagrad"])
def test_averages_are_over_the_vectors_of_all_shards(update: str) -> None:
    """Averaged, of a first round, by hand: what each shard's learner averaged, as if gamma were 1."""
    examples = EXAMPLES[mln]
    shards = [examples[n::2][:4] for n in range(2)]
    learner, _ = rounds(mln, update, shards, by_dual=False)
    alone = []
    for shard in shards:
        one = mln(update)
        one.step(shard)
        alone.append(small_learners.named(one.weights))
    named = small_learners.named(learner.weights)
    both = {*alone[0]} & {*alone[1]}
    assert len(both) > 10
    for name in both:
        mean = np.mean([each[name][0] for each in alone])
        assert named[name][0] == pytest.approx(mean, abs=1e-9)


def test_constants_are_numbered_by_the_order_of_shards() -> None:
    """A word that two shards meet is one weight; shards in another process know other numbers."""
    examples = EXAMPLES[mln]
    shards = [examples[:6], examples[4:10]]
    learner, _ = rounds(mln, "cda1", shards, by_dual=True, size=6)
    again, _ = rounds(mln, "cda1", shards, by_dual=True, size=6)
    assert small_learners.state(learner) == small_learners.state(again)
    words = [name for name in small_learners.named(learner.weights) if "word" in str(name)]
    assert len(words) == len({*words}) > 10
    predictions = [outcome.prediction for outcome in learner.predict(examples)]
    assert all(predictions)
