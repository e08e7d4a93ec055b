"""Scores of labels and chunks, by hand and as conlleval counts them, and reports."""

from typing import Any

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.library.estimators.scores import Lists, chunks
from onlinesrl.logic.text import quote

CHUNKS: list[tuple[str, list[tuple[str, int, int]]]] = [
    ("", []),
    ("O O", []),
    ("B-N I-N O B-N B-N", [("N", 0, 1), ("N", 3, 3), ("N", 4, 4)]),
    ("I-N I-N B-N O I-V", [("N", 0, 1), ("N", 2, 2), ("V", 4, 4)]),
    ("B-N I-V I-V", [("N", 0, 0), ("V", 1, 2)]),
    ("B-N I-N E-N I-N S-N S-N", [("N", 0, 2), ("N", 3, 3), ("N", 4, 4), ("N", 5, 5)]),
    ("B-N L-N U-N O", [("N", 0, 1), ("N", 2, 2)]),
    ("B-a-b I-a-b O", [("a-b", 0, 1)]),
    ("name name X-Y X-Y O", [("name", 0, 1), ("X-Y", 2, 3)]),
]


@pytest.mark.parametrize(("text", "expected"), CHUNKS)
def test_chunks_are_those_of_conlleval(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert [*chunks(text.split())] == expected


Y = [["B-N", "I-N", "O", "B-V"], ["O", "B-N"], []]
FOUND = [["B-N", "O", "O", "B-V"], ["B-V", "B-N"], []]


def test_scores_are_counted_by_hand() -> None:
    assert srl.chunk_f1(Y, FOUND) == pytest.approx(2 * 2 / (3 + 4))
    assert srl.chunk_f1(Y, Y) == 1.0
    assert srl.chunk_f1([["O"]], [["O"]]) == 0.0
    kinds = srl.chunk_scores(Y, FOUND)
    assert kinds["N"] == {"f1": 0.5, "precision": 0.5, "recall": 0.5, "support": 2}
    assert kinds["V"] == {"f1": pytest.approx(2 / 3), "precision": 0.5, "recall": 1.0, "support": 1}
    labels = srl.label_scores(Y, FOUND)
    assert labels["I-N"] == {"f1": 0.0, "precision": None, "recall": 0.0, "support": 1}
    assert labels["O"] == {"f1": 0.5, "precision": 0.5, "recall": 0.5, "support": 2}
    with pytest.raises(srl.InputError, match="sample 0 has 1 predictions, but 2 labels"):
        srl.label_scores([["O", "O"]], [["O"]])


def sentences() -> tuple[list[Any], list[list[str]]]:
    X = [[{"w": word} for word in text] for text in ("abc", "cab", "ba", "c")]
    tags = {"a": "B-N", "b": "I-N", "c": "O"}
    return X, [[tags[of["w"]] for of in x] for x in X]


def test_a_report_has_a_line_for_each_label_and_kind_of_chunk() -> None:
    X, y = sentences()
    report = srl.SequenceTagger(passes=5).fit(X, y).report(X, y)
    assert [line.split() for line in report.splitlines()] == [
        ["precision", "recall", "f1", "support"],
        ["B-N", "1.000", "1.000", "1.000", "3"],
        ["I-N", "1.000", "1.000", "1.000", "3"],
        ["O", "1.000", "1.000", "1.000", "3"],
        [],
        ["chunks,", "F1", "1.000"],
        ["precision", "recall", "f1", "support"],
        ["N", "1.000", "1.000", "1.000", "4"],
    ]
    things = [(x, []) for x in X]
    classifier = srl.LinkedClassifier().fit(things * 3, y * 3)
    assert len(classifier.report(things, y).splitlines()) == 4


def test_features_and_transitions_are_those_of_the_model() -> None:
    """The same weights as in the rules, by feature and label, and by a label and the next."""
    X, y = sentences()
    tagger = srl.SequenceTagger().fit(X, y)
    text = tagger.weights_text()
    rules = [line for line in text.splitlines() if " ^ " in line]
    states, steps = tagger.state_features_, tagger.transition_features_
    assert len(states) + len(steps) == len(rules)
    for (feature, label), weight in states.items():
        assert f"{weight!r} Feature(+{quote(feature)}, t) ^ Label(t, {quote(label)})" in rules
    for (label, after), weight in steps.items():
        rule = f"Next(t, u) ^ Label(t, {quote(label)}) ^ Label(u, {quote(after)})"
        assert f"{weight!r} {rule}" in rules
    assert max(states, key=states.__getitem__) in {("w:a", "B-N"), ("w:b", "I-N"), ("w:c", "O")}


def test_numpy_takes_lists_as_objects() -> None:
    """So that scikit-learn can put the predictions of folds together, of any lengths."""
    for of in ([["a"], ["b", "c"]], [["a", "b"], ["b", "c"]], [[], []], []):
        array = np.asarray(Lists(of))
        assert array.shape == (len(of),)
        assert array.tolist() == of
