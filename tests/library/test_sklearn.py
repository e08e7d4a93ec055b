"""scikit-learn's own checks of estimators, and its tools on top of ours.

Its checks give every estimator a matrix of numbers and a vector of labels, so most of them do not apply to
estimators of sequences and of linked things. Those that need no data apply as they are; all others run on
two adapters, which take a row of a matrix as a sequence of one position, or as one thing without links.
"""

from typing import Any

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.library.estimators.estimator import Estimator

NOT_APPLICABLE = {
    "check_estimator_tags_renamed": "river has tags by the name that scikit-learn's had before 1.6",
    "check_array_api_input": "runs only where scipy is told to take arrays of other libraries",
    "check_class_weight_classifiers": "weights of 1000 to 0.0001 scale the margin, not the gradient",
}


class Adapter(Estimator):
    """A classifier of the rows of a matrix, checked as scikit-learn's own classifiers check them."""

    def sample(self, row: list[float]) -> Any:
        raise NotImplementedError

    def samples(self, X: Any) -> list[Any]:
        return [self.sample(row) for row in X.tolist()]

    def labels(self, y: Any) -> list[Any]:
        whole = y.astype(int) if y.dtype.kind == "f" else y
        return [[label] for label in whole.tolist()]

    def checked(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import validate_data

        X, y = validate_data(self, X, y, reset=reset)
        check_classification_targets(y)
        return self.samples(X), self.labels(y)

    def fit(self, X: Any, y: Any) -> Any:
        return super().fit(*self.checked(X, y, reset=True))

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:
        reset = not hasattr(self, "n_features_in_")
        return super().partial_fit(*self.checked(X, y, reset), classes)

    def predict(self, X: Any) -> Any:
        from sklearn.utils.validation import check_is_fitted, validate_data

        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return np.array([label for (label,) in super().predict(self.samples(X))])

    def score(self, X: Any, y: Any) -> Any:
        return float(np.mean(self.predict(X) == y))

    @property
    def classes_(self) -> Any:
        return np.array(sorted(super().classes_))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        tags.input_tags.two_d_array = tags.target_tags.one_d_labels = True
        tags.no_validation = False
        return tags


class RowTagger(Adapter, srl.SequenceTagger):
    def sample(self, row: list[float]) -> Any:
        return [{"any": True} | {str(n): x for n, x in enumerate(row)}]


class RowClassifier(Adapter, srl.LinkedClassifier):
    """Of numbers it has the sign and the size in halves."""

    def sample(self, row: list[float]) -> Any:
        return [{"any": True} | {str(n): str(round(2 * x)) for n, x in enumerate(row)}], []


@pytest.mark.parametrize("cls", [RowTagger, RowClassifier])
@pytest.mark.filterwarnings("ignore")
def test_checks_with_data(cls: Any) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    found = check_estimator(cls(), on_fail=None, on_skip=None)
    assert len(found) > 50
    for each in found:
        if each["check_name"] not in NOT_APPLICABLE:
            assert each["status"] == "passed", (each["check_name"], each["exception"])


X = [
    [{"word": word, "position": 0.1 * t} for t, word in enumerate(text.split())]
    for text in ["the cat sat", "a dog ran off", "the dog sat", "a cat ran"] * 3
]
Y = [[{"the": "D", "a": "D", "cat": "N", "dog": "N"}.get(of["word"], "V") for of in x] for x in X]


def numbered(X: Any) -> Any:
    return [[{**of, "number": len(x)} for of in x] for x in X]


def test_a_grid_search_over_a_pipeline() -> None:
    from sklearn.model_selection import GridSearchCV, KFold
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    pipeline = Pipeline(
        [("more", FunctionTransformer(numbered)), ("tagger", srl.SequenceTagger(passes=3))]
    )
    grid = {"tagger__sigma": [0.01, 1.0], "tagger__update": ["cda2", "adagrad"]}
    search = GridSearchCV(pipeline, grid, cv=KFold(3)).fit(X, Y)
    assert search.best_score_ == 1.0
    assert search.predict(X) == Y
    assert len(search.cv_results_["params"]) == 4


def test_predictions_across_folds() -> None:
    """They come as an array of lists, in the order of the samples, for samples of any lengths."""
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import cross_val_predict, cross_val_score, cross_validate

    found = cross_val_predict(srl.SequenceTagger(), X, Y, cv=3)
    assert found.shape == (len(X),)
    assert found.tolist() == Y
    graphs = [([{"word": of["word"]} for of in x], []) for x in X]
    found = cross_val_predict(srl.LinkedClassifier(), graphs, Y, cv=3)
    assert [*map(len, found)] == [*map(len, Y)]
    parts = cross_validate(
        srl.SequenceTagger("log-likelihood"), X, Y, cv=3, return_estimator=True, return_indices=True
    )
    for tagger, test in zip(parts["estimator"], parts["indices"]["test"], strict=True):
        of = tagger.predict_marginals([X[n] for n in test])
        assert [[max(p, key=p.get) for p in x] for x in of] == [Y[n] for n in test]
    scorer = make_scorer(srl.chunk_f1)
    assert np.mean(cross_val_score(srl.SequenceTagger(), X, Y, cv=3, scoring=scorer)) == 1.0


def test_a_clone_has_the_parameters_and_nothing_learned() -> None:
    from sklearn.base import clone
    from sklearn.utils.validation import check_is_fitted

    tagger = srl.SequenceTagger({"update": "adagrad", "delta": 0.5}, sigma=0.2).fit(X, Y)
    other = clone(tagger)
    assert other.get_params() == tagger.get_params()
    assert not hasattr(other, "learned_")
    check_is_fitted(tagger)
    assert repr(tagger) == "SequenceTagger(update={'update': 'adagrad', 'delta': 0.5}, sigma=0.2)"
