"""What users of scikit-learn and river expect of the classifier of rows."""

import copy
import doctest
import pickle
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import onlinesrl as srl
from onlinesrl.core.kernels import softmax as k
from onlinesrl.library.estimators import classifier as module
from onlinesrl.library.estimators.classifier import FULL, PRIOR

NAN = float("nan")
CONTRARY_CHECKS = {
    "check_estimator_tags_renamed": "river has tags by the name that scikit-learn's had before 1.6",
    "check_supervised_y_2d": "labels in a column are refused, since a label may not be a list",
    "check_array_api_input": "runs only where scipy is told to take arrays of other libraries",
}


def rows(size: int, seed: int = 0) -> tuple[list[dict[str, Any]], list[Any]]:
    """Rows of two numbers, a category and a boolean, whose label follows from them, with noise."""
    rng = np.random.default_rng(seed)
    X = [
        {
            "age": float(rng.normal(40, 12)),
            "income": float(rng.normal(3e4, 9e3)),
            "town": str(rng.choice(["Rome", "Oslo", "Bern"])),
            "new": bool(rng.integers(2)),
        }
        for _ in range(size)
    ]
    noise = rng.normal(size=size).tolist()
    score = [x["age"] / 12 - 3 + (x["town"] == "Rome") - 2 * x["new"] for x in X]
    return X, [a + b > 0 for a, b in zip(score, noise, strict=True)]


def of_three(size: int) -> tuple[list[dict[str, Any]], list[str]]:
    X, y = rows(size)
    return X, [x["town"] if label else "none" for x, label in zip(X, y, strict=True)]


def state(classifier: srl.Classifier) -> bytes:
    """What it has learned, with the names of features, and without memory kept ahead."""
    weights = {f"{f}": value for f, value in classifier.weights_.items()}
    return pickle.dumps([weights, classifier.learned_.classes])


# learning ----------------------------------------------------------------------------------------


