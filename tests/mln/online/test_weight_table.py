"""The weight table: growth, dropping, names, and going on from what was saved, bit for bit."""

from collections.abc import Iterable

import pytest

from onlinesrl.core.example import Example
from onlinesrl.core.kernels.averaging import NORM
from onlinesrl.mln.ground import model_weights
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.lang import reader
from onlinesrl.mln.online.weight_table import WeightTable
from onlinesrl.runs.summary import heaviest, weights_text
from tests.support.small_learners import (
    MODEL,
    examples,
    learn,
    named,
    new_learner,
    online,
    state,
    update_of,
)


def test_predicting_adds_nothing() -> None:
    learner = new_learner()
    learn(learner, examples(5))
    before = state(learner)
    strange = examples(5, seed=1, words=10**6)
    unlabelled = [Example(id=e.id, evidence=e.evidence) for e in strange]
    learner.step(strange, learning=False)
    learner.step(unlabelled)
    header, arrays = state(learner)
    assert (dict(header, seen=0), arrays) == (dict(before[0], seen=0), before[1])


@pytest.mark.parametrize("most", [40, 100, 250, 400])
def test_dropping_keeps_the_strongest_with_name_and_value(most: int) -> None:
    learner = new_learner("cda1")
    learn(learner, examples(80))
    weights = learner.weights
    before, size = named(weights), len(weights)
    gone = weights.drop_least(most)
    after = named(weights)
    assert gone == size - len(weights) == len(before) - len(after) == weights.dropped > 0
    assert 0.9 * most - 4 <= len(weights) <= 0.9 * most
    assert after.items() <= before.items()

    default = {c.text: c.weight or 0.0 for c in weights.clauses}

    def strength(names: Iterable[tuple[str, tuple[str, ...]]]) -> list[float]:
        blocks: dict[tuple[str, tuple[str, ...]], float] = {}
        for text, key in names:
            if "Token" in text:
                weight, uses = before[text, key]
                block = (text, key[:-1])
                influence = abs(weight - default[text]) * max(1, uses)
                blocks[block] = max(blocks.get(block, 0.0), influence)
        return sorted(blocks.values())

    lost, kept = strength(before.keys() - after.keys()), strength(after)
    assert not kept or lost[-1] <= kept[0]
    learned = weights.arrays.value[: len(weights), 1]
    assert weights.scalar[NORM] == pytest.approx(float(learned @ learned), rel=1e-12)


def test_of_equally_weak_weights_the_oldest_are_dropped() -> None:
    weights = new_learner().weights
    words = [c.rule for c in weights.clauses].index(1)
    for number in range(60):
        weights.set(words, (f"word {number}", "a"), 0.75)
    weights.set(words, ("word 3", "a"), -1.0)
    assert weights.drop_least(40) > 0
    kept = sorted({e.key[0] for e in weights.entries() if e.clause.rule == 1})
    left = (len(weights) - weights.reserved) // 2
    assert kept == sorted(["word 3", *(f"word {n}" for n in range(61 - left, 60))])


def test_dropped_weights_come_back_as_new_ones() -> None:
    learner, seen = new_learner("cda1"), examples(60)
    learn(learner, seen)
    learner.weights.drop_least(40)
    kept = named(learner.weights)
    learner.step(seen[:1])
    fresh = [e for e in learner.weights.entries() if (e.clause.text, e.key) not in kept]
    assert fresh
    assert all(e.uses <= 1 for e in fresh)


