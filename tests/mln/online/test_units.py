"""Units of numbers change weights and no prediction; outliers and numbers that grow break nothing."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from onlinesrl.core.example import Example, decode
from onlinesrl.core.online.reservoir import ReplaySection
from onlinesrl.core.online.update_rules.rule import UNITS
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.lang import reader
from onlinesrl.mln.online.learner import MlnOnlineLearner
from tests.support.small_learners import online, state, update_of
from tests.support.textbook_updates import RULES, Round, Step, minimiser, objective, textbook
from tests.support.units import Units

MODEL = "Value(x, name): real\nFraud(x)\n{start} Fraud(x)\n{rule} Value(x, +n) ^ Fraud(x)\n"
NAMES = "a", "b", "constant"
TOLD = [rule for rule in RULES if rule != "cd"]  # by no chance


def new(rule: str, own: float = 0.0, **keys: Any) -> MlnOnlineLearner:
    text = MODEL.format(start=0.5, rule=own)
    return online(compile_program(reader.parse(text, "m.mln"), ["Fraud"]), update_of(rule, **keys))


def numbers(count: int = 120) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Two numbers that tell the label by their sum, and a constant: float64[example, 3]."""
    values = np.full((count, 3), 2.0)
    values[:, :2] = np.random.default_rng(1).normal(size=(count, 2))
    return values


def stream(values: Any, told_by: Any = None) -> list[Example]:
    """Examples of these numbers, with the labels that ``told_by`` tells."""
    labels = np.sum((values if told_by is None else told_by)[:, :2], axis=1) > 0.0
    made = []
    for t, (row, label) in enumerate(zip(values.tolist(), labels, strict=True)):
        atoms = [{"args": ["t", n], "value": x} for n, x in zip(NAMES, row, strict=True)]
        line = {"id": t, "evidence": {"Value": atoms}, "truth": {"Fraud": [["t"]] if label else []}}
        made.append(decode(msgspec.json.encode(line)))
    return made


def predicted(learner: MlnOnlineLearner, examples: Sequence[Example]) -> list[bool]:
    outcomes, _ = learner.step(examples)
    assert [o.error for o in outcomes if o.prediction is None] == []
    return [bool(o.prediction.predicted["Fraud"]) for o in outcomes if o.prediction is not None]


def right(learner: MlnOnlineLearner, values: Any, told_by: Any) -> float:
    """The share of the last hundred labels that is predicted."""
    examples = stream(values, told_by)
    truth = np.array([bool(e.truth and e.truth["Fraud"]) for e in examples])
    return float(np.mean((np.array(predicted(learner, examples)) == truth)[-100:]))


def units(learner: MlnOnlineLearner) -> dict[str, float]:
    """The unit of each rule instance, by its constant."""
    weights = learner.weights
    return {key[0]: weights.units()[n] for n, _, key in weights.numbered() if key}