def test_probabilities_are_those_of_plain_numpy() -> None:
    """The recursion of weights and covariances, each row predicted before it is learned from."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(150, 3)) * [1.0, 1e-4, 1e5], np.ones(150)]
    y = rng.integers(3, size=150)
    y[:3] = 0, 1, 2
    classifier = srl.Classifier()
    w, s, scale = np.zeros((3, 4)), np.zeros((3, 4, 4)), np.abs(X[0])
    s[:, np.arange(4), np.arange(4)] = PRIOR / scale**2
    for n, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        if n >= 3:
            expected = softmax(w @ x)
            of = classifier.predict_proba_one({"a": x[0], "b": x[1], "c": x[2]})
            np.testing.assert_allclose([of[c] for c in range(3)], expected, rtol=1e-7)
        classifier.learn_one({"a": x[0], "b": x[1], "c": x[2]}, label)
        if n < 3:  # labels are met one after the other
            learned = classifier.learned_
            for c, part in enumerate(learned.parts):
                order = [part.covariance.slot[i] - 1 for i in (1, 2, 3, 0)]
                w[c] = part.weight[[1, 2, 3, 0]]
                s[c] = part.covariance.matrix[np.ix_(order, order)]
            continue
        a = s @ x
        scores = k.Scores.zeros({"mean": w @ x, "variance": a @ x}, label=3)
        k.find_mode(scores, label)
        w += a * scores.residual[:, None]
        h = scores.probability * (1.0 - scores.probability)
        s -= np.einsum("ki,kj,k->kij", a, a, h / (1.0 + h * (a @ x)))


@pytest.mark.parametrize("make", [rows, of_three])
def test_fit_partial_fit_and_single_rows_learn_the_same(make: Any) -> None:
    """Also where categories and labels come late, and where there are more weights than slots."""
    X, y = make(120)
    y[60:] = ["late" if x["new"] else label for x, label in zip(X[60:], y[60:], strict=True)]
    X = [{**x, "number": f"{n % (FULL + 20)}"} for n, x in enumerate(X * 3)]
    y = y * 3
    single = srl.Classifier()
    for x, label in zip(X, y, strict=True):
        single.learn_one(x, label)
    parts = srl.Classifier().partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    frame = pd.DataFrame(X)
    for other in (
        parts,
        srl.Classifier().fit(X, y),
        srl.Classifier().fit(frame, y),
        srl.Classifier().fit(frame, pd.Series(y)),
    ):
        assert state(other) == state(single)
    several = srl.Classifier().fit(X, y).predict_proba(frame)
    for x, p in zip(X, several, strict=True):
        of = single.predict_proba_one(x)
        assert [of[label] for label in parts.classes_.tolist()] == p.tolist()


def test_arrays_of_numbers_are_rows_with_numbers() -> None:
    X, y = np.random.default_rng(0).normal(size=(80, 3)), [0, 1, 1, 2] * 20
    classifier = srl.Classifier().fit(X, y)
    assert state(classifier) == state(srl.Classifier().fit(X.tolist(), y))
    assert state(classifier) == state(srl.Classifier().fit([dict(enumerate(x)) for x in X], y))
    assert classifier.n_features_in_ == 3
    assert classifier.predict_one(X[5]) == classifier.predict(X)[5]
    assert classifier.predict_one(pd.Series(X[5])) == classifier.predict(X)[5]
    named = srl.Classifier().fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    np.testing.assert_array_equal(named.predict_proba(X), classifier.predict_proba(X))
    assert named.feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("two", [Decimal(2), Fraction(2), np.float32(2), np.int64(2)])
def test_a_number_of_any_type_is_one_in_the_first_row_and_later(two: Any) -> None:
    given, plain = ([{"x": x}, {"x": 1.0}, {"x": x}] for x in (two, 2.0))
    labels = [True, False, True]
    learned, expected = srl.Classifier().fit(given, labels), srl.Classifier().fit(plain, labels)
    assert learned.weights_ == expected.weights_


def test_units_do_not_matter() -> None:
    X, y = rows(200)
    plain = srl.Classifier().fit(X, y)
    scaled = [{**x, "income": x["income"] * 2.0**40, "age": x["age"] * 2.0**-20} for x in X]
    other = srl.Classifier().fit(scaled, y)
    np.testing.assert_allclose(other.predict_proba(scaled), plain.predict_proba(X), rtol=1e-9)


def test_a_constant_feature_and_one_that_grows_by_a_million_break_nothing() -> None:
    X, y = rows(400)
    changed = [
        {**x, "same": 7e8, "age": x["age"] * (1e6 if n >= 200 else 1)} for n, x in enumerate(X)
    ]
    right = []
    for stream in (X, changed):
        classifier, right_of = srl.Classifier(), 0
        for n, (x, label) in enumerate(zip(stream, y, strict=True)):
            p = classifier.predict_proba_one(x)
            assert all(0.0 <= value <= 1.0 for value in p.values())
            right_of += n >= 250 and classifier.predict_one(x) == label
            classifier.learn_one(x, label)
        right.append(right_of)
    assert right[1] > 0.85 * right[0] > 100, right


def test_labels_stay_what_they_are() -> None:
    X, y = rows(50)
    classifier = srl.Classifier()
    assert classifier.predict_one(X[0]) is None
    assert classifier.predict_proba_one(X[0]) == {}
    classifier.learn_one(X[0], np.True_)
    assert [*classifier.predict_proba_one(X[1])] == [False, True]  # both are known from one
    classifier.partial_fit(X, y)
    assert {type(label) for label in classifier.predict_proba_one(X[0])} == {bool}
    assert type(classifier.predict_one(X[0])) is bool
    assert classifier.predict(X).dtype == bool
    words = srl.Classifier().partial_fit(X, ["ny"[label] for label in y], classes=["n", "y"])
    assert words.classes_.tolist() == ["n", "y"]
    assert words.predict_proba(X).tolist() == srl.Classifier().fit(X, y).predict_proba(X).tolist()
    words.learn_one(X[0], 3)
    assert words.classes_.tolist() == [3, "n", "y"]
    assert srl.Classifier().partial_fit(X, y, classes=[True, "other"]).classes_.tolist() == [
        False,
        True,
        "other",
    ]


def test_what_is_missing_is_a_category_of_its_own() -> None:
    """None, NaN and pandas' NA; what is not in the row counts for nothing."""
    X = [{"a": n % 3 if n % 2 else NAN, "b": "x"} for n in range(60)]
    y = [not n % 2 for n in range(60)]
    classifier = srl.Classifier().fit(X, y)
    missing: list[Any] = [NAN, None, pd.NA, np.float32("nan")]
    p = [classifier.predict_proba_one({"a": value, "b": "x"}) for value in missing]
    assert p == p[:1] * 4
    assert p[0][True] > 0.9
    assert classifier.predict_proba_one({"a": 1, "b": "x"})[True] < 0.5
    assert classifier.weights_[("a", None), True][0] > 0 > classifier.weights_[("a",), True][0]
    frame = pd.DataFrame({"a": pd.array([None, 1, 2], "Int64"), "b": ["x", None, "x"]})
    assert srl.Classifier().fit(frame, y[:3]).classes_.tolist() == [False, True]
    known, unknown = {"a": 1}, {"a": 1, "b": "never", "c": 9.0}
    assert classifier.predict_proba_one(known) == classifier.predict_proba_one(unknown)


