"""Sets of whole labellings of a tagger: by enumeration, and as often right as asked for in any sequence."""

import copy
import math
import pickle
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.errors import InputError, UsageError
from onlinesrl.core.evaluation.label_sets import RECENT, SPAN
from onlinesrl.mln.online.answer_sets import RATE
from tests.library.test_tagger_sets import sentences

ALPHA = 0.2


def rate(alpha: float) -> float:
    return min(RATE, SPAN / alpha)


def probabilities(
    tagger: srl.SequenceTagger, x: list[dict[str, Any]]
) -> dict[tuple[str, ...], float]:
    """The probability of each labelling beside its strongest rival alone, by its weights, falling."""
    local, step = tagger.state_features_, tagger.transition_features_
    scores = {
        y: sum(local.get((f"word:{p['word']}", label), 0.0) for p, label in zip(x, y, strict=True))
        + sum(step.get(pair, 0.0) for pair in pairwise(y))
        for y in product(tagger.classes_, repeat=len(x))
    }
    first, second = sorted(scores.values(), reverse=True)[:2]
    falling = sorted(scores, key=lambda y: -scores[y])
    return {
        y: 1 / (1 + math.exp((second if n == 0 else first) - scores[y]))
        for n, y in enumerate(falling)
    }


@pytest.mark.parametrize("update", ["adagrad", "log-likelihood"])
@pytest.mark.parametrize("best", [2, 4, 100])
def test_a_set_has_the_labellings_of_at_least_the_threshold(update: str, best: int) -> None:
    """Of all labellings by enumeration; the threshold by its equation."""
    tagger = srl.SequenceTagger(update=update, coverage={"best": best, "coverage": 1 - ALPHA})
    tagger.partial_fit([[]], [[]], classes=["A", "B", "C"])
    log, came, hits, sizes, everything = math.log(ALPHA), list[float](), 0, 0, 0
    for x, y in (made := [(x[:4], y[:4]) for x, y in sentences(150, changed_after=100)]):
        p_of = probabilities(tagger, x)
        listed, p = [*p_of][:best], [*p_of.values()][:best]
        k = math.ceil((1 - math.exp(log)) * (len(came) + 1))
        least = 0.0 if k > len(came) else math.inf if k < 1 else sorted(came, reverse=True)[k - 1]
        (chosen,) = tagger.predict_sequence_sets([x])
        if chosen is None:
            assert p[-1] >= least - 1e-9
        else:
            assert len(chosen) < len(listed)
            assert {round(p_of[tuple(one)], 9) for one in chosen} == {
                round(value, 9) for value in p[: len(chosen)]
            }
            assert all(value >= least - 1e-9 for value in p[: len(chosen)])
            assert all(value <= least + 1e-9 for value in p[len(chosen) :])
        hit = chosen is None or y in chosen
        hits, sizes = hits + hit, sizes + (len(listed) if chosen is None else len(chosen))
        everything += chosen is None or not chosen
        came.append(max(p_of[tuple(y)], p[-1]))
        log -= rate(ALPHA) * ((not hit) - ALPHA)
        tagger.learn_one(x, y)
    told = tagger.coverage_
    assert (told["units"], told["abstain"]) == (len(made), everything)
    assert (told["coverage"], told["size"]) == pytest.approx((hits / len(made), sizes / len(made)))
    assert sum(row["units"] for row in told["by"].values()) == len(made)
    assert abs(told["coverage"] - 1 + ALPHA) < 0.05