@pytest.mark.parametrize("rule", ["cda1", "cda2", "mira", "subgradient", "adagrad"])
@pytest.mark.parametrize("own", [0.0, 0.25])
def test_weights_are_those_of_the_textbook_in_units(rule: str, own: float) -> None:
    """Gaps and margins divided by units, and by what an outlier exceeds; weights, by the last units."""
    values = numbers(40) * [30.0, 1.0, 1e-4]
    values[20:, 1] *= 1e3
    values[10, 0] = 1e6
    learner = new(rule, own, sigma=0.1, eta=1.0)
    base, scale = np.array([0.5, own, own, own]), Units(4)
    rounds: list[Round] = []
    last: Step | None = None
    for x, example in zip(values, stream(values, numbers(40)), strict=True):
        features = np.array([1.0, *x])
        w = np.zeros(4) if last is None else last.weights / scale.scale
        # the subgradient's loss is augmented: the rival is the label that is wrong, or best by 1
        score, truth = float((base + w) @ features), bool(example.truth and example.truth["Fraud"])
        margin = 1.0 if rule == "subgradient" else 0.0
        rival = score + (margin if not truth else -margin) > 0.0
        gap = (float(truth) - float(rival)) * features
        counted = scale.counted(features)
        share = float(np.min((counted / np.abs(features))[gap != 0.0], initial=1.0))
        start = (base * scale.unit) @ (gap / scale.unit) * share  # whatever units will be
        rounds.append(Round(float(rival != truth) * share - start, gap / scale.unit * share))
        last = [*textbook(rounds, rule, 0.1, 1.0, np.zeros(4))][-1]
        predicted(learner, [example])
        scale.note(counted)
    assert last is not None
    named = {key: n for n, _, key in learner.weights.numbered()}
    order = [named[()], *(named[(name,)] for name in NAMES)]
    np.testing.assert_allclose(learner.weights.units()[order], scale.unit)
    expected = base + last.average / scale.unit
    np.testing.assert_allclose(learner.weights.averaged()[order], expected, rtol=1e-8)
    if rule in {"cda1", "cda2", "subgradient", "adagrad"}:
        certificate = learner.certificate()
        assert certificate["dual"] == pytest.approx(last.dual, rel=1e-8)
        assert certificate["regret_bound"] == pytest.approx(last.bound, rel=1e-8)


@pytest.mark.parametrize("rule", TOLD)
def test_units_change_no_prediction(rule: str) -> None:
    plain, values = new(rule), numbers()
    expected = np.array(predicted(plain, stream(values)))
    for k in (-6, -1, 3, 6):
        other = new(rule)
        same = predicted(other, stream(values * [10.0**k, 1.0, 1.0], values)) == expected
        assert np.mean(same) >= 0.99
        assert units(other) == pytest.approx({"a": 10.0**k, "b": 1.0, "constant": 1.0})


def test_contrastive_divergence_learns_numbers_of_any_unit() -> None:
    values = numbers(200)
    for unit in (1e-6, 1.0, 1e6):
        assert right(new("cd"), values * [unit, 1.0, 1.0], values) > 0.9


@pytest.mark.parametrize("rule", TOLD)
def test_an_outlier_is_soon_forgotten(rule: str) -> None:
    values, wild = numbers(300), numbers(300)
    wild[100, 0], wild[150, 1] = 1e6, -1e9
    learner = new(rule)
    assert right(learner, wild, values) > 0.85
    assert units(learner) == {"a": 1.0, "b": 1.0, "constant": 1.0}


@pytest.mark.parametrize("rule", TOLD)
def test_numbers_that_grow_by_a_million_break_nothing(rule: str) -> None:
    values, grown = numbers(600), numbers(600)
    grown[300:, 0] *= 1e6
    learner = new(rule)
    assert right(learner, grown, values) > 0.85
    assert units(learner)["a"] == pytest.approx(1e6)


@pytest.mark.parametrize("rule", ["cda1", "subgradient", "adagrad", "log-likelihood", "cd"])
@pytest.mark.parametrize("replay", [False, True])
def test_a_restored_learner_goes_on_with_the_same_bits(rule: str, replay: bool) -> None:
    if replay and rule == "subgradient":
        rule = "pa1"  # the subgradient has no replay
    keys = {"replay": ReplaySection(examples=3)} if replay else {}
    values = numbers(80)
    values[40:, 0] *= 1e6
    whole, first, second = (new(rule, 0.25, **keys) for _ in range(3))
    predicted(whole, stream(values))
    predicted(first, stream(values)[:51])
    second.restore(*first.save())
    predicted(second, stream(values)[51:])
    assert state(second) == state(whole)


