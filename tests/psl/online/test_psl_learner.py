"""The learner of PSL programs: what it predicts and learns, from which rivals, and what it refuses."""

from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.example import Example, ValuedAtom, decode
from onlinesrl.core.learner import Prediction
from onlinesrl.core.online.update_rules import Cda1, Cda2
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.lang import reader
from onlinesrl.psl.online.learner import PslInference, PslOnlineLearner
from onlinesrl.psl.online.rule_weights import RuleWeights
from onlinesrl.runs.summary import weights_text
from tests.support.golden import check
from tests.support.small_learners import state
from tests.support.textbook_updates import RULES
from tests.support.trust_program import GOOD, MODEL, examples, learn, new_learner, soft

BAD = Path(__file__).parent / "golden" / "examples.txt"


def test_a_bad_example_says_why_and_changes_nothing() -> None:
    learner = new_learner()
    learn(learner, examples(10))
    before = state(learner)

    def step(changes: str) -> str:
        bad = decode(msgspec.json.encode({**GOOD, **eval(changes)}))
        [outcome], tally = learner.step([bad])
        assert outcome.prediction is None
        assert not outcome.unsolved
        assert tally.predicted == tally.labelled == sum(tally.counts) == tally.l1 == 0
        assert state(learner) == before
        [(kind, count)] = tally.errors.items()
        assert count == 1
        return f"{kind}: {outcome.error}"

    check(BAD, step)


def test_too_many_atoms_and_too_many_ground_rules_are_bad() -> None:
    for limit, kind in (({"max_atoms": 11}, "limit"), ({"max_groundings": 5}, "limit")):
        learner = new_learner(**limit)
        _, tally = learner.step(examples(3))
        assert tally.errors == {kind: 3}


def test_learning_beats_the_weights_it_starts_with() -> None:
    def error(learner: PslOnlineLearner) -> float:
        metrics = Metrics()
        metrics.add(learner.step(examples(30, seed=1), learning=False)[1], 30)
        return float(metrics.snapshot()["mae"])

    untrained = error(new_learner())
    assert untrained > 0.2
    for update in RULES:
        learner = new_learner(update)
        outcomes = learn(learner, examples(60))
        assert all(each.prediction.certified for each in outcomes)
        assert error(learner) < 0.7 * untrained, update
        assert np.all(learner.weights.current() >= 0)


# one step ------------------------------------------------------------------------------------------