@pytest.mark.parametrize("coverage", [0.5, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_misses_are_bounded_for_every_sequence(coverage: float, seed: int) -> None:
    """An opponent who sees the set says for a while which labelling is true: in it, or not, or a new one."""
    rng = np.random.default_rng(seed)
    tagger = srl.SequenceTagger(coverage={"best": 6, "coverage": coverage})
    tagger.partial_fit([[]], [[]], classes=["A", "B", "C"])
    misses = units = 0
    for n, (x, _) in enumerate(sentences(600, changed_after=600, seed=seed)):
        if n % 30 == 0:
            opponent = str(rng.choice(["outside", "last", "first", "new"]))
        (chosen,) = tagger.predict_sequence_sets([x])
        inside, y = chosen or [], rng.choice(tagger.classes_, len(x)).tolist()
        if inside and opponent in ("first", "last"):
            y = inside[0 if opponent == "first" else -1]
        while opponent == "outside" and y in inside:
            y = rng.choice(tagger.classes_, len(x)).tolist()
        if opponent == "new" and n % 30 == 9:
            y[0] = f"N{n}"
        units, misses = units + 1, misses + (chosen is not None and y not in inside)
        tagger.learn_one(x, y)
    told, alpha = tagger.coverage_, round(1 - coverage, 12)
    assert (told["units"], told["coverage"]) == (units, pytest.approx(1 - misses / units))
    assert misses > 10
    assert abs(misses - alpha * units) <= math.log(RECENT + 1) / rate(alpha) + 1


def test_weights_are_the_same_and_sets_go_on_with_the_same_bits() -> None:
    """Without sets, one after another, in two parts, and after a pickle; those of tags stay as they were."""
    made = sentences(80, changed_after=40)
    xs, ys = [x for x, _ in made], [y for _, y in made]

    def fitted(**more: Any) -> srl.SequenceTagger:
        return srl.SequenceTagger(**more).fit(xs, ys)

    plain, together = fitted(), fitted(coverage={"best": 5, "coverage": 0.8})
    assert plain.state_features_ == together.state_features_
    assert plain.predict(xs) == together.predict(xs)
    single = srl.SequenceTagger(coverage={"best": 5, "coverage": 0.8})
    for n, (x, y) in enumerate(made):
        single.learn_one(x, y)
        if n == 50:
            single = pickle.loads(pickle.dumps(single))
    parts = srl.SequenceTagger(coverage={"best": 5, "coverage": 0.8}).partial_fit(xs[:33], ys[:33])
    parts.partial_fit(xs[33:], ys[33:])
    for other in (
        single,
        parts,
        fitted(coverage=together.coverage, passes=3),
        copy.deepcopy(together),
    ):
        assert other.coverage_ == together.coverage_
    assert single.predict_sequence_sets(xs) == together.predict_sequence_sets(xs)
    assert parts.predict_sequence_sets(xs) == together.predict_sequence_sets(xs)


def test_where_one_labelling_is_possible_there_is_no_set() -> None:
    tagger = srl.SequenceTagger(coverage={"best": 3, "coverage": 0.5}).fit(
        [[{"w": "a"}]] * 9, [["A"]] * 9
    )
    assert tagger.predict_sequence_sets([[{"w": "a"}], []]) == [None, None]
    assert tagger.coverage_ == {}
    tagger.learn_one([{"w": "b"}], ["B"])  # the only one so far is every labelling
    assert tagger.coverage_ == {}
    assert tagger.predict_sequence_sets([[]]) == [None]
    tagger.learn_one([], [])
    assert tagger.coverage_ == {}
    tagger.learn_one([{"w": "b"}], ["B"])
    assert tagger.coverage_["units"] == 1


def test_a_long_sample_has_a_set_where_its_probability_is_no_double() -> None:
    made = sentences(60, changed_after=99)
    tagger = srl.SequenceTagger(update="log-likelihood", coverage={"best": 4, "coverage": 0.5})
    tagger.fit([x for x, _ in made], [y for _, y in made])
    long = [{"word": str(n % 6)} for n in range(9000)]
    assert tagger.predict_sequences([long], best=1)[0][0][1] == 0.0
    (chosen,) = tagger.predict_sequence_sets([long])
    assert chosen is None or all(len(labels) == 9000 for labels in chosen)
    before = tagger.coverage_["units"]
    tagger.learn_one(long, ["A"] * 9000)
    assert tagger.coverage_["units"] == before + 1


def test_what_is_refused_changes_nothing() -> None:
    made = sentences(20, changed_after=100)
    xs, ys = [x for x, _ in made], [y for _, y in made]
    tagger = srl.SequenceTagger(coverage={"best": 4, "coverage": 0.8}).fit(xs, ys)
    before = copy.deepcopy(tagger.coverage_), tagger.predict_sequence_sets(xs)
    with pytest.raises(InputError):
        tagger.partial_fit([xs[0], [{"word": 1e400}]], [ys[0], ["A"]])
    assert (tagger.coverage_, tagger.predict_sequence_sets(xs)) == before
    for coverage in (None, 0.5, tagger.coverage):
        wild = srl.SequenceTagger(update="log-likelihood", sigma=1e-300, coverage=coverage)
        with pytest.raises(InputError, match="sample 1: its update overflows"):
            wild.partial_fit([[], *xs[:2]], [[], *ys[:2]], classes=["A"])
    with pytest.raises(UsageError, match="no sets of labels"):
        tagger.predict_sets(xs)
    with pytest.raises(UsageError, match="no sets of labellings"):
        srl.SequenceTagger(coverage=0.8).fit(xs, ys).predict_sequence_sets(xs)
    for wrong in (1, 1001, 2.0, "all"):
        with pytest.raises(UsageError, match="a whole number from 2 to 1000"):
            srl.SequenceTagger(coverage={"best": wrong, "coverage": 0.8}).fit(xs, ys)
    for coverage in (None, 1.0, "most"):
        with pytest.raises(UsageError, match="expected a share above 0, at most 0"):
            srl.SequenceTagger(coverage={"best": 4, "coverage": coverage}).fit(xs, ys)
    for other in ({"best": 4}, {"coverage": 0.8}, {"best": 4, "coverage": 0.8, "by": "class"}, {}):
        with pytest.raises(UsageError, match="expected a share, or coverage="):
            srl.SequenceTagger(coverage=other).fit(xs, ys)
