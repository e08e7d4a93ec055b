"""Thresholds of probabilities: the one of best F1 on what was predicted before; saved, resumed, merged."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.core.evaluation.decision_threshold import Thresholds
from onlinesrl.core.evaluation.ranking_metrics import Ranking
from onlinesrl.core.io.restoring import Misfit
from onlinesrl.core.kernels.best_threshold import FEW

MODEL = "Thing(x)\nWord(w, x)\nSpam(x)\nWord(+w, x) ^ Spam(x)\n0 Spam(x)\n"
SCORES = st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60)


def filled(pairs: list[tuple[float, bool]]) -> Thresholds:
    thresholds = Thresholds({"P": "f1"})
    for score, true in pairs:
        thresholds.add("P", np.array([score]), np.array([true]))
    return thresholds


@given(SCORES, SCORES)
def test_it_is_the_best_of_the_ranking(
    first: list[tuple[float, bool]], second: list[tuple[float, bool]]
) -> None:
    whole, ranking = filled(first + second), Ranking()
    scores = np.array([score for score, _ in first + second])
    true = np.array([label for _, label in first + second], np.bool_)
    ranking.add(scores, true)
    best = ranking.measures()
    few = np.sum(true) < FEW
    assert whole.of("P") == (0.5 if few else best["best_threshold"])
    rounded = np.floor(scores * 10_000 + 0.5) / 10_000
    if not few:
        predicted = rounded >= whole.of("P")
        assert 2 * np.sum(predicted & true) / (np.sum(predicted) + np.sum(true)) == best["best_f1"]
    start = filled(first).save()
    other = Thresholds({"P": "f1"})
    other.restore(json.loads(json.dumps(start)))
    other.merge([whole.since(start)])
    assert (other.save(), other.of("P")) == (whole.save(), whole.of("P"))


def stream(n: int) -> list[srl.Example]:
    """Things of which one in ten is spam; a word makes it likelier, though never likely."""
    rng, found = random.Random(11), []
    for id_ in range(n):
        words = {x: [w for w in "123" if rng.random() < 0.4] for x in range(4)}
        chance = {x: 0.35 if "1" in words[x] else 0.02 for x in words}
        evidence = {
            "Thing": [[x] for x in words],
            "Word": [[w, x] for x in words for w in words[x]],
        }
        truth = {"Spam": [[x] for x in words if rng.random() < chance[x]]}
        found.append(srl.Example(id=id_, evidence=evidence, truth=truth))
    return found


def learner(threshold: Any, pending: int = 0) -> srl.OnlineLearner:
    inference = {"engine": "mcsat", "threshold": threshold}
    return srl.OnlineLearner(
        MODEL, "Spam", update="log-likelihood", inference=inference, pending=pending
    )


def values(prediction: srl.Prediction) -> dict[Any, float]:
    assert prediction.values is not None
    return prediction.values["Spam"]


def test_each_prediction_uses_those_before_it(tmp_path: Path) -> None:
    """Learned at once, one by one, and resumed; by hand it is the best threshold of all lines before."""
    examples = stream(150)
    predictions, best = learner({"Spam": "f1"}).learn_many(examples), Ranking()
    for example, prediction in zip(examples, predictions, strict=True):
        few = sum(true for _, true in best.counts.values()) < FEW
        threshold = 0.5 if few else best.measures()["best_threshold"]
        scores, true = values(prediction), {(x,) for (x,) in example.truth["Spam"]}
        assert set(prediction["Spam"]) == {a for a, p in scores.items() if p >= threshold}
        best.add(np.array([*scores.values()]), np.array([atom in true for atom in scores]))
    one, fixed = learner({"Spam": "f1"}), learner({"Spam": 0.2})
    again = [one.learn_one(x) for x in examples[:70]]
    one.save(tmp_path / "learner")
    again += srl.OnlineLearner.load(tmp_path / "learner").learn_many(examples[70:])
    assert [p.atoms for p in again] == [p.atoms for p in predictions]
    for prediction in fixed.learn_many(examples):
        assert set(prediction["Spam"]) == {a for a, p in values(prediction).items() if p >= 0.2}
    plain, tuned = learner(None), learner({"Spam": "f1"})
    for each in (plain, tuned):
        each.learn_many(examples)
    assert plain.metrics["f1"] < 0.1
    assert tuned.metrics["f1"] > 0.3
    assert plain.weights_text() == tuned.weights_text()
    before = tuned.learned.save()[0]
    tuned.evaluate(examples[:20])
    assert tuned.learned.save()[0] == before


def test_late_labels_count_when_they_come() -> None:
    waiting, at_once = learner({"Spam": "f1"}, pending=99), learner({"Spam": "f1"})
    examples = stream(40)
    for example in examples:
        waiting.predict_one(srl.Example(id=example.id, evidence=example.evidence))
    assert waiting.learned.save()[0]["scores"] == {"Spam": []}
    for example in examples:
        waiting.label(example.id, example.truth)
    at_once.learn_many(examples)
    counts = [each.learned.save()[0]["scores"]["Spam"] for each in (waiting, at_once)]
    assert counts[0] == [[5000, sum(row[1] for row in counts[0]), sum(row[2] for row in counts[0])]]
    assert counts[0][0][1:] == [sum(row[n] for row in counts[1]) for n in (1, 2)]


def test_shards_count_together(job: Any, tmp_path: Path) -> None:
    examples, model, found = stream(40), tmp_path / "spam.mln", []
    model.write_text(MODEL)
    lines = [
        json.dumps({"id": x.id, "evidence": x.evidence, "truth": x.truth}).encode() + b"\n"
        for x in examples
    ]
    keys = {
        "query": ["Spam"],
        "metrics": {},
        "model": str(model),
        "learner": {"update": "log-likelihood"},
        "inference": {"engine": "mcsat", "threshold": {"Spam": "f1"}},
    }
    for workers in (1, 2):
        shards = {"shards": 3, "round": 5, "workers": workers}
        run = job(lines, f"workers{workers}", distribute=shards, **keys)
        assert run.run() == 0, run.said
        found.append(srl.OnlineLearner.load(run.output).learned.save()[0]["scores"]["Spam"])
    assert found[0] == found[1]
    assert sum(row[1] + row[2] for row in found[0]) == 160


def test_what_has_no_threshold_is_refused() -> None:
    with pytest.raises(srl.ConfigError, match="exactly one Kind along argument 2: the most prob"):
        srl.OnlineLearner(
            "Kind(x, kind!)\n0 Kind(x, +k)\n",
            "Kind",
            inference={"engine": "mcsat", "threshold": {"Kind": 0.3}},
        )
    with pytest.raises(
        srl.ConfigError, match=r"threshold\.Word: expected a predicate of the query"
    ):
        learner({"Word": 0.3})
    for wrong in (1.5, "f2"):
        with pytest.raises(srl.UsageError, match=r"inference\.threshold\.Spam"):
            learner({"Spam": wrong})
    with pytest.raises(srl.UsageError, match=r"inference\.threshold: not for engine mpe"):
        srl.OnlineLearner(MODEL, "Spam", inference={"threshold": {"Spam": 0.3}})
    with pytest.raises(Misfit):
        Thresholds({"P": "f1"}).restore({"P": [[-1, 0, 0]]})


def test_a_checkpoint_keeps_costs_by_atom(tmp_path: Path) -> None:
    """Settings that are mappings come back from a checkpoint's flat keys."""
    costs = {"Spam": 2.0, 'Spam("a.b")': {"missed": 3.0}}
    update = {"update": "cda1", "costs": costs}
    made = srl.OnlineLearner(MODEL, "Spam", update=update)
    made.save(tmp_path / "learner")
    assert srl.OnlineLearner.load(tmp_path / "learner").settings == made.settings
