"""The tagger is the Markov logic network of its rules: the same weights, predictions and marginals."""

import copy
import itertools
import pickle
import random
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import softmax

import onlinesrl as srl
from onlinesrl.library.estimators.tagger import RULES, SequenceTagger
from onlinesrl.mln.kernels.chain_crf import WIDE
from tests.support.units import Units

TAGS = ["A", "B", "C"]
UPDATES = [
    ("cda1", "ml"),
    ("cda1", "pl"),
    ("cda2", "ml"),
    ("cda2", "pl"),
    ("mira", "pl"),
    ("subgradient", "ml"),
    ("perceptron", "pl"),
    ("adagrad", "ml"),
    ("adagrad", "pl"),
    ("log-likelihood", "pl"),
]
MODEL = f"""label = {{A, B, C}}
{RULES}
Feature(+f, t) ^ Label(t, +y)
Next(t, u) ^ Label(t, +y) ^ Label(u, +z)
"""
Sequence = list[dict[str, float]]


def sequences(seed: int, count: int, numbers: bool) -> tuple[list[Sequence], list[list[str]]]:
    """Sequences of 1 to 5 positions, whose features, of which some repeat, tell of their labels.

    With ``numbers`` they count by some, else by 1.
    """
    random_ = random.Random(seed)
    X, y = [], []
    for _ in range(count):
        labels = random_.choices(TAGS, k=random_.randint(1, 5))
        names = [(f"{tag}{random_.random():.1f}", f"any{random_.random():.2f}") for tag in labels]
        X.append([{f: random_.gauss(1.0, 1.0) if numbers else 1.0 for f in of} for of in names])
        y.append([tag if random_.random() < 0.8 else random_.choice(TAGS) for tag in labels])
    return X, y


def evidence(x: Sequence) -> dict[str, Any]:
    steps = [[t, t + 1] for t in range(len(x) - 1)]
    features = {(f, t): number for t, of in enumerate(x) for f, number in of.items()}
    return {"Feature": features, "Next": steps}


def truth(labels: list[str]) -> dict[str, Any]:
    return {"Label": [[t, label] for t, label in enumerate(labels)]}


def labels_of(prediction: srl.Prediction) -> list[Any]:
    of = {int(t): label for t, label in prediction["Label"]}
    return [of[t] for t in range(len(of))]


def weights_of(learner: srl.OnlineLearner) -> dict[str, float]:
    """The weights by rule; networks leave out gaps to a probability that is 0 but for rounding."""
    return {row.line(): row.weight for row in learner.weights.rows if abs(row.weight) > 1e-12}


def brute(tagger: SequenceTagger, x: list[Any]) -> dict[tuple[str, ...], float]:
    """The score of every labelling, by the weights that the tagger writes."""
    weights = {
        rule: float(weight)
        for weight, _, rule in (line.partition(" ") for line in tagger.weights_text().splitlines())
        if "^" in rule
    }
    scores = {}
    for labels in itertools.product(tagger.classes_, repeat=len(x)):
        states = [
            number * weights.get(f'Feature(+"{name}", t) ^ Label(t, {label})', 0.0)
            for of, label in zip(x, labels, strict=True)
            for name, number in of.items()
        ]
        steps = [
            weights.get(f"Next(t, u) ^ Label(t, {one}) ^ Label(u, {other})", 0.0)
            for one, other in itertools.pairwise(labels)
        ]
        scores[labels] = sum(states) + sum(steps)
    return scores


@pytest.mark.parametrize(
    ("update", "loss", "numbers"),
    [*((*each, True) for each in UPDATES), ("cda2", "ml", False), ("adagrad", "pl", False)],
)
def test_the_tagger_is_the_network_of_its_rules(update: str, loss: str, numbers: bool) -> None:
    """Ties too are broken the same way: by the first label."""
    X, y = sequences(0, 20, numbers)
    sigma = None if update in {"mira", "perceptron"} else 0.1
    learner = srl.OnlineLearner(MODEL, "Label", update=update, loss=loss, sigma=sigma)
    tagger = SequenceTagger(update, loss, sigma)
    for x, labels in zip(X, y, strict=True):
        tagger.learn_one(x, labels)
        learner.learn_one(evidence(x), truth(labels))
    written = srl.OnlineLearner(tagger.weights_text(), "Label")

    assert weights_of(written) == pytest.approx(weights_of(learner), rel=1e-9, abs=1e-12)
    assert tagger.learned_.weights.certificate() == pytest.approx(learner.certificate)
    unseen, _ = sequences(1, 20, numbers)
    found = learner.predict_many([*map(evidence, unseen)])
    assert tagger.predict(unseen) == [*map(labels_of, found)]
    marginals = learner.predict_many([*map(evidence, unseen)], marginals=True)
    for of, expected in zip(tagger.predict_marginals(unseen), marginals, strict=True):
        assert expected.values is not None
        values = {(t, label): p for t, by in enumerate(of) for label, p in by.items()}
        expected_values = {(int(t), label): p for (t, label), p in expected.values["Label"].items()}
        assert values == pytest.approx(expected_values, abs=1e-6)