def test_constants_without_weights_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words come and go, and nothing else is changed by forgetting those that have gone."""
    seen = [e for turn in range(10) for e in examples(60, seed=turn, words=100 * (turn + 1))]
    forgetful = new_learner("cda2", 150)
    predictions = learn(forgetful, seen)
    counts = [len(domain.names) for domain in forgetful.weights.stream.values()]
    monkeypatch.setattr(WeightTable, "forget_constants", lambda self, shown: None)
    never = new_learner("cda2", 150)
    assert learn(never, seen) == predictions
    assert named(never.weights) == named(forgetful.weights)
    assert [*named(never.weights)] == [*named(forgetful.weights)]
    all_words = {word for e in seen for word, _ in e.evidence["Token"]}
    assert sum(len(domain.names) for domain in never.weights.stream.values()) > len(all_words)
    assert sum(counts) < 150 + 2 + 8 * 5 < len(all_words)


def test_the_room_at_first_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether weights or hash slots run out, or neither; nor where a checkpoint is restored."""
    found = []
    for room, slots in ((8, 4), (8, 1 << 13), (1 << 16, 4), (1 << 16, 1 << 13)):
        monkeypatch.setattr(model_weights, "ROOM", room)
        monkeypatch.setattr(model_weights, "SLOTS", slots)
        learner, again = new_learner("adagrad"), new_learner("adagrad")
        predictions = learn(learner, examples(60), 7)
        learn(again, examples(20, seed=1), 7)
        again.restore(*learner.save())
        assert state(again) == state(learner)
        found.append((predictions, state(learner), learn(again, examples(40, seed=2), 7)))
    assert found[1:] == found[:1] * 3


def test_a_learner_that_has_seen_much_is_restored_to_little() -> None:
    little, much = new_learner(), new_learner()
    learn(little, examples(10))
    learn(much, examples(300, seed=1, words=4000))
    header, arrays = little.save()
    saved = (dict(header), {name: array.copy() for name, array in arrays.items()})
    much.restore(*saved)
    assert learn(much, examples(50, seed=2)) == learn(little, examples(50, seed=2))
    assert state(much) == state(little)


def test_a_weights_file_says_what_the_table_says() -> None:
    learner = new_learner()
    learn(learner, examples(60))
    entries = heaviest(learner.weights.entries())
    influence = [abs(e.weight) * max(1, e.uses) for e in entries]
    assert influence == sorted(influence, reverse=True)
    text = weights_text(learner)
    again = new_learner()
    assert again.start(reader.parse(text, "weights.mln")) == []
    expected = {name: weight for name, (weight, _) in named(learner.weights).items()}
    found = {name: weight for name, (weight, _) in named(again.weights).items()}
    assert {name: found[name] for name in expected if expected[name]} == {
        name: weight for name, weight in expected.items() if weight
    }
    held_out = examples(40, seed=3, words=60)
    predicted, read = (
        [o.prediction for o in each.step(held_out, learning=False)[0]] for each in (learner, again)
    )
    for one, other in zip(predicted, read, strict=True):
        assert one is not None
        assert other is not None
        assert one.predicted == other.predicted
        assert one.score == pytest.approx(other.score, rel=1e-12)


def test_learning_goes_on_around_starting_weights() -> None:
    """As around the same weights of the model; what no example touches stays where it is."""
    bare = MODEL.replace("0.5 Token(+w", "Token(+w")
    assert bare != MODEL
    update = update_of("cda1", sigma=0.1)
    model, started = (
        online(compile_program(reader.parse(text), ["InField"]), update) for text in (MODEL, bare)
    )
    starts = [
        f'0.5 Token("word {n}", i) => InField(i, "{field}")' for n in range(50) for field in "ab"
    ]
    text = "\n".join([MODEL.partition("\n\n")[0], *starts])
    assert started.start(reader.parse(text)) == []
    assert learn(started, examples(60)) == learn(model, examples(60))
    found, expected = (named(each.weights) for each in (started, model))
    for name, (weight, uses) in expected.items():
        assert found[name] == (pytest.approx(weight, rel=1e-12), uses)
    assert started.certificate() == pytest.approx(model.certificate(), rel=1e-9)
    rest = [found[name] for name in found.keys() - expected.keys()]
    assert rest == [(0.5, 0)] * 20


def test_weights_for_rules_that_are_gone_are_named() -> None:
    declarations = MODEL.partition("\n\n")[0]
    text = f'{declarations}\n2.0 InField(i, "a")\n1.0 Next(i, j) => InField(j, "b")\n'
    learner = new_learner()
    assert learner.start(reader.parse(text, "old.mln")) == [
        'line 6: no rule of the model fits `Next(i, j) => InField(j, "b")` (1 weights)'
    ]
    assert named(learner.weights)['InField(i, "a")', ()] == (2.0, 0)
