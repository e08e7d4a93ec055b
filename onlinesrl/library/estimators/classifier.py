"""The classifier of rows: multinomial logistic regression, learned in one pass by its second order."""

from __future__ import annotations

import copy
import math
import operator
from array import array
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Self, TypeAlias

import numpy as np

from onlinesrl.core.absence import is_absent
from onlinesrl.core.arrays import Floats, Ints, enlarged
from onlinesrl.core.errors import InputError, shown
from onlinesrl.core.example import MOST
from onlinesrl.core.interrupt import whole
from onlinesrl.core.jit.address import addresses
from onlinesrl.core.kernels import softmax as k
from onlinesrl.core.kernels.covariance import Covariance, variance_of
from onlinesrl.library.estimators.estimator import Parameters, RowClassifier, check_none
from onlinesrl.library.estimators.features import finite
from onlinesrl.library.estimators.samples import listed

Label: TypeAlias = bool | int | float | str
Row: TypeAlias = tuple[Ints, Floats]
"""The numbers of a row's features, and the values of these."""
PRIOR = 2.5**2
"""The variance of a weight before learning, times the square of its feature's size (Gelman et al. 2008)."""
FULL = 200
"""So many weights of a class have their covariances in full; others have a variance each."""


class Classifier(Parameters, RowClassifier):
    """Classifies rows of numbers, categories and booleans, one after the other, with probabilities.

    A row is a mapping from names to values, or a row of an array or of a data frame. A string is a
    category, true is 1 and false 0. A value that is missing (None or NaN) is a category of its own. Labels
    are booleans, whole numbers or strings, of any number, and may be new at any time, as may categories and
    names. What was never learned from counts for nothing in a prediction.

    It is a classifier of scikit-learn, whose samples ``fit`` takes once, in their order, and one of river. It
    is multinomial logistic regression, with the mean and the covariance of its weights (``softmax``), which
    needs no rate and no scaling: ``fit``, ``partial_fit`` and ``learn_one`` of the same rows in one
    order give the same weights. Between the weights of different classes there are no covariances.

    After an exception it is what it was before. Raises InputError, NotFittedError.

    >>> rows = [{"age": 41, "town": "Rome"}, {"age": 19, "town": "Oslo"}, {"age": None, "town": "Rome"}]
    >>> classifier = Classifier().fit(rows, [True, False, True])
    >>> classifier.predict_one({"age": 30, "town": "Rome"})
    True
    """

    learned_: Learned
    noun = "label"

    def fit(self, X: Any, y: Any, **parameters: Any) -> Self:
        """Learn anew from rows X and their labels y, once each, in their order."""
        check_none(parameters)
        self.learned_ = _learned(Learned(), X, y, None)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Sequence[Label] | None = None, **parameters: Any
    ) -> Self:
        """Go on learning from rows X and their labels y; ``classes`` are further labels.

        What was learned is copied once, so that an exception leaves it as it was.
        """
        check_none(parameters)
        learned = copy.deepcopy(self.learned_) if self.__sklearn_is_fitted__() else Learned()
        self.learned_ = _learned(learned, X, y, classes)
        return self

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn from one row x and its label y."""
        learned = self.learned_ if self.__sklearn_is_fitted__() else Learned()
        label = _label(y, "y")
        learned.learn(learned.columns.read(x, "x", adding=True), label)
        self.learned_ = learned

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each label of ``classes_`` for each row, float64[row, label]."""
        learned: Learned = self._labelling()
        rows = [learned.predict(row) for row in learned.columns.rows(X, adding=False)]
        probabilities: Floats = np.array(rows)[:, learned.order()]
        return probabilities

    def predict(self, X: Any) -> Any:
        """Return the most probable label of each row, as an array."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba_one(self, x: Any) -> dict[Label, float]:
        """Return the probability of each label for one row; nothing before any label was met."""
        if not self.__sklearn_is_fitted__():
            return {}
        learned = self.learned_
        probabilities = learned.predict(learned.columns.read(x, "x", adding=False))
        return dict(zip(learned.classes, probabilities.tolist(), strict=True))

    def predict_one(self, x: Any) -> Label | None:
        """Return the most probable label of one row; None before any label was met."""
        probabilities = self.predict_proba_one(x)
        return max(probabilities, key=probabilities.__getitem__) if probabilities else None

    def score(self, X: Any, y: Any, **parameters: Any) -> float:
        """Return the share of labels that are predicted right."""
        check_none(parameters)
        labels, predicted = _labels(y), self.predict(X).tolist()
        if len(labels) != len(predicted):
            raise InputError(f"X has {len(predicted)} rows, but y has {len(labels)} labels")
        right: int = sum(map(operator.eq, labels, predicted))
        return right / len(labels)

    @property
    def classes_(self) -> Any:
        """The labels in ascending order, as an array."""
        learned = self._fitted()
        labels = [learned.classes[n] for n in learned.order()]
        array = np.array(labels)
        return array if len({*map(type, labels)}) < 2 else np.array(labels, dtype=object)

    @property
    def weights_(self) -> dict[tuple[Any, Label], tuple[float, float]]:
        """The weight of each feature and label, with its standard error.

        A feature is the name of a number, a pair of a name and a category (None where it is missing), or the
        intercept, which is the empty pair. Of a label's weights only differences from other labels' matter.
        """
        return dict(self._labelling().weights())

    @property
    def n_features_in_(self) -> int:
        """The number of columns of the first table learned from."""
        return len(self._columns())

    @property
    def feature_names_in_(self) -> Any:
        """The names of the columns of the first table learned from, where these are strings."""
        if all(isinstance(name, str) for name in self._columns()):
            return np.array(self._columns(), dtype=object)
        raise AttributeError("the columns of the first table learned from have no names")

    def _columns(self) -> list[Any]:
        columns: list[Any] | None = self._fitted().columns.table
        if columns is None:
            raise AttributeError("no table was learned from, but rows with names")
        return columns

    @property
    def _multiclass(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know: rows may have strings and missing values."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        inputs = InputTags(
            two_d_array=True, dict=True, string=True, categorical=True, allow_nan=True
        )
        return Tags(
            "classifier",
            TargetTags(required=True, one_d_labels=True),
            classifier_tags=ClassifierTags(),
            input_tags=inputs,
        )


class Learned:
    """What a classifier has learned: numbered features and labels, and the weights of each label."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.classes: list[Label] = []
        self.number: dict[Label, int] = {}
        self._hold(np.zeros((0, 0)), [])

    def _hold(self, weight: Floats, covariances: Sequence[Covariance]) -> None:
        """Take over weights [label, feature] and their covariance for each label."""
        self.weight = weight
        self.parts = [k.ClassWeights(c, row) for c, row in zip(covariances, weight, strict=True)]
        self.addresses = addresses(self.parts)
        self.scores = k.Scores.zeros(label=len(weight))

    def meet(self, label: Label) -> None:
        """Give a label a number if it is new; with a boolean, both."""
        with whole():
            for new in (False, True) if isinstance(label, bool) else (label,):
                if new not in self.number:
                    self.number[new] = len(self.classes)
                    self.classes.append(new)

    def _make_room(self) -> None:
        """Make room for all features and labels that have numbers.

        Where features were met before a label was, the variances of its weights are those of their sizes.
        """
        labels, features, room = len(self.classes), len(self.columns.features), self.weight.shape[1]
        if labels == len(self.weight) and features <= room:
            return
        room = room if features <= room else max(features, 2 * room)
        weight = np.zeros((labels, room))
        weight[: len(self.weight), : self.weight.shape[1]] = self.weight
        covariances = [_grown(part.covariance, room) for part in self.parts]
        scale = covariances[0].scale if covariances else np.zeros(room)
        variance = np.divide(PRIOR, scale**2, out=np.zeros(room), where=scale > 0.0)
        for _ in range(labels - len(covariances)):
            fields = {"scale": scale.copy(), "variance": variance.copy()}
            covariances.append(Covariance.zeros(fields, weight=room, slot=min(room, FULL)))
        with whole():
            self._hold(weight, covariances)

    def learn(self, row: Row, label: Label) -> None:
        """Learn from one row and its label."""
        if label not in self.number:
            self.meet(label)
        self._make_room()
        k.learn(self.parts[0], self.addresses, *row, PRIOR, self.scores, self.number[label])

    def predict(self, row: Row) -> Floats:
        """Return the probabilities of the labels, in the order of their numbers."""
        self._make_room()
        probability = np.empty(len(self.classes))
        k.predict(self.weight, *row, probability)
        return probability

    def order(self) -> list[int]:
        """Return the labels' numbers in ascending order of the labels: numbers before strings."""
        labels = self.classes
        return sorted(range(len(labels)), key=lambda n: (isinstance(labels[n], str), labels[n]))

    def weights(self) -> Iterator[tuple[tuple[Any, Label], tuple[float, float]]]:
        """Yield the weights, each by feature and label, with standard errors."""
        self._make_room()
        for label, part in zip(self.classes, self.parts, strict=True):
            for feature, n in self.columns.features.items():
                error = math.sqrt(variance_of(part.covariance, n))
                yield (feature, label), (float(part.weight[n]), error)

    def __getstate__(self) -> dict[str, Any]:
        covariances = [
            {name: getattr(part.covariance, name) for name in Covariance._names}
            for part in self.parts
        ]
        return {
            "columns": self.columns,
            "classes": self.classes,
            "weight": self.weight,
            "covariances": covariances,
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.columns, self.classes = state["columns"], state["classes"]
        self.number = {label: n for n, label in enumerate(self.classes)}
        self._hold(state["weight"], [Covariance(**fields) for fields in state["covariances"]])


def _grown(old: Covariance, room: int) -> Covariance:
    """Return a covariance with room for so many weights."""
    slots = min(room, FULL)
    matrix = np.zeros((slots, slots))
    matrix[: len(old.matrix), : len(old.matrix)] = old.matrix
    fields = {
        name: enlarged(getattr(old, name), room) for name in ("variance", "scale", "uses", "slot")
    }
    fields |= {"weight": enlarged(old.weight, slots), "size": old.size, "matrix": matrix}
    return Covariance.zeros(fields, weight=room, slot=slots)


class Columns:
    """Numbers the features of rows in the order in which they are first met.

    A feature is a tuple: the name of a number, or a name and its category, which is None where the value is
    missing; the empty one is the intercept.
    """

    def __init__(self) -> None:
        self.features: dict[tuple[Any, ...], int] = {(): 0}
        self.table: list[Any] | None = None
        self._last: tuple[tuple[Any, ...], Ints] = (), np.zeros(1, np.int64)

    def read(self, x: Any, place: str, adding: bool) -> Row:
        """Return the features of a row; with ``adding`` new ones are numbered, else left out.

        Rows of numbers by the names of the last such row are read at once. Raises InputError.
        """
        if not isinstance(x, dict):
            x = self._by_name(x, place)
        names, (last, numbers) = tuple(x), self._last
        if names == last:
            try:
                values = array("d", x.values())
            except TypeError:  # not all are numbers
                return self._read(x, place, adding)
            if math.hypot(*values) <= MOST:  # so all are finite
                values.append(1.0)
                return numbers, np.frombuffer(values)
        touched, values_of = self._read(x, place, adding)
        if len(touched) == len(names) + 1 and all((name,) in self.features for name in names):
            self._last = names, np.array([*(self.features[name,] for name in names), 0])
        return touched, values_of

    def _by_name(self, x: Any, place: str) -> Mapping[Any, Any]:
        """Return a row as a mapping: the values of an array are those of the columns of the table."""
        if hasattr(x, "to_dict"):
            x = x.to_dict()
        if isinstance(x, Mapping):
            return x
        values = listed(x, place, "a mapping from names to values, or a row of a table")
        names = self.table or range(len(values))
        self._check_width(len(values))
        return dict(zip(names, values, strict=True))

    def _check_width(self, width: int) -> None:
        if self.table is not None and width != len(self.table):
            expected = f"but Classifier is expecting {len(self.table)} features as input"
            raise InputError(f"X has {width} features, {expected}")

    def _read(self, x: Mapping[Any, Any], place: str, adding: bool) -> Row:
        touched, values = [], []
        new: list[tuple[Any, ...]] = []
        for name, value in x.items():
            try:
                feature, number = _feature(name, value)
                n = self.features.get(feature, -1)
            except (InputError, TypeError) as error:
                raise InputError(f"{place}: {error}") from None
            if n < 0:
                if not adding:
                    continue
                n = len(self.features) + len(new)
                new.append(feature)
            touched.append(n)
            values.append(number)
        for feature in new:
            self.features[feature] = len(self.features)
        return np.array([*touched, 0]), np.array([*values, 1.0])

    def rows(self, X: Any, adding: bool) -> list[Row]:
        """Return the features of rows; see ``read``."""
        table = _table(X)
        if table is None:
            samples = listed(X, "X", "rows: mappings from names to values, or a table")
            if not samples:
                raise InputError("Found array with 0 sample(s): X has no row")
            if not isinstance(samples[0], Mapping) and self.table is None and adding:
                self.table = [*range(len(listed(samples[0], "row 0", _ROW)))]
            return [self.read(x, f"row {n}", adding) for n, x in enumerate(samples)]
        names, matrix = table
        if names is None:
            self._check_width(matrix.shape[1])
            names = self.table or [*range(matrix.shape[1])]
        elif self.table and not adding and (unknown := {*names}.difference(self.table)):
            reason = f"which {self.table} were learned from do not have"
            raise InputError(f"X has columns {', '.join(sorted(map(str, unknown)))}, {reason}")
        if self.table is None and adding:
            self.table = [*names]
        return [
            self.read(dict(zip(names, row, strict=True)), f"row {n}", adding)
            for n, row in enumerate(matrix.tolist())
        ]


_ROW = "a mapping from names to values, or a row of a table. Reshape your data if X is one row"


def _feature(name: Any, value: Any) -> tuple[tuple[Any, ...], float]:
    """Return the feature of a value, and the number by which it counts. Raises InputError."""
    if isinstance(value, str):
        return (name, str(value)), 1.0
    if is_absent(value):
        return (name, None), 1.0
    if isinstance(value, Real | np.bool_ | Decimal):
        return (name,), finite(name, value)
    kind, expected = type(value).__name__, "expected a number, a string, a boolean or None"
    raise InputError(f"feature {name!r} is {shown(value)} ({kind}), {expected}")


def _table(X: Any) -> tuple[list[Any] | None, Any] | None:
    """Return the names of columns, None where they have none, and the values of a table; None for others.

    Raises InputError.
    """
    if hasattr(X, "toarray"):
        raise InputError("X is a sparse matrix, expected dense data: take X.toarray()")
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        names, matrix = [*X.columns], X.astype(object).to_numpy()
    elif hasattr(X, "__array__"):
        names, matrix = None, np.asarray(X)
    else:
        return None
    if matrix.dtype.kind == "c":
        raise InputError("X has complex numbers: Complex data not supported")
    if matrix.ndim != 2:
        reason = "expected 2D array, got one of"
        raise InputError(f"{reason} {matrix.ndim} dimensions instead. Reshape your data")
    for size, noun in zip(matrix.shape, ("sample", "feature"), strict=True):
        if not size:
            reason = f"Found array with 0 {noun}(s) (shape={matrix.shape})"
            raise InputError(f"{reason} while a minimum of 1 is required.")
    if names is not None and len({*names}) < len(names):
        raise InputError("X has two columns of one name")
    return names, matrix


def _learned(learned: Learned, X: Any, y: Any, classes: Sequence[Label] | None) -> Learned:
    """Learn from all rows, and return what is learned."""
    rows, labels = learned.columns.rows(X, adding=True), _labels(y)
    if len(rows) != len(labels):
        raise InputError(f"X has {len(rows)} rows, but y has {len(labels)} labels")
    for n, label in enumerate([] if classes is None else classes):
        learned.meet(_label(label, f"classes, {n}"))
    for row, label in zip(rows, labels, strict=True):
        learned.learn(row, label)
    return learned


def _labels(y: Any) -> list[Label]:
    """Return the labels of rows. Raises InputError."""
    if y is None:
        raise InputError("y is None: requires y to be passed, but the target y is None")
    given = np.asarray(y).tolist() if hasattr(y, "__array__") else y
    values = listed(given, "y", "a label for each row")
    return [_label(value, f"row {n}") for n, value in enumerate(values)]


def _label(value: Any, place: str) -> Label:
    """Return a label as Python has it. Raises InputError."""
    label: Label = value.item() if isinstance(value, np.generic) else value
    if isinstance(label, str | int) or (isinstance(label, float) and label.is_integer()):
        return label
    reason = f"{place}: the label is {shown(value)}, expected a boolean, a whole number or a string"
    raise InputError(f"Unknown label type: {reason}")