@pytest.mark.parametrize("weight", ["balanced", {"A": 5, "C": 0.25}], ids=["balanced", "by label"])
@pytest.mark.parametrize("loss", ["pl", "ml"])
def test_weights_of_labels_are_costs_of_the_network(loss: str, weight: Any) -> None:
    """A position counts by its true label: a mistake costs twice that, once an atom."""
    X, y = sequences(2, 30, numbers=True)
    y = [[tag if tag == "A" or n % 4 == 0 else "B" for tag in of] for n, of in enumerate(y)]
    costs: Any = weight
    if isinstance(weight, dict):
        one = {label: {"missed": 2.0 * weight.get(label, 1.0), "extra": 0.0} for label in TAGS}
        costs = {f"Label(_, {label})": cost for label, cost in one.items()}
    update = {"update": "cda1", "loss": loss, "sigma": 0.1}
    learner = srl.OnlineLearner(MODEL, "Label", update={**update, "costs": costs})
    tagger = SequenceTagger(update, class_weight=weight)
    unweighted = SequenceTagger(update).partial_fit(X, y, TAGS)
    for x, labels in zip(X, y, strict=True):
        tagger.partial_fit([x], [labels], TAGS)
        learner.learn_one(evidence(x), truth(labels))
    written = srl.OnlineLearner(tagger.weights_text(), "Label")
    assert weights_of(written) == pytest.approx(weights_of(learner), rel=1e-9, abs=1e-12)
    assert tagger.learned_.weights.certificate() == pytest.approx(learner.certificate)
    assert tagger.weights_text() != unweighted.weights_text()
    whole = SequenceTagger(update, class_weight=weight).partial_fit(X, y, TAGS)
    assert whole.weights_text() == tagger.weights_text()
    half = SequenceTagger(update, class_weight=weight).partial_fit(X[:15], y[:15], TAGS)
    half = pickle.loads(pickle.dumps(half)).partial_fit(X[15:], y[15:])
    assert half.weights_text() == tagger.weights_text()


@pytest.mark.parametrize("seed", range(2))
def test_predictions_and_marginals_are_those_of_all_labellings(seed: int) -> None:
    """Features here have numbers, which multiply their weights."""
    random_ = np.random.default_rng(seed)
    X = [
        [{f"f{n}": float(v) for n, v in enumerate(random_.normal(size=4))} for _ in range(n % 5)]
        for n in range(40)
    ]
    y = [[TAGS[int(np.argmax([*of.values()][:3]))] for of in x] for x in X]
    tagger = SequenceTagger(sigma=1.0).fit(X, y)
    for x in X:
        scores = brute(tagger, x)
        probability = np.exp(np.array([*scores.values()]) - max(scores.values()))
        probability /= probability.sum()
        (found,) = tagger.predict([x])
        assert scores[tuple(found)] == pytest.approx(max(scores.values()), abs=1e-9)
        for t, by in enumerate(tagger.predict_marginals([x])[0]):
            for label, p in by.items():
                having = [labels[t] == label for labels in scores]
                assert p == pytest.approx(probability[having].sum(), abs=1e-9)


def vector(x: Sequence, labels: Any, names: list[str]) -> np.ndarray:
    """The numbers of steps and of features by label, [row, label] as ``ChainWeights`` has them."""
    count = np.zeros((len(TAGS) + len(names), len(TAGS)))
    for of, label in zip(x, labels, strict=True):
        for name, number in of.items():
            count[len(TAGS) + names.index(name), TAGS.index(label)] += number
    for one, other in itertools.pairwise(labels):
        count[TAGS.index(one), TAGS.index(other)] += 1
    return count