def test_weights_have_standard_errors_that_shrink() -> None:
    X, y = rows(400)
    few, many = (srl.Classifier().fit(X[:n], y[:n]).weights_ for n in (40, 400))
    assert few.keys() == many.keys()
    assert all(many[name][1] < few[name][1] for name in few)
    assert many[("age",), True][0] > 2 * many[("age",), True][1]
    assert () in {feature for feature, _ in many}


@pytest.mark.parametrize("through", ["pickle", "joblib", "copy"])
def test_what_is_stored_goes_on_learning(through: str, tmp_path: Any) -> None:
    X, y = of_three(90)
    classifier = srl.Classifier().fit(X[:50], y[:50])
    if through == "joblib":
        joblib.dump(classifier, tmp_path / "classifier")
        other = joblib.load(tmp_path / "classifier")
    elif through == "pickle":
        other = pickle.loads(pickle.dumps(classifier))
    else:
        other = copy.deepcopy(classifier)
    before = state(classifier)
    for x, label in zip(X[50:], y[50:], strict=True):
        other.learn_one(x, label)
    assert state(classifier) == before
    assert state(other) == state(classifier.partial_fit(X[50:], y[50:]))


# other libraries ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn() -> None:
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(srl.Classifier(), on_fail=None, on_skip=None)
    assert len(results) > 50
    failed = {of["check_name"] for of in results if of["status"] != "passed"}
    assert failed == CONTRARY_CHECKS.keys()


@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_river() -> None:
    from river.checks import yield_checks

    for check in yield_checks(srl.Classifier()):
        check(srl.Classifier())


def test_probabilities_across_folds() -> None:
    from sklearn.datasets import load_breast_cancer
    from sklearn.metrics import log_loss
    from sklearn.model_selection import cross_val_predict

    X, y = load_breast_cancer(return_X_y=True)
    p = cross_val_predict(srl.Classifier(), X, y, cv=5, method="predict_proba")
    assert log_loss(y, p) < 0.15