class Watched:
    """An engine that keeps what it was asked and what it said."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def solve(self, model: Any, weights: Any, *, bonus: Any = None, start: Any = None) -> Any:
        found = Admm(tolerance=1e-8).solve(model, weights, bonus=bonus, start=start)
        self.seen.append((model, weights.copy(), bonus, found))
        return found


@pytest.mark.parametrize(("missed", "extra"), [(1.0, 1.0), (2.0, 0.5)])
@pytest.mark.parametrize(("loss", "label_loss"), [("ml", None), ("pl", None), ("pl", "f1")])
def test_the_step_is_from_the_truth_to_the_rival(
    loss: str, label_loss: Any, missed: float, extra: float
) -> None:
    """Prediction by averaged, rival by current weights; features and losses as in the definitions."""
    engine = Watched()
    program = reader.parse(MODEL)
    costs = {"Trusts": {"missed": missed, "extra": extra}}
    update = Cda1(loss=loss, sigma=0.1, costs=costs, label_loss=label_loss)
    learner = soft(program, ["Trusts"], update, PslInference(engine))
    other = RuleWeights(program, Cda1(loss=loss, sigma=0.1))
    for example in examples(8):
        engine.seen.clear()
        average, current = other.averaged().copy(), other.current().copy()
        [outcome], tally = learner.step([example])
        (model, used, none, predicted), (_, weights, bonus, rival) = engine.seen
        truth = dense_truth(example)
        np.testing.assert_allclose(used, average, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(weights, current, rtol=1e-12, atol=1e-12)
        assert none is None
        score = -model.energy(predicted.y, average)
        assert outcome.prediction.score == pytest.approx(score, rel=1e-9, abs=1e-9)
        if loss == "ml":
            np.testing.assert_allclose(bonus, (1 - truth) * extra - truth * missed, atol=1e-12)
        else:
            assert bonus is None
        wrong = np.abs(rival.y - truth)
        rho = np.sum(wrong * np.where(rival.y < truth, missed, extra))
        cost = rho / np.sum(wrong) if np.any(wrong) else 1.0
        if label_loss == "f1":
            both = np.sum(np.minimum(truth, rival.y))
            rho /= np.sum(np.maximum(truth, rival.y)) + both
            if missed == extra:
                assert rho == pytest.approx(1 - 2 * both / (np.sum(rival.y) + np.sum(truth)))
        gap = model.energy(truth, current) - model.energy(rival.y, current)
        other.learn(rho, gaps(model, truth, rival.y), cost)
        assert rho + gap >= -1e-6
        values = [a.value for a in outcome.prediction.predicted["Trusts"]]
        np.testing.assert_allclose(values, predicted.y, atol=5.1e-7)
        error = np.sum(np.abs(np.round(predicted.y, 6) - truth))
        assert outcome.prediction.l1 == pytest.approx(error, abs=1e-9)
        assert tally.l1 == round(outcome.prediction.l1 * 1e6)
        assert outcome.prediction.hamming == np.sum((predicted.y > 0.5) != (truth > 0.5))
    for name, array in other.save().items():
        np.testing.assert_allclose(learner.weights.save()[name], array, rtol=1e-12, atol=1e-12)


def test_current_weights_predict_where_asked() -> None:
    engine = Watched()
    update = Cda1(loss="pl", sigma=0.1, predict="current")
    learner = soft(reader.parse(MODEL), ["Trusts"], update, PslInference(engine))
    for example in examples(8):
        engine.seen.clear()
        learner.step([example])
        (_, predicted, _, _), (_, rival, _, _) = engine.seen
        np.testing.assert_array_equal(predicted, rival)
    weights = [entry.weight for entry in learner.weights.entries()]
    np.testing.assert_array_equal(weights, learner.weights.current()[: len(weights)])


def dense_truth(example: Example) -> Any:
    assert example.query is not None
    assert example.truth is not None
    true = {tuple(atom.args): atom.value for atom in example.truth["Trusts"]}  # type: ignore[union-attr]
    return np.array([true.get(tuple(args), 0.0) for args in example.query["Trusts"]])  # type: ignore[arg-type]


def gaps(model: Any, truth: Any, rival: Any) -> Any:
    """f(truth) - f(rival) with f = -Phi."""
    return model.totals(rival, 5) - model.totals(truth, 5)


def test_the_rival_is_the_worst_of_all_values() -> None:
    """With a truth of 0 and 1: loss plus score of the rival is the most of a grid of values."""
    engine = Watched()
    program = reader.parse(
        "2: P(X) -> Q(X)\n1: Q(X) -> R(X) ^2\n0.3: !Q(X) ^2\nQ('a') + R('a') <= 1.5 ."
    )
    learner = soft(program, ["Q", "R"], inference=PslInference(engine))
    text = (
        b'{"id": 1, "evidence": {"P": [{"args": ["a"], "value": 0.6}]}, '
        b'"query": {"Q": [["a"]], "R": [["a"]]}, "truth": {"R": [["a"]]}}'
    )
    learner.step([decode(text)])
    model, weights, _, rival = engine.seen[1]
    truth = np.array([0.0, 1.0])

    def worth(y: Any) -> float:
        return float(np.sum(np.abs(np.array(y) - truth)) - model.energy(np.array(y), weights))

    grid = np.linspace(0, 1, 101)
    best = max(worth(y) for y in product(grid, grid) if sum(y) <= 1.5)
    assert worth(rival.y) == pytest.approx(best, abs=4e-3)
    assert worth(rival.y) >= best - 1e-6


# what is said --------------------------------------------------------------------------------------


def test_an_example_without_truth_is_predicted_and_not_learned_from() -> None:
    learner = new_learner()
    [outcome], tally = learner.step([msgspec.structs.replace(examples(1)[0], truth=None)])
    assert isinstance(outcome.prediction, Prediction)
    assert (outcome.prediction.hamming, outcome.prediction.l1) == (None, None)
    assert (tally.labelled, tally.predicted, learner.weights.updates) == (0, 1, 0)


def test_arguments_are_given_back_as_they_came_and_each_target_once() -> None:
    text = (
        b'{"id": "x", "group": "g", "evidence": {"Knows": [[1, "2"]], "Fair": [[2]]}, '
        b'"query": {"Trusts": [["1", 2], [1, "2"], [2, 1]]}, "truth": {"Trusts": [[1, 2]]}}'
    )
    [outcome], tally = new_learner().step([decode(text)])
    assert outcome.prediction is not None
    assert [atom.args for atom in outcome.prediction.predicted["Trusts"]] == [["1", 2], [2, 1]]
    assert outcome.prediction.group == "g"
    assert tally.counts[3] == 2
    assert set(tally.by_class) == {"1", "2"}
    again = msgspec.json.decode(msgspec.json.encode(outcome.prediction), type=Prediction)
    assert again == outcome.prediction


def test_counts_are_those_of_values_above_one_half() -> None:
    learner = new_learner()
    metrics = Metrics()
    counts, wrong = np.zeros(4, int), 0.0
    for example in examples(20):
        [outcome], tally = learner.step([example])
        metrics.add(tally, 1)
        said = np.array([a.value for a in outcome.prediction.predicted["Trusts"]])
        truth = dense_truth(example)
        hits = np.sum((said > 0.5) & (truth > 0.5))
        counts += [hits, np.sum(said > 0.5), np.sum(truth > 0.5), len(said)]
        wrong += np.sum(np.abs(said - truth))
    found = metrics.snapshot()
    assert found["precision"] == pytest.approx(counts[0] / counts[1])
    assert found["recall"] == pytest.approx(counts[0] / counts[2])
    assert found["mae"] == pytest.approx(wrong / counts[3], rel=1e-12)
    assert sum(scores["support"] for scores in found["by"].values()) == counts[2]
    assert Metrics.restore(metrics.save()).snapshot() == found


def test_where_inference_ends_without_proof_nothing_is_learned() -> None:
    fallen, skipping = new_learner(rounds=10), new_learner(rounds=10, fallback=False)
    seen = examples(12)
    outcomes, tally = fallen.step(seen)
    assert all(each.prediction for each in outcomes)
    unproven = sum(not each.prediction.certified for each in outcomes if each.prediction)
    assert 0 < unproven <= tally.unsolved
    assert fallen.weights.updates == 12 - tally.unsolved
    assert tally.certified == 12 - unproven
    outcomes, tally = skipping.step(seen)
    assert tally.unsolved == tally.errors["unsolved"] == sum(each.unsolved for each in outcomes) > 0
    assert skipping.weights.updates == 12 - tally.unsolved


def test_a_truth_with_few_digits_satisfies_a_hard_rule() -> None:
    program = reader.parse("1: Q(X, Y) -> P(X, Y)\nP(X, +Y) = 1 .")
    learner = soft(program, ["P"])
    thirds = [["a", c] for c in "xyz"]
    for value, errors in ((0.3333, {}), (0.33, {"hard_rule": 1})):
        truth = {"P": [ValuedAtom(args, value) for args in thirds]}
        example = Example(id=1, evidence={"Q": [["a", "x"]]}, query={"P": thirds}, truth=truth)
        assert learner.step([example])[1].errors == errors


def test_hard_rules_without_a_solution_make_an_example_bad() -> None:
    program = reader.parse("1: Q(X) -> P(X)\nP(X) + Q(X) = 1 .\nP(X) - Q(X) = 1 .")
    learner = soft(program, ["P"])
    evidence = {"Q": [ValuedAtom(["a"], 0.5)]}
    [outcome], tally = learner.step([Example(id=1, evidence=evidence, query={"P": [["a"]]})])
    assert outcome.prediction is None
    assert tally.errors in ({"infeasible": 1}, {"hard_rule": 1})


def test_a_weights_file_says_what_was_learned() -> None:
    learner, again = new_learner(), new_learner()
    learn(learner, examples(20))
    program = reader.parse(weights_text(learner), "weights.psl")
    assert again.weights.start(program) == []
    np.testing.assert_array_equal(again.weights.averaged(), learner.weights.averaged())
    assert [rule.weight is None for rule in program.rules] == [False] * 4 + [True]
    trained = soft(program, ["Trusts"], by=("Trusts", 1))
    held_out = examples(10, seed=2)
    assert trained.step(held_out, learning=False)[0] == learner.step(held_out, learning=False)[0]


def test_rules_of_equal_text_are_told_apart():
    program = reader.parse("1: !Trusts(A, B) ^2\n3: !Trusts(A, B) ^2")
    entries = list(RuleWeights(program, Cda2()).entries())
    assert len({(each.text, each.key) for each in entries}) == 2


def test_a_hard_rule_that_the_model_does_not_have_is_unmatched():
    weights = RuleWeights(reader.parse("1: !Trusts(A, B)\nTrusts(A, B) <= 0.9 ."), Cda2())
    other = reader.parse("2: !Trusts(A, B)\nTrusts(A, B) <= 0.9 .\nTrusts(A, B) <= 0.1 .")
    assert [rule.position.line for rule in weights.start(other)] == [3]
    assert weights.base.tolist() == [2.0, 0.0]