def _of_rows(of_features: np.ndarray) -> np.ndarray:
    """The unit of each row of weights; those of steps have 1."""
    return np.concatenate([np.ones(len(TAGS)), of_features])[:, None]


@pytest.mark.parametrize(
    ("sigma", "keys"), [(1.0, {"delta": 0.5}), (1e-3, {"delta": 0.5}), (5.0, {"rates": "constant"})]
)
def test_steps_on_the_log_likelihood_are_those_over_all_labellings(
    sigma: float, keys: dict[str, Any]
) -> None:
    """Gradients are enumerated, and steps made in numpy; a small sigma makes scores of steps far apart.

    Steps are in the units of the features. Later numbers are larger by 1,000, and are outliers at first.
    """
    X, y = sequences(3, 60, numbers=True)
    X[30:] = [
        [{f: (1e3 if f < "B" else 1.0) * n for f, n in of.items()} for of in x] for x in X[30:]
    ]
    X, y = [*X, [], [{"A0.1": 1.0}]], [*y, [], ["B"]]
    names = [*dict.fromkeys(name for x in X for of in x for name in of)]
    update = {"update": "log-likelihood", "predict": "current", **keys}
    tagger = SequenceTagger(update, sigma=sigma).partial_fit([[]], [[]], classes=TAGS)
    shape = len(TAGS) + len(names), len(TAGS)
    pull, square, w, losses = np.zeros(shape), np.zeros(shape), np.zeros(shape), [0.0]
    widest, least, units = 0.0, 1.0, Units(len(names))
    for x, labels in zip(X, y, strict=True):
        counts = {z: vector(x, z, names) for z in itertools.product(TAGS, repeat=len(x))}
        score = np.array([float(np.sum(w * count)) for count in counts.values()])
        p = np.exp(score - score.max())
        expected = np.tensordot(p / p.sum(), np.array([*counts.values()]), 1)
        truth = vector(x, labels, names)
        losses.append(np.log(p.sum()) + score.max() - float(np.sum(w * truth)))
        number = np.array([[of.get(name, 0.0) for name in names] for of in x or [{}]])
        counted, delta = units.counted(number), truth - expected
        most = np.where(counted < np.abs(number), counted, np.inf).min(axis=0)
        share = 1.0 / np.max(np.abs(delta[len(TAGS) :]) / most[:, None], initial=1.0)
        delta *= share / _of_rows(units.scale)
        pull, square = pull + delta, square + delta**2
        units.note(counted)
        w = (
            pull
            / (sigma * (0.5 + np.sqrt(square) if "delta" in keys else 1.0))
            / _of_rows(units.scale)
        )
        least = min(least, float(share))
        tagger.learn_one(x, labels)
        learned = tagger.learned_
        found = np.zeros(shape)
        rows = learned.weights.averaged()
        found[: len(TAGS)] = rows[: len(TAGS)]
        for n, name in enumerate(learned.features.names, len(TAGS)):
            found[len(TAGS) + names.index(name)] = rows[n]
        np.testing.assert_allclose(found, w, atol=1e-9 * max(1.0, np.abs(w).max()))
        widest = max(widest, float(np.ptp(w[: len(TAGS)])))
    assert learned.weights.certificate()["loss"] == pytest.approx(np.mean(losses), rel=1e-9)
    assert (widest > WIDE) == (sigma < 1.0)
    assert least < 0.1 and units.unit.max() > 100.0
    for x in X:
        scores = brute(tagger, x)
        p = np.exp(np.array([*scores.values()]) - max(scores.values()))
        p /= p.sum()
        for t, by in enumerate(tagger.predict_marginals([x])[0]):
            for label, probability in by.items():
                having = [labels[t] == label for labels in scores]
                assert probability == pytest.approx(p[having].sum(), abs=1e-9)


