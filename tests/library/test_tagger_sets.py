"""Sets of labels of a tagger have the true one as often as asked for, before it is learned from."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.errors import InputError, UsageError
from onlinesrl.core.evaluation.label_sets import RATE, RECENT, SPAN

Sentence = tuple[list[dict[str, Any]], list[str]]


def sentences(count: int, changed_after: int, seed: int = 0) -> list[Sentence]:
    """Words whose labels are noisy, and change their names after a while."""
    rng, labels = np.random.default_rng(seed), np.array(["A", "B", "C"])
    made = list[Sentence]()
    for n in range(count):
        words = rng.integers(0, 6, rng.integers(1, 7))
        true = np.where(rng.random(len(words)) < 0.25, rng.integers(0, 3, len(words)), words // 2)
        names = labels[(true + (n >= changed_after)) % 3]
        made.append(([{"word": str(w)} for w in words], names.tolist()))
    return made


@pytest.mark.parametrize("update", ["adagrad", "log-likelihood"])
def test_their_coverage_is_that_of_the_sets_given_before(update: str) -> None:
    tagger, coverage = srl.SequenceTagger(update=update, coverage=0.9), 0.9
    tagger.partial_fit([[]], [[]], classes=["A", "B", "C"])
    hits = units = sizes = abstain = 0
    for x, y in sentences(400, changed_after=200):
        (sets,) = tagger.predict_sets([x])
        (marginals,) = tagger.predict_marginals([x])
        for labels, p in zip(
            sets, marginals, strict=True
        ):  # none is less probable than one outside
            assert all(p[a] > p[b] for a in labels for b in p.keys() - {*labels})
        hits += sum(true in labels for labels, true in zip(sets, y, strict=True))
        sizes += sum(map(len, sets))
        abstain += sum(len(labels) in (0, 3) for labels in sets)
        units += len(y)
        tagger.learn_one(x, y)
    told = tagger.coverage_
    assert {key: told[key] for key in ("units", "abstain")} == {"units": units, "abstain": abstain}
    assert (told["coverage"], told["size"]) == pytest.approx((hits / units, sizes / units))
    assert sum(row["units"] for row in told["by"].values()) == units
    rate = min(RATE, SPAN / (0.1 * 6))
    assert abs(units - hits - 0.1 * units) <= math.log(RECENT + 1) / rate + 6
    assert abs(hits / units - coverage) < 0.02
    again = pickle.loads(pickle.dumps(tagger))
    assert again.coverage_ == told
    assert again.predict_sets([x]) == tagger.predict_sets([x])


def test_labels_and_weights_are_the_same_without_and_one_after_another() -> None:
    made = sentences(60, changed_after=100)
    xs, ys = [x for x, _ in made], [y for _, y in made]
    plain, together = srl.SequenceTagger().fit(xs, ys), srl.SequenceTagger(coverage=0.8).fit(xs, ys)
    single = srl.SequenceTagger(coverage=0.8)
    for x, y in made:
        single.learn_one(x, y)
    assert plain.state_features_ == together.state_features_
    assert together.coverage_ == single.coverage_
    assert together.predict_sets(xs[:9]) == single.predict_sets(xs[:9])
    more = srl.SequenceTagger(coverage=0.8, passes=3).fit(xs, ys)
    assert more.coverage_ == together.coverage_  # of the first pass


def test_a_label_that_is_met_first_was_in_no_set() -> None:
    tagger = srl.SequenceTagger(coverage=0.5).partial_fit([[{"w": "a"}]] * 9, [["A"]] * 9)
    before = tagger.coverage_
    tagger.learn_one([{"w": "b"}], ["B"])
    after = tagger.coverage_
    assert after["by"]["B"] == {"units": 1, "coverage": 0.0, "size": 1.0, "abstain": 0}
    assert after["units"] == before["units"] + 1


def test_what_is_refused_changes_nothing() -> None:
    made = sentences(20, changed_after=100)
    tagger = srl.SequenceTagger(coverage=0.8).fit(*map(list, zip(*made, strict=True)))
    before = copy.deepcopy(tagger.coverage_), tagger.predict_sets([made[0][0]])
    with pytest.raises(InputError):
        tagger.partial_fit([made[0][0], [{"word": 1e400}]], [made[0][1], ["A"]])
    assert (tagger.coverage_, tagger.predict_sets([made[0][0]])) == before
    with pytest.raises(UsageError, match="make the tagger with coverage"):
        srl.SequenceTagger().fit([[{"a": 1}]], [["A"]]).predict_sets([[{"a": 1}]])
    for wrong in (0, 1.0, "most"):
        with pytest.raises(UsageError, match="coverage is"):
            srl.SequenceTagger(coverage=wrong).fit([[{"a": 1}]], [["A"]])  # type: ignore[arg-type]
