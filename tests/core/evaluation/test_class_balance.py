"""Balanced costs: those of scikit-learn by the labels so far, in both languages; saved, resumed, merged."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Job
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight

import onlinesrl as srl
from onlinesrl.core.evaluation.class_balance import ClassBalance

ALONE = "Thing(x)\nWord(w, x)\nSpam(x)\nWord(+w, x) => Spam(x)\n-1 Spam(x)\n"
EXCLUSIVE = "Thing(x)\nWord(w, x)\nkind = {A, B, C}\nKind(x, kind!)\nWord(+w, x) ^ Kind(x, +k)\n"
SOFT = "1: Word('1', X) >> Spam(X) ^2\n1: Word('2', X) >> Spam(X) ^2\n1: !Spam(X) ^2\n"


def stream(kind: str, n: int) -> list[tuple[Any, Any, dict[str, list[Any]]]]:
    """Evidence, truth and targets of examples of three things, few of which are true."""
    rng, found = random.Random(5), []
    for _ in range(n):
        words = {x: [w for w in "123" if rng.random() < 0.5] for x in range(3)}
        evidence = {"Word": [[w, x] for x in words for w in words[x]]}
        evidence |= {"Thing": [[x] for x in words]} if kind != "soft" else {}
        if kind == "kind":
            truth = {"Kind": [[x, rng.choice("AAAAAABBC")] for x in words]}
        else:
            truth = {"Spam": [[x] for x in words if "1" in words[x] and rng.random() < 0.3]}
        found.append((evidence, truth, {"Spam": [[x] for x in words]}))
    return found


def learner(kind: str, costs: Any) -> srl.OnlineLearner:
    """A learner of the kind of stream."""
    model = {"alone": ALONE, "kind": EXCLUSIVE, "soft": srl.Model(SOFT, "psl")}[kind]
    query = "Kind" if kind == "kind" else "Spam"
    return srl.OnlineLearner(model, query, update={"update": "cda1", "sigma": 0.1, "costs": costs})


def example(kind: str, n: int, parts: tuple[Any, Any, Any]) -> srl.Example:
    """An example; PSL's names its targets."""
    evidence, truth, query = parts
    return srl.Example(
        id=n, evidence=evidence, truth=truth, query=query if kind == "soft" else None
    )


def hand_set(kind: str, labels: list[str], truth: Any) -> dict[str, Any]:
    """The costs that scikit-learn gives the last example of these labels."""
    classes = sorted(set(labels))
    weights = compute_class_weight("balanced", classes=np.array(classes), y=labels)
    cost = dict(zip(classes, weights.tolist(), strict=True))
    if kind == "kind":
        return {f"Kind({x}, _)": cost[k] for x, k in truth["Kind"]}
    return {"Spam": {"missed": cost.get("True", 1.0), "extra": cost.get("False", 1.0)}}


@given(st.lists(st.sampled_from("abc"), min_size=1), st.lists(st.sampled_from("abc"), min_size=1))
def test_costs_are_those_of_scikit_learn(before: list[str], now: list[str]) -> None:
    balance, classes = ClassBalance(), sorted({*before, *now})
    balance.add("P", before)
    weights = compute_class_weight("balanced", classes=np.array(classes), y=before + now)
    assert [balance.costs("P", now)[c] for c in classes] == pytest.approx(weights.tolist())


@pytest.mark.parametrize("kind", ["alone", "kind", "soft"])
def test_a_step_is_that_of_the_same_costs_set_by_hand(kind: str) -> None:
    balanced, labels = learner(kind, "balanced"), list[str]()
    unequal = False
    for n, parts in enumerate(stream(kind, 30)):
        truth = parts[1]
        if kind == "kind":
            labels += [k for _, k in truth["Kind"]]
        else:
            labels += [str([x] in truth["Spam"]) for x in range(3)]
        by_hand = learner(kind, hand_set(kind, labels, truth))
        plain = learner(kind, None)
        for other in (by_hand, plain):
            other.learned.restore(*balanced.learned.save())
        for each in (by_hand, plain, balanced):
            each.learn_one(example(kind, n, parts))
        assert balanced.weights_text() == by_hand.weights_text()
        unequal |= balanced.weights_text() != plain.weights_text()
    assert unequal


@pytest.mark.parametrize("kind", ["alone", "kind", "soft"])
def test_counts_are_saved(kind: str, tmp_path: Path) -> None:
    examples = [example(kind, n, parts) for n, parts in enumerate(stream(kind, 40))]
    unbroken, first = learner(kind, "balanced"), learner(kind, "balanced")
    unbroken.learn_many(examples)
    first.learn_many(examples[:17])
    with pytest.raises(srl.ExampleError):
        first.learn_many([*examples[17:20], {"Word": 3}])
    first.save(tmp_path / "learner")
    second = srl.OnlineLearner.load(tmp_path / "learner")
    second.learn_many(examples[17:])
    assert second.weights_text() == unbroken.weights_text()
    assert second.learned.save()[0] == unbroken.learned.save()[0]


@pytest.mark.parametrize("kind", ["alone", "soft"])
def test_shards_count_together(kind: str, job: Any, tmp_path: Path) -> None:
    """The counts of shards are added, and the bits do not depend on the workers."""
    examples = [example(kind, n, parts) for n, parts in enumerate(stream(kind, 40))]
    lines = []
    for x in examples:
        query = {} if x.query is None else {"query": x.query}
        line = {"id": x.id, "evidence": x.evidence, "truth": x.truth, **query}
        lines.append(json.dumps(line).encode() + b"\n")
    texts, headers = set(), []
    for workers in (1, 2):
        keys = {"learner": {"update": "cda1", "sigma": 0.1, "costs": "balanced"}, "query": ["Spam"]}
        shards = {"shards": 3, "round": 4, "workers": workers}
        model = tmp_path / f"spam.{'psl' if kind == 'soft' else 'mln'}"
        model.write_text(SOFT if kind == "soft" else ALONE)
        made: Job = job(
            lines, f"{kind}{workers}", distribute=shards, model=str(model), metrics={}, **keys
        )
        assert made.run() == 0, made.said
        learned = srl.OnlineLearner.load(made.output)
        texts.add(learned.weights_text())
        headers.append(learned.learned.save()[0]["labels"]["Spam"])
    assert len(texts) == 1
    true = sum(len(x.truth["Spam"]) for x in examples if x.truth is not None)
    assert headers[0] == headers[1] == {"false": 120 - true, "true": true}