def test_second_order_steps_are_those_over_all_labellings() -> None:
    """Marginals are enumerated, roots are those of scipy, and steps made in numpy."""
    X, y = sequences(3, 25, numbers=True)
    X[12:] = [
        [{f: (50.0 if f < "B" else 1.0) * n for f, n in of.items()} for of in x] for x in X[12:]
    ]
    X, y = [*X, [], [{"A0.1": 1.0}], [{}, {}]], [*y, [], ["B"], ["A", "C"]]
    names = [*dict.fromkeys(name for x in X for of in x for name in of)]
    tagger = SequenceTagger("second-order").partial_fit([[]], [[]], classes=TAGS)
    shape = len(TAGS) + len(names), len(TAGS)
    w, variance, size, losses, narrowed = (
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(len(names)),
        [],
        0,
    )
    for x, labels in zip(X, y, strict=True):
        counts = {z: vector(x, z, names) for z in itertools.product(TAGS, repeat=len(x))}
        score = np.array([float(np.sum(w * count)) for count in counts.values()])
        p = np.exp(score - score.max())
        losses.append(np.log(p.sum()) + score.max() - float(np.sum(w * vector(x, labels, names))))
        p /= p.sum()
        before, wrong, moved = w.copy(), 0.0, 0.0
        for t, of in enumerate(x):
            f = np.zeros(len(names))
            f[[names.index(name) for name in of]] = [*of.values()]
            first = (size == 0.0) & (f != 0.0)
            variance[3:][first] = 1.0 / f[first, None] ** 2
            size[first] = np.abs(f[first])
            grown = np.abs(f) > 5.0 * size
            narrowed += int(grown.sum())
            h = (f[grown] ** 2 / 25.0 - size[grown] ** 2)[:, None]
            w[3:][grown] /= 1.0 + variance[3:][grown] * h
            variance[3:][grown] /= 1.0 + variance[3:][grown] * h
            size[grown] = np.abs(f[grown]) / 5.0
            true = np.array([tag == labels[t] for tag in TAGS], float)
            of_label = [
                sum(q for z, q in zip(counts, p, strict=True) if z[t] == tag) for tag in TAGS
            ]
            m = np.log(of_label) + f @ (w - before)[3:]
            r = true - softmax(m)
            d = f**2 @ variance[3:] * r

            def slope(a: float, m: Any = m, d: Any = d, r: Any = r, true: Any = true) -> float:
                return float((true - softmax(m + a * d)) @ d - a * r @ d)

            a = brentq(slope, 0.0, 1.0, xtol=1e-14) if slope(1.0) < 0.0 else 1.0
            w[3:] += a * variance[3:] * np.outer(f, r)
            after = softmax(m + a * d)
            variance[3:] /= 1.0 + variance[3:] * np.outer(f**2, after * (1.0 - after))
            wrong, moved = wrong + 1.0 - true @ of_label, moved + a * true @ r
        if len(x) > 1:
            steps = np.tensordot(p, np.array([*counts.values()]), 1)[:3]
            variance[:3][variance[:3] == 0.0] = 1.0
            pairs = len(x) - 1
            variance[:3] /= 1.0 + variance[:3] * steps * (1.0 - steps / pairs)
            gap = vector(x, labels, names)[:3] - steps
            w[:3] += min(moved / wrong, 1.0) * variance[:3] * gap
        tagger.learn_one(x, labels)
        learned = tagger.learned_
        found, rows = np.zeros(shape), learned.weights.averaged()
        found[:3] = rows[:3]
        for n, name in enumerate(learned.features.names, 3):
            found[3 + names.index(name)] = rows[n]
        np.testing.assert_allclose(found, w, atol=1e-7)
    assert learned.weights.certificate()["loss"] == pytest.approx(np.mean([0.0, *losses]), rel=1e-6)
    assert narrowed > 3


def test_the_unit_of_a_number_does_not_matter_to_second_order() -> None:
    X, y = sequences(6, 60, numbers=True)
    units = [[{f: n * (1e12 if f < "B" else 1e-9) for f, n in of.items()} for of in x] for x in X]
    one, other = (SequenceTagger("second-order").fit(x[:40], y[:40]) for x in (X, units))
    for p, q in zip(one.predict_marginals(X), other.predict_marginals(units), strict=True):
        assert [[*x.values()] for x in p] == [pytest.approx([*x.values()], abs=1e-6) for x in q]


@pytest.mark.parametrize(("update", "loss"), UPDATES)
def test_the_unit_of_a_number_changes_no_label(update: str, loss: str) -> None:
    X, y = sequences(6, 60, numbers=True)
    units = [[{f: n * (1e6 if f < "B" else 1e-9) for f, n in of.items()} for of in x] for x in X]
    one, other = (SequenceTagger(update, loss).fit(x[:40], y[:40]) for x in (X, units))
    labels, same = (
        [*itertools.chain.from_iterable(of)] for of in (one.predict(X), other.predict(units))
    )
    assert np.mean(np.array(labels) == same) > 0.99


