"""Scores of the atoms that an example asks for: those of the same stream with only these atoms counted."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.evaluation.ranking_metrics import Ranking

MODEL = "Word(w, x)\nSpam(x)\nNear(x, x)\nWord(+w, x) ^ Spam(x)\nNear(x, y) ^ Spam(x) ^ Spam(y)\n"
SOFT = "1: Word('1', X) >> Spam(X) ^2\n1: Near(X, Y) & Spam(X) >> Spam(Y) ^2\n0.5: !Spam(X) ^2\n"
SCORES = ("f1", "precision", "recall", "accuracy", "exact", "hamming", "auc", "average_precision")


def stream(n: int) -> list[srl.Example]:
    """Four things in a row, of which the last is asked for, and listed like the others."""
    rng, found = random.Random(3), []
    for id_ in range(n):
        words = {x: [w for w in "12" if rng.random() < 0.5] for x in range(4)}
        evidence = {
            "Word": [[w, x] for x in words for w in words[x]],
            "Near": [[x, x + 1] for x in range(3)],
        }
        truth = {"Spam": [[x] for x in words if ("1" in words[x]) ^ (rng.random() < 0.2)]}
        query = {"Spam": [[x] for x in words]}
        asked = {"Spam": [[3]]}
        found.append(srl.Example(id=id_, evidence=evidence, truth=truth, query=query, asked=asked))
    return found


def learner(kind: str, pending: int = 0) -> srl.OnlineLearner:
    if kind == "psl":
        return srl.OnlineLearner(srl.Model(SOFT, "psl"), "Spam", by="Spam.1", pending=pending)
    inference = {"engine": kind} | ({"threshold": {"Spam": "f1"}} if kind == "mcsat" else {})
    update = {"update": "log-likelihood" if kind == "mcsat" else "cda1"}
    return srl.OnlineLearner(
        MODEL, "Spam", update=update, inference=inference, by="Spam.1", pending=pending
    )


def by_hand(predictions: list[srl.Prediction], valued: bool) -> dict[str, Any]:
    """The scores of the last thing, counted one by one."""
    predicted = np.array([(3,) in p["Spam"] for p in predictions])
    true = np.array([(3,) in (p.truth or {})["Spam"] for p in predictions])
    hits, wrong = int(np.sum(predicted & true)), int(np.sum(predicted != true))
    ranking, scores = Ranking(), {}
    if valued:
        ranking.add(np.array([(p.values or {})["Spam"][3,] for p in predictions]), true)
        scores = ranking.measures()
    return {
        "f1": 2 * hits / (predicted.sum() + true.sum()),
        "precision": hits / predicted.sum(),
        "recall": hits / true.sum(),
        "accuracy": 1 - wrong / len(true),
        "exact": 1 - wrong / len(true),
        "hamming": wrong / len(true),
    } | {name: scores[name] for name in ("auc", "average_precision") if valued}


def without(example: srl.Example, **changed: Any) -> srl.Example:
    fields = {name: getattr(example, name) for name in example.__struct_fields__}
    return srl.Example(**fields | changed)


@pytest.mark.parametrize("kind", ["mpe", "mcsat", "psl"])
def test_scores_are_those_of_the_atoms_asked_for(kind: str) -> None:
    examples, made, other = stream(60), learner(kind), learner(kind)
    predictions = made.learn_many(examples)
    expected = by_hand(predictions, valued=kind != "mpe")
    metrics = made.metrics
    assert {n: metrics[n] for n in SCORES if n in expected} == pytest.approx(expected)
    assert metrics["predicates"]["Spam"]["f1"] == metrics["f1"]
    assert metrics["by"]["3"]["f1"] == metrics["f1"]
    assert sum(scores["support"] for scores in metrics["by"].values()) == expected_support(examples)
    assert [p.hamming for p in predictions] == [
        int(((3,) in p["Spam"]) != ((3,) in (p.truth or {})["Spam"])) for p in predictions
    ]
    whole = other.learn_many([without(x, asked=None) for x in examples])
    assert other.weights_text() == made.weights_text()
    assert sum(p.hamming or 0 for p in whole) > sum(p.hamming or 0 for p in predictions)


def expected_support(examples: list[srl.Example]) -> int:
    return sum([3] in (x.truth or {})["Spam"] for x in examples)


@pytest.mark.parametrize("kind", ["mpe", "psl"])
def test_late_labels_score_the_atoms_asked_for(kind: str) -> None:
    waiting = learner(kind, pending=100)
    predictions = []
    for n, example in enumerate(stream(40)):
        waiting.predict_one(without(example, truth=None))
        if n >= 3:
            earlier = stream(40)[n - 3]
            predictions.append(waiting.label(earlier.id, earlier.truth or {}))
    expected = by_hand([p for p in predictions if p is not None], valued=kind == "psl")
    assert {n: waiting.metrics[n] for n in SCORES if n in expected} == pytest.approx(expected)


def test_a_run_reads_them(job: Any, tmp_path: Path) -> None:
    examples, model = stream(50), tmp_path / "spam.mln"
    model.write_text(MODEL)
    names = ("id", "evidence", "truth", "query", "asked")
    lines = [json.dumps({n: getattr(x, n) for n in names}).encode() + b"\n" for x in examples]
    run = job(
        lines, model=str(model), query=["Spam"], metrics={"by": "x"}, learner={"update": "cda1"}
    )
    assert run.run() == 0, run.said
    library = learner("mpe")
    library.learn_many(examples)
    last, same = run.lines("metrics.jsonl")[-1], library.metrics
    assert {name: last[name] for name in same} == same


@pytest.mark.parametrize("kind", ["mpe", "psl"])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"asked": {"Word": [["1", 3]]}}, r"asked atom Word\(1, 3\): Word is not in the query"),
        ({"asked": {"Spam": [[9]]}}, r"asked atom Spam\(9\): it is not listed in `query`"),
    ],
)
def test_what_cannot_be_open_is_refused(kind: str, changed: Any, said: str) -> None:
    with pytest.raises(srl.ExampleError, match=said):
        learner(kind).learn_one(without(stream(1)[0], **changed))


FIELDS = "f = {A, B, C}\nWord(f, x)\nField(x, f!)\nWord(+w, x) ^ Field(x, +f)\n"


def partly_labelled(kind: str) -> list[srl.Example]:
    """Things of which some are not labelled; of the first example nothing is known."""
    rng, examples, changed = random.Random(4), [], dict[str, Any]()
    for x in stream(40):
        unknown = [n for n in range(4) if x.id == 0 or rng.random() < 0.4]
        if kind == "group":
            kinds = [rng.choice("ABC") for _ in range(4)]
            words = [[rng.choice([f, f, "A"]), n] for n, f in enumerate(kinds)]
            truth = {"Field": [[n, f] for n, f in enumerate(kinds) if n not in unknown]}
            unlabelled = {"Field": [[n, f] for n in unknown for f in "ABC"]}
            changed = {"evidence": {"Word": words}, "query": None}
        else:
            truth = {"Spam": [[n] for [n] in (x.truth or {})["Spam"] if n not in unknown]}
            unlabelled, changed = {"Spam": [[n] for n in unknown]}, {}
        changed |= {"truth": truth, "unlabelled": unlabelled, "asked": None}
        examples.append(without(x, **changed))
    return examples


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", ["mpe", "mcsat", "psl", "group"])
def test_no_metric_counts_what_is_unlabelled_though_it_is_asked_for(kind: str, late: bool) -> None:
    """A stream that asks for every open atom has the scores of one that asks for none."""
    every: Any = {"Spam": [[n] for n in range(4)]}
    if kind == "group":
        every = {"Field": [[n, f] for n in range(4) for f in "ABC"]}
    found = []
    for asked in (None, every):
        if kind == "group":
            made = srl.OnlineLearner(FIELDS, "Field", update="cda1", pending=9)
        else:
            made = learner(kind, pending=9)
        for example in partly_labelled(kind):
            x = without(example, asked=asked)
            if late:
                made.predict_one(without(x, truth=None, unlabelled=None))
                made.label(x.id, x.truth or {}, unlabelled=x.unlabelled)
            else:
                made.learn_one(x)
            if x.id == 0:
                assert not any(made.metrics[n] for n in ("f1", "accuracy", "exact", "hamming"))
        found.append({n: made.metrics[n] for n in SCORES if n in made.metrics})
    assert found[0] == found[1]
    assert 0 < found[0]["accuracy"] < 1
