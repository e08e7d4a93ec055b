"""What the classifier of rows costs and how good it is, beside river's and scikit-learn's, in one pass.

Each row is predicted before it is learned from. Rows are scored once every label was met.
"""

import csv
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest

import onlinesrl as srl
from tests.benchmarks.measure import show, sizes, timed
from tests.support.paths import REPO

Rows = list[tuple[dict[str, Any], Any]]
Learn = Callable[[dict[str, Any], Any], None]
Predict = Callable[[dict[str, Any]], dict[Any, float]]


def of_scikit_learn(name: str, binary: bool) -> Iterator[tuple[dict[str, Any], Any]]:
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    for x, label in zip(X.tolist(), y.tolist(), strict=True):
        yield {f"x{n}": value for n, value in enumerate(x)}, bool(label) if binary else label


def trust() -> Iterator[tuple[dict[str, Any], Any]]:
    """Is a rating in Bitcoin OTC positive, by who rates and who is rated? Encoded, as river needs them."""
    path = REPO.parent / "shared" / "data" / "bitcoin_otc" / "ratings.csv"
    if not path.exists():
        pytest.skip("the ratings are not here")
    with path.open() as file:
        ratings = [of for of in csv.reader(file) if of[2].lstrip("-").isdigit()]
    for rater, rated, rating, _ in sorted(ratings, key=lambda of: float(of[3])):
        yield {f"from {rater}": 1, f"to {rated}": 1}, int(rating) > 0


@cache
def rows_of(name: str) -> Rows:
    from river import datasets

    match name:
        case "trust":
            return [*trust()]
        case "breast_cancer" | "digits":
            return [*of_scikit_learn(name, name != "digits")]
        case "Shuttle":
            return [(x, bool(y)) for x, y in datasets.Shuttle()]
    return [*getattr(datasets, name)()]


def ours(rows: Rows, labels: list[Any]) -> tuple[Predict, Learn]:
    classifier = srl.Classifier()
    return classifier.predict_proba_one, classifier.learn_one


def river(rows: Rows, labels: list[Any]) -> tuple[Predict, Learn]:
    from river import compose, linear_model, multiclass, preprocessing

    model: Any = linear_model.LogisticRegression()
    if len(labels) > 2:
        model = multiclass.OneVsRestClassifier(model)
    if len(rows[0][0]) > 2:
        model = compose.Pipeline(preprocessing.StandardScaler(), model)
    return model.predict_proba_one, model.learn_one


def river_softmax(rows: Rows, labels: list[Any]) -> tuple[Predict, Learn]:
    from river import linear_model, preprocessing

    model: Any = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
    return model.predict_proba_one, model.learn_one


def scikit_learn(rows: Rows, labels: list[Any]) -> tuple[Predict, Learn]:
    """A scaler and SGD, row by row."""
    from sklearn.linear_model import SGDClassifier
    from sklearn.preprocessing import StandardScaler

    scaler, model = StandardScaler(), SGDClassifier(loss="log_loss")
    classes, place = np.arange(len(labels)), {label: n for n, label in enumerate(labels)}

    def predict(x: dict[str, Any]) -> dict[Any, float]:
        if not hasattr(model, "coef_"):
            return {}
        p = model.predict_proba(scaler.transform([[*x.values()]]))[0]
        return dict(zip(labels, p.tolist(), strict=True))

    def learn(x: dict[str, Any], y: Any) -> None:
        row = scaler.partial_fit([[*x.values()]]).transform([[*x.values()]])
        model.partial_fit(row, [place[y]], classes)

    return predict, learn


def progressive(rows: Rows, predict: Predict, learn: Learn) -> list[dict[Any, float]]:
    predicted = []
    for x, y in rows:
        predicted.append(predict(x))
        learn(x, y)
    return predicted


def scored(rows: Rows, predicted: list[dict[Any, float]], labels: list[Any]) -> list[float]:
    """Return log-loss, accuracy and calibration error of what is predicted once all labels were met."""
    missing, first = {*labels}, 0
    for first, (_, y) in enumerate(rows, 1):  # noqa: B007
        missing.discard(y)
        if not missing:
            break
    truth = [y for _, y in rows[first:]]
    loss = [
        -np.log(max(p.get(y, 0.0), 1e-15)) for p, y in zip(predicted[first:], truth, strict=True)
    ]
    best = [max(p, key=p.__getitem__) for p in predicted[first:]]
    right = np.array([a == b for a, b in zip(best, truth, strict=True)])
    confidence = np.array([p[label] for p, label in zip(predicted[first:], best, strict=True)])
    part = np.minimum((10 * confidence).astype(int), 9)
    error = sum(abs(np.sum((right - confidence)[part == n])) for n in range(10)) / len(right)
    return [float(np.mean(loss)), float(np.mean(right)), float(error)]


WAYS = {
    "srl.Classifier": ours,
    "river": river,
    "river, softmax": river_softmax,
    "SGD": scikit_learn,
}


@pytest.mark.parametrize(
    ("name", "loss", "most"),
    [
        ("Phishing", 0.275, 2.0),
        ("breast_cancer", 0.145, 2.0),
        ("ImageSegments", 0.45, 2.0),
        ("digits", 0.26, 2.0),
        ("Shuttle", 0.03, 2.0),
        ("trust", 0.18, 10.0),  # without a scaler
    ],
)
@sizes("size, rounds", (150, 1), (None, 5))
def test_rows_are_learned_at_twice_the_cost_of_rivers_scaled_logistic_regression(
    name: str, loss: float, most: float, size: int | None, rounds: int
) -> None:
    rows = [*islice(rows_of(name), size)]
    labels = sorted({y for _, y in rows})
    table, cost = [], {}
    for way, make in WAYS.items():
        if (way == "river, softmax" and len(labels) < 3) or (way == "SGD" and name == "trust"):
            continue
        seconds = []
        for _ in range(1 if way == "SGD" else rounds):
            predict, learn = make(rows, labels)
            second, predicted = timed(lambda p=predict, y=learn: progressive(rows, p, y))
            seconds.append(second)
        cost[way] = min(seconds)
        table.append((way, *scored(rows, predicted, labels), 1e6 * cost[way] / len(rows)))
    head = ("", "log-loss", "accuracy", "calibration error", "microseconds a row")
    show(f"{name}: {len(rows):,} rows in one pass", head, table)
    if size is None:
        assert table[0][1] < loss
        assert table[0][1] < min(of[1] for of in table[1:])
        assert cost["srl.Classifier"] <= most * cost["river"]
    else:
        assert table[0][1] < np.log(max(2, len(labels)))