@pytest.mark.parametrize("classes", [None, TAGS])
@pytest.mark.parametrize("update", ["cda2", "adagrad", "log-likelihood"])
def test_numbers_may_come_late(update: str, classes: Any) -> None:
    """All were 1 before, by which features have units: in parts, pickled between, as in one call."""
    X, y = sequences(7, 40, numbers=False)
    numbers, labels = sequences(7, 40, numbers=True)
    numbers = [[{f: 30.0 * n for f, n in of.items()} for of in x] for x in numbers]
    y = [["A" if label == "B" else label for label in of] for of in y]  # B comes with numbers
    whole = SequenceTagger(update).partial_fit([*X, *numbers], [*y, *labels], classes)
    parts = SequenceTagger(update).partial_fit(X, y, classes)
    assert parts.learned_.weights.units == {}
    parts = pickle.loads(pickle.dumps(parts)).partial_fit(numbers[:20], labels[:20])
    parts = pickle.loads(pickle.dumps(parts))
    for x, of in zip(numbers[20:], labels[20:], strict=True):
        parts.learn_one(x, of)
    assert parts.weights_text() == whole.weights_text()
    assert parts.predict(numbers) == whole.predict(numbers)
    if classes is None:
        return
    learner = srl.OnlineLearner(MODEL, "Label", update=update)  # it knows all labels
    for x, of in zip([*X, *numbers], [*y, *labels], strict=True):
        learner.learn_one(evidence(x), truth(of))
    written = srl.OnlineLearner(whole.weights_text(), "Label")
    assert weights_of(written) == pytest.approx(weights_of(learner), rel=1e-9, abs=1e-12)


def test_no_first_number_is_too_small_nor_a_later_one_too_large_for_second_order() -> None:
    X = [[{"a": 1e-300, "b": 1.0}], [{"a": 1e30, "b": 1e-30}], [{"a": 1.0, "b": 1e30}]] * 5
    tagger = SequenceTagger("second-order").fit(X, [["A"], ["B"], ["A"]] * 5)
    weights = [*tagger.state_features_.values()]
    assert np.isfinite(weights).all() and np.isfinite(tagger.learned_.weights.certificate()["loss"])


@pytest.mark.parametrize(
    ("keys", "more", "said"),
    [
        ({"memory": 9}, {}, r"learner\.memory does not apply to a tagger"),
        ({"full": 9}, {}, r"learner\.full does not apply to a tagger"),
        ({}, {"class_weight": "balanced"}, "class_weight: not for update second-order"),
    ],
)
def test_what_second_order_taggers_lack_is_refused(keys: Any, more: Any, said: str) -> None:
    with pytest.raises(srl.UsageError, match=said):
        SequenceTagger({"update": "second-order", **keys}, **more).fit(*sequences(0, 3, False))


@pytest.mark.parametrize("update", ["log-likelihood", "second-order"])
def test_a_pickled_tagger_goes_on_with_the_same_bits(update: str) -> None:
    X, y = sequences(4, 30, numbers=True)
    one, other = SequenceTagger(update), SequenceTagger(update)
    one.partial_fit(X[:15], y[:15]).partial_fit(X[15:], y[15:])
    other.partial_fit(X[:15], y[:15])
    resumed = pickle.loads(pickle.dumps(other)).partial_fit(X[15:], y[15:])
    assert resumed.weights_text() == one.weights_text()
    assert resumed.predict_marginals(X) == one.predict_marginals(X)


def test_a_pickle_has_what_is_not_zero() -> None:
    """8 bytes for each number that is not 0, a bit for each of a row in use, and the names."""
    X = [[{"word": f"word{n}", "known": n % 7}] for n in range(2000)]
    tagger = SequenceTagger().fit(X, [[f"label{n % 50}"] for n in range(2000)])
    weights = tagger.learned_.weights
    columns = weights._columns().values()
    numbers, size = sum(map(np.count_nonzero, columns)), sum(column.size for column in columns)
    assert 20 * numbers < size
    assert len(pickle.dumps(tagger)) < 8 * numbers + size / 8 + 8 * 2000 + 2000


