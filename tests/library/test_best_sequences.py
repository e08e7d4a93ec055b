"""Best labellings and probabilities of chunks are those of enumerating all labellings of a chain."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import UsageError
from onlinesrl.library.estimators.chunk_probabilities import Sums
from onlinesrl.library.estimators.scores import chunks
from onlinesrl.mln.kernels import chain_crf

LABELS = ["O", "B-X", "I-X", "E-X", "Y"]


def best_labellings(local: Floats, step: Floats, best: int) -> list[list[int]]:
    """Return the best labellings of scores, by the kernel."""
    n, k = local.shape
    scores = chain_crf.Scores(
        local, np.empty_like(local), step, np.zeros((n, k), np.int64), np.zeros(n, np.int64)
    )
    room = np.empty((n + 1, k, best)), np.empty((n + 1, k, best), np.int64)
    ranked = chain_crf.Ranked(*room, np.empty((best, n), np.int64))
    count = chain_crf.best_labellings(n, k, scores, ranked)
    paths: list[list[int]] = ranked.path[:count].tolist()
    return paths


@pytest.mark.parametrize("seed", range(20))
def test_against_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, labels = int(rng.integers(1, 6)), LABELS[: int(rng.integers(1, 6))]
    scale = [0.0, 1.0, 1.0, 300.0][seed % 4]  # all ties, and odds that are 0 as a double
    local, step = scale * rng.normal(size=(n, len(labels))), rng.normal(size=(len(labels),) * 2)
    if not scale:
        step[:] = 0.0
    rows = [*product(range(len(labels)), repeat=n)]
    scores = np.array(
        [
            sum(local[t, y] for t, y in enumerate(row)) + sum(step[y, z] for y, z in pairwise(row))
            for row in rows
        ]
    )
    log_z = np.logaddexp.reduce(scores)
    paths = best_labellings(local, step, 7)
    best = np.sort(scores)[::-1][:7]
    assert [scores[rows.index(tuple(path))] for path in paths] == pytest.approx(best.tolist())
    assert len({*map(tuple, paths)}) == len(paths)
    sums, probability = Sums(local, step), dict[tuple[str, int, int], float]()
    assert sums.log_z == pytest.approx(log_z)
    for row, score in zip(rows, scores, strict=True):
        for chunk in chunks([labels[y] for y in row]):
            probability[chunk] = probability.get(chunk, 0.0) + np.exp(score - log_z)
    for chunk, expected in probability.items():
        assert sums.chunk(chunk, labels) == pytest.approx(expected, abs=1e-9)


def tagger() -> tuple[srl.SequenceTagger, list[list[dict[str, str]]]]:
    """Return a tagger and sentences of words that are in a chunk, or not, by the word before."""
    rng = np.random.default_rng(0)
    words = [[{"word": w} for w in rng.choice([*"abcd"], 6)] for _ in range(60)]
    truth = [
        ["B-X" if p["word"] == "a" else "I-X" if p["word"] == "b" else "O" for p in x]
        for x in words
    ]
    noisy = [[y if rng.random() < 0.8 else "O" for y in row] for row in truth]
    return srl.SequenceTagger(update="log-likelihood").fit(words, noisy), words


def test_a_tagger_has_the_best_sequences_and_spans() -> None:
    fitted, words = tagger()
    x = words[:5]
    answers, predicted = fitted.predict_sequences(x, best=4), fitted.predict(x)
    assert [rows[0][0] for rows in answers] == predicted
    for rows in answers:
        probabilities = [p for _, p in rows]
        assert sorted(probabilities, reverse=True) == probabilities
        assert 0 < sum(probabilities) <= 1 + 1e-12
    for labels, spans in zip(predicted, fitted.predict_spans(x), strict=True):
        assert [span[:3] for span in spans] == [*chunks(labels)]
        assert all(0 < span.probability <= 1 + 1e-12 for span in spans)


def test_one_position_has_its_marginals() -> None:
    fitted, _ = tagger()
    for word in "abcd":
        (marginals,) = fitted.predict_marginals([[{"word": word}]])[0]
        rows = fitted.predict_sequences([[{"word": word}]], best=9)[0]
        assert {labels[0]: p for labels, p in rows} == pytest.approx(marginals)


def test_empty_samples_and_wrong_counts() -> None:
    fitted, _ = tagger()
    assert fitted.predict_sequences([[]]) == [[([], 1.0)]]
    assert fitted.predict_spans([[]]) == [[]]
    for best in (0, 1.5, True):
        with pytest.raises(UsageError, match="best is"):
            fitted.predict_sequences([[{"word": "a"}]], best=best)  # type: ignore[arg-type]


def test_no_probability_is_above_one() -> None:
    """Scores of 1e8 and more are known to 1e-8 only."""
    rng = np.random.default_rng(0)
    words = [[{"size": float(x)} for x in 1e8 * rng.normal(size=5)] for _ in range(40)]
    truth = [["B-X" if p["size"] > 0 else "O" for p in x] for x in words]
    fitted = srl.SequenceTagger(update="log-likelihood").fit(words, truth)
    sequences, spans = fitted.predict_sequences(words), fitted.predict_spans(words)
    assert max(p for rows in sequences for _, p in rows) <= 1.0
    assert max(span.probability for row in spans for span in row) <= 1.0