def test_river_evaluates_it_alone_and_in_a_pipeline() -> None:
    """On Phishing, river's scaled logistic regression has a log-loss of .330."""
    from river import base, datasets, evaluate, metrics, preprocessing

    for model in (srl.Classifier(), preprocessing.StandardScaler() | srl.Classifier()):
        assert isinstance(model, base.Classifier)
        loss, accuracy = metrics.LogLoss(), metrics.Accuracy()
        evaluate.progressive_val_score(datasets.Phishing(), model.clone(), loss)
        evaluate.progressive_val_score(datasets.Phishing(), model.clone(), accuracy)
        assert loss.get() < 0.275
        assert accuracy.get() > 0.885


# mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([{"a": 1}], [1, 2], "X has 1 rows, but y has 2 labels"),
        ([{"a": 1}, {"a": float("inf")}], [1, 2], "row 1: feature 'a' is inf, expected a finite"),
        ([{"a": 10**400}], [1], "row 0: feature 'a' is 1000000"),
        ([{"a": [1]}], [1], r"feature 'a' is \[1\] \(list\), expected a number, a string"),
        ([{"a": 1}], [None], "row 0: the label is None, expected a boolean"),
        ([{"a": 1}], [NAN], "row 0: the label is nan"),
        ([{"a": 1}], [0.5], r"Unknown label type: row 0: the label is 0\.5"),
        ([{"a": 1}], [["x"]], "row 0: the label is"),
        ([{"a": 1}], None, "y is None"),
        ([], [], "X has no row"),
        ("abc", [1], "X is a str, expected rows"),
        ({"a": 1}, [1], "X is a dict, expected rows"),
        ([3.0], [1], r"row 0 is a float, expected a mapping.* Reshape your data"),
        (np.zeros((0, 3)), [], r"0 sample\(s\)"),
        (np.zeros(3), [1, 2, 3], "1 dimensions instead. Reshape your data"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), [1], "two columns of one name"),
    ],
)
def test_a_mistake_is_named_and_changes_nothing(X: Any, y: Any, message: str) -> None:
    more, labels = rows(30)
    classifier = srl.Classifier().fit(more, labels)
    before = state(classifier)
    for learn in (classifier.fit, classifier.partial_fit):
        with pytest.raises(srl.InputError, match=message):
            learn(X, y)
        assert state(classifier) == before
    with pytest.raises(srl.InputError, match="x: feature 'age' is inf"):
        classifier.learn_one({"other": 1, "age": float("inf")}, True)
    with pytest.raises(srl.InputError, match="y: the label is None"):
        classifier.learn_one(more[0], None)
    assert state(classifier) == before
    with pytest.raises(srl.InputError, match="an online update has no weights of samples"):
        classifier.fit(more, labels, sample_weight=[1.0] * 30)


def test_tables_of_other_columns_are_refused() -> None:
    X, y = rows(30)
    classifier = srl.Classifier().fit(pd.DataFrame(X), y)
    with pytest.raises(srl.InputError, match="X has 3 features, but Classifier is expecting 4"):
        classifier.predict(np.zeros((2, 3)))
    with pytest.raises(srl.InputError, match="X has columns salary, which"):
        classifier.predict(pd.DataFrame(X).rename(columns={"income": "salary"}))
    turned = pd.DataFrame(X)[["town", "new", "income", "age"]]
    np.testing.assert_array_equal(classifier.predict(turned), classifier.predict(pd.DataFrame(X)))


def test_what_has_learned_nothing_says_so() -> None:
    from sklearn.exceptions import NotFittedError

    for ask in (srl.Classifier().predict, srl.Classifier().predict_proba):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ask(np.zeros((1, 2)))
    assert not hasattr(srl.Classifier(), "classes_")


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(module).failed == 0


def test_it_needs_neither_scikit_learn_nor_river() -> None:
    code = "import sys; sys.modules['river'] = None; import onlinesrl as s;"
    code += "c = s.Classifier().fit([{'a': 1.0}, {'a': 'x'}], [True, False]);"
    code += "s.SequenceTagger().fit([[{'a': 'b'}]], [['x']]);"
    code += "print(c.predict_one({'a': 'x'}), 'sklearn' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False False\n"