@pytest.mark.parametrize(
    ("update", "calibrated"),
    [
        ({"update": "adagrad"}, False),
        ({"update": "adagrad"}, True),
        ({"update": "log-likelihood"}, False),
        ({"update": "second-order", "predict": "averaged"}, False),
        ({"update": "subgradient", "predict": "current"}, False),
    ],
    ids=["adagrad", "calibrated", "log-likelihood", "second-order", "current"],
)
def test_a_pruned_tagger_predicts_by_what_is_left(update: Any, calibrated: bool) -> None:
    X, y = sequences(5, 60, numbers=True)
    tagger = SequenceTagger(update, calibrated=calibrated).fit(X[:40], y[:40])
    pruned = pickle.loads(pickle.dumps(copy.deepcopy(tagger).prune()))
    assert pruned.weights_text() == tagger.weights_text()
    assert pruned.predict(X) == tagger.predict(X)
    for p, q in zip(tagger.predict_marginals(X), pruned.predict_marginals(X), strict=True):
        if calibrated:  # the temperature is multiplied in another order
            assert [[*x.values()] for x in p] == [
                pytest.approx([*x.values()], abs=1e-12) for x in q
            ]
        else:
            assert p == q

    threshold = float(np.median(np.abs([*tagger.state_features_.values()])))
    assert pruned.prune(threshold) is pruned
    for name in ("state_features_", "transition_features_"):
        every = getattr(tagger, name).items()
        assert getattr(pruned, name) == {key: w for key, w in every if abs(w) > threshold}
    assert len(pickle.dumps(pruned)) < len(pickle.dumps(tagger))
    written = srl.OnlineLearner(pruned.weights_text(), "Label")
    assert pruned.predict(X) == [*map(labels_of, written.predict_many([*map(evidence, X)]))]


def test_a_pruned_tagger_does_not_go_on_but_is_fitted_anew() -> None:
    X, y = sequences(5, 20, numbers=False)
    tagger = SequenceTagger().fit(X, y).prune(0.01)
    before = tagger.weights_text()
    for learn in (lambda: tagger.partial_fit(X, y), lambda: tagger.learn_one(X[0], y[0])):
        with pytest.raises(srl.UsageError, match=r"pruned .* fit anew, or keep a copy"):
            learn()
    assert tagger.weights_text() == before
    for threshold in (-1.0, float("nan"), "much"):
        with pytest.raises(srl.UsageError, match=r"threshold is .*, expected a number, at least 0"):
            tagger.prune(threshold)  # type: ignore[arg-type]
    assert tagger.fit(X, y).weights_text() == SequenceTagger().fit(X, y).weights_text()
    assert tagger.partial_fit(X, y).predict(X) != []


@pytest.mark.parametrize("number", [1e3, 1.7e15, 1e30])
def test_a_large_number_loses_nothing_of_the_next_position(number: float) -> None:
    """It makes a label of the first position certain, so that the second has those of its steps."""
    X = [[{"n": 1.0}, {"w": "b"}], [{"n": -1.0}, {"w": "c"}], [{"n": 2.0}]] * 3
    tagger = SequenceTagger(update="perceptron").fit(X, [["A", "B"], ["B", "C"], ["A"]] * 3)
    weights = tagger.learned_.weights.averaged()
    first = int(np.argmax(weights[3]))
    expected = np.exp(weights[first]) / np.exp(weights[first]).sum()
    ((before, after),) = tagger.predict_marginals([[{"n": number}, {}]])

    assert [*before.values()] == pytest.approx(np.eye(3)[first], abs=1e-9)
    assert [*after.values()] == pytest.approx(expected, abs=1e-9)
    assert tagger.predict([[{"n": number}, {}]]) == [[TAGS[first], TAGS[int(expected.argmax())]]]


def test_numbers_beyond_those_of_evidence_are_refused() -> None:
    with pytest.raises(srl.InputError, match=r"sample 0, position 0: .*from -1e\+30 to 1e\+30"):
        SequenceTagger().fit([[{"n": 2e30}]], [["A"]])