@pytest.mark.parametrize("rule", ["cda1", "cda2"])
def test_the_dual_is_below_the_batch_optimum_in_units(rule: str) -> None:
    """The max-margin objective of all examples in units; with replay the dual comes nearer."""
    values, duals = numbers(100), []
    examples = stream(values * [1e4, 1.0, 1e-3], values)
    for keys in ({}, {"replay": ReplaySection(examples=5)}):
        learner = new(rule, sigma=0.1, **keys)
        predicted(learner, examples)
        assert units(learner) == pytest.approx({"a": 1e4, "b": 1.0, "constant": 1e-3})
        duals.append(learner.certificate()["dual"])
    rounds, base, metric = [], np.array([0.5, 0.0, 0.0, 0.0]), np.ones(4)
    for x, example in zip(values, examples, strict=True):
        sign = 1.0 if example.truth and example.truth["Fraud"] else -1.0
        rounds.append(Round(1.0, sign * np.array([1.0, *x])))
    best = minimiser(rounds, rule, 0.1, base, metric)
    optimum = objective(rounds, rule, 0.1, base, best, metric)
    assert duals[0] < duals[1] <= optimum + 1e-9


@pytest.mark.parametrize("rule", ["subgradient", "simple", "log-likelihood"])
def test_a_refused_example_leaves_no_trace(rule: str) -> None:
    """Its update overflows, whether its weights have been used before or not."""
    wild, refused = np.array([[-50.0, 1.0, 1e9]]), 0
    for before in (0, 20):
        learner = new(rule)
        predicted(learner, stream(numbers(before)))
        for label in (-1.0, 1.0):  # one of them is no mistake
            bold = new(rule, sigma=1e-200)
            bold.restore(*learner.save())
            outcomes, _ = bold.step(stream(wild, np.full((1, 2), label)))
            if "overflows" not in str(outcomes[0].error):
                continue
            refused += 1
            seen, now = (state(one)[1] for one in (learner, bold))
            added = len(bold.weights) - len(learner.weights)
            assert added == (0 if before else 3)
            for name in UNITS:
                assert now[name][2] == seen[name][2] + bytes(8 * added)
    assert refused >= 2


@pytest.mark.parametrize("rule", ["cda1", "mira", "adagrad"])
def test_units_of_shards_are_merged(rule: str) -> None:
    """One shard alone learns as without rounds; of two, each weight has the larger unit."""
    values = numbers()
    values[60:, 0] *= 1e6
    examples = stream(values)
    whole, merged = new(rule), new(rule)
    predicted(whole, examples)
    for n in range(0, len(examples), 20):
        start, shard = merged.save(), new(rule)
        shard.restore(*start)
        predicted(shard, examples[n : n + 20])
        merged.merge([shard.gain(start)], by_dual=False)
    np.testing.assert_allclose(merged.weights.averaged(), whole.weights.averaged(), rtol=1e-6)
    np.testing.assert_allclose(merged.weights.units(), whole.weights.units())
    start, gains = new(rule).save(), []
    for part in (examples[:20], examples[100:]):
        shard = new(rule)
        shard.restore(*start)
        predicted(shard, part)
        gains.append(shard.gain(start))
    both = new(rule)
    both.merge(gains, by_dual=False)
    assert units(both)["a"] == pytest.approx(1e6)


def test_a_large_number_that_cancels_hides_no_small_one() -> None:
    """Rounding errors are those of each weight's own numbers."""
    text = (
        "Value(x, name): real\nHint(x): real\nFraud(x)\n"
        "-0.5 Fraud(x)\n0.0 Value(x, +n) ^ Fraud(x)\n100000.0 Hint(x) ^ Fraud(x)\n"
    )
    plan = compile_program(reader.parse(text, "m.mln"), ["Fraud"])
    learner = online(plan, update_of("mira"))
    values = ("p", "large", 1e12), ("q", "large", 1e12), ("p", "small", 1e-6)
    atoms = [{"args": [x, n], "value": value} for x, n, value in values]
    evidence = {"Value": atoms, "Hint": [{"args": ["q"], "value": 1e-5}]}
    line = {"id": 0, "evidence": evidence, "truth": {"Fraud": [["p"]]}}
    predicted(learner, [decode(msgspec.json.encode(line))])
    learned = {key: learner.weights.averaged()[n] for n, _, key in learner.weights.numbered()}
    assert learned[("small",)] > 0.0
    assert learned[("large",)] == 0.0
