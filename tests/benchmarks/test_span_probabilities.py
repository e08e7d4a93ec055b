"""Probabilities of spans and the five best labellings on real questions, beside CRFsuite's marginals."""

from math import prod

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.library.estimators.scores import chunks
from streams.papers.defaults.real_data import atis
from tests.benchmarks.measure import show, sizes
from tests.support.paths import SHARED

DATA = SHARED / "data" / "ud_atis"
BINS = 10


def calibration_error(probabilities: list[float], right: list[bool]) -> float:
    """The mean distance between probability and share of right ones, over bins of equal width."""
    p, is_right = np.array(probabilities), np.array(right)
    number = np.minimum((p * BINS).astype(int), BINS - 1)
    gaps = [abs((p - is_right)[number == b].sum()) for b in range(BINS)]
    return float(sum(gaps) / len(p))


@pytest.mark.skipif(not DATA.exists(), reason="the data set is not here")
@sizes("count", 60, None)
def test_spans_are_calibrated_and_five_labellings_hold_the_right_one(
    count: int | None, tmp_path
) -> None:
    """A span is a run of the same part of speech; CRFsuite's probability is the product of its tokens'."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    ((training, test),) = atis(DATA).folds
    training, test = training[:count], test[:count]
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    for x, y in training:
        trainer.append(pycrfsuite.ItemSequence(x), y)
    trainer.train(str(tmp_path / "model"))
    crf = pycrfsuite.Tagger()
    crf.open(str(tmp_path / "model"))
    tagger = srl.SequenceTagger(update="log-likelihood")
    tagger.fit([x for x, _ in training], [y for _, y in training])
    spans, products = ([], []), ([], [])
    hits = np.zeros(3)
    xs = [x for x, _ in test]
    answers = zip(test, tagger.predict_spans(xs), tagger.predict_sequences(xs, best=5), strict=True)
    for (x, y), of_tagger, best in answers:
        true = {*chunks(y)}
        for span in of_tagger:
            spans[0].append(span.probability)
            spans[1].append(span[:3] in true)
        labels = crf.tag(pycrfsuite.ItemSequence(x))
        for kind, first, last in chunks(labels):
            p = prod(crf.marginal(labels[t], t) for t in range(first, last + 1))
            products[0].append(p)
            products[1].append((kind, first, last) in true)
        hits += best[0][0] == y, any(row == y for row, _ in best), labels == y
    errors = calibration_error(*spans), calibration_error(*products)
    first, five, crfsuite = hits / len(test)
    rows = [
        ("calibration error of spans", errors[0], errors[1]),
        ("right sequences, the best", first, crfsuite),
        ("right sequences among five", five, ""),
    ]
    show(f"ATIS, {len(test)} questions", ("", "onlinesrl", "CRFsuite"), rows)
    assert five >= first
    if count is None:
        assert errors[0] < min(0.02, errors[1])
        assert five > crfsuite