def test_memory_is_that_of_the_averages_and_of_features_that_are_in_a_gap() -> None:
    """By feature and label u, v, a mark and the square, 28 bytes, and by feature its row.

    Of arrays the rows in front are used: memory that is never written to is not taken. Samples have 4 bytes
    for each feature of a position, and the numbers only where one is not 1.
    """
    X = [[{"word": str(n), "known": True}] for n in range(1000)]
    tagger = SequenceTagger("adagrad").fit(X, [["A"]] * 10 + [["B"]] * 990)
    learned = tagger.learned_
    weights, features = learned.weights, len(learned.features)
    arrays = [getattr(weights.arrays, name) for name in weights.arrays._names]
    chains = learned.read(X)

    assert features == 1001
    assert (
        sum(of.nbytes for of in [*arrays, *weights.optimizer_state.values()])
        <= 28 * 2 * 1003 + 4 * 1001 + 200
    )
    used = int(weights.arrays.size[0])
    assert used == 2 + np.count_nonzero(weights.averaged()[2:].any(axis=1)) < 20
    assert not weights.arrays.value[2 * used :].any()
    assert (chains.feature.nbytes, chains.number.nbytes) == (8000, 0)
    assert len(learned.read([[{"known": 2.0}]]).number) == 1


def test_a_temperature_calibrates_marginals_and_changes_no_label() -> None:
    X, y = sequences(3, 300, False)
    plain = SequenceTagger().fit(X[:200], y[:200])
    whole = SequenceTagger(calibrated=True).fit(X[:200], y[:200])
    tagger = SequenceTagger(calibrated=True).fit(X[:120], y[:120])
    tagger = pickle.loads(pickle.dumps(tagger)).partial_fit(X[120:200], y[120:200])
    assert tagger.weights_text() == whole.weights_text() == plain.weights_text()
    assert tagger.predict(X) == plain.predict(X)
    assert tagger.predict_marginals(X) == whole.predict_marginals(X)

    def log_likelihood(estimator: SequenceTagger) -> float:
        pairs = zip(estimator.predict_marginals(X[200:]), y[200:], strict=True)
        return sum(np.log(p[tag]) for ps, tags in pairs for p, tag in zip(ps, tags, strict=True))

    assert log_likelihood(tagger) > log_likelihood(plain) + 10


def test_a_temperature_makes_steps_of_adagrad_on_the_log_likelihood() -> None:
    """The slope is b (score(truth) - E score), over all labellings, by the weights before the truth."""
    X, y = sequences(5, 40, True)
    tagger = SequenceTagger(calibrated=True).partial_fit(X[:1], y[:1], classes=TAGS)
    log_b = squares = 0.0
    for x, truth in zip(X[1:], y[1:], strict=True):
        state, step = tagger.state_features_, tagger.transition_features_
        labellings = [*itertools.product(TAGS, repeat=len(x))]
        scores = np.zeros(len(labellings))
        for n, tags in enumerate(labellings):
            for features, tag in zip(x, tags, strict=True):
                scores[n] += sum(v * state.get((f, tag), 0.0) for f, v in features.items())
            scores[n] += sum(step.get(pair, 0.0) for pair in itertools.pairwise(tags))
        p = np.exp(np.exp(log_b) * scores)
        slope = np.exp(log_b) * (scores[labellings.index(tuple(truth))] - p @ scores / p.sum())
        squares += slope**2
        log_b += slope / squares**0.5 if squares else 0.0
        tagger.partial_fit([x], [truth])
        fitted = tagger.learned_.weights.temperature.value
        assert np.log(1 / fitted) == pytest.approx(log_b, rel=1e-6, abs=1e-9)
    assert abs(log_b) > 0.01


@pytest.mark.parametrize(
    ("update", "sigma"),
    [("adagrad", 1), ("adagrad", 30), ("cda1", 30), ("cda2", 1), ("simple", 1), ("subgradient", 1)],
)
def test_a_rare_label_is_predicted_where_that_is_cheaper(update: str, sigma: int) -> None:
    """Also where sigma bounds all steps: 16 % of those with the feature are rare."""
    random_ = np.random.default_rng(1)
    X, y = [], []
    for _ in range(200):
        rare = random_.random(10) < 0.05
        sees = random_.random(10) < np.where(rare, 0.9, 0.2)
        X.append([["sees" if see else "other"] for see in sees])
        y.append(["RARE" if each else "FREQUENT" for each in rare])
    found = {
        weight: srl.SequenceTagger(
            {"update": update, "sigma": sigma}, class_weight={"RARE": weight}
        )
        .fit(X, y)
        .predict([[["sees"]], [["other"]]])
        for weight in (0.5, 20.0)
    }
    assert found == {0.5: [["FREQUENT"], ["FREQUENT"]], 20.0: [["RARE"], ["FREQUENT"]]}
