"""What scikit-learn and river call on every estimator, without importing them."""

from __future__ import annotations

import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

from onlinesrl.core.errors import InputError, NotFittedError
from onlinesrl.library.estimators.samples import Label, accuracy, labels_of
from onlinesrl.library.learner import section


class Learned(Protocol):
    """What an estimator has learned."""

    classes: list[Label]

    def learn(self, X: Any, y: Any, classes: Sequence[Label] | None) -> None:
        """Learn from all samples or none, in their order."""

    def predict(self, X: Any) -> Iterator[list[Label]]:
        """Yield the labels of each sample."""


class Estimator(ABC):
    """What ``learned_`` can do, under the names of scikit-learn and, for single samples, of river."""

    learned_: Any
    noun: ClassVar[str]
    """What has a label."""

    def __init__(
        self,
        update: str | Mapping[str, Any] = "adagrad",
        loss: str | None = None,
        sigma: float | None = None,
    ):
        self.update = update
        self.loss = loss
        self.sigma = sigma

    @abstractmethod
    def _new(self, update: Mapping[str, Any]) -> Learned:
        """Return what there is before learning, by the keys of an update."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn anew from samples, in their order, in one pass."""
        learned = self._empty()
        learned.learn(X, y, None)
        self.learned_ = learned
        return self

    def partial_fit(self, X: Any, y: Any, classes: Sequence[Label] | None = None) -> Self:
        """Go on learning, where features and labels may be new; ``classes`` are further labels.

        For more than one sample the weights are copied once. Ctrl-C ends it with none learned; where there is
        one sample, after that.
        """
        learned = self.learned_ if self.__sklearn_is_fitted__() else self._empty()
        learned.learn(X, y, classes)
        self.learned_ = learned
        return self

    def predict(self, X: Any) -> list[list[Label]]:
        """Return the labels of each sample: its most probable labelling."""
        return [*self._labelling().predict(X)]

    def score(self, X: Any, y: Any) -> float:
        """Return the share of labels that are predicted right."""
        predicted = self.predict(X)
        return accuracy(labels_of(y, [*map(len, predicted)], self.noun), predicted)

    @property
    def classes_(self) -> list[Label]:
        """The labels, in the order in which they were met."""
        return [*self._fitted().classes]

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn from one sample; see ``partial_fit``."""
        self.partial_fit([x], [y])

    def predict_one(self, x: Any) -> list[Label] | None:
        """Return the labels of one sample; None before any label was met."""
        met = self.__sklearn_is_fitted__() and self.learned_.classes
        return self.predict([x])[0] if met else None

    def _empty(self) -> Learned:
        given = {"loss": self.loss, "sigma": self.sigma}
        chosen = {name: value for name, value in given.items() if value is not None}
        return self._new(section(self.update, "update") | chosen)

    @classmethod
    def _names(cls) -> list[str]:
        return [*inspect.signature(cls).parameters]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, for the next ``fit``. Raises InputError for a name that is none."""
        if unknown := params.keys() - {*self._names()}:
            names = ", ".join(self._names())
            raise InputError(f"{type(self).__name__} has no parameter {min(unknown)}, but {names}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        standard = inspect.signature(type(self)).parameters
        given = {n: v for n, v in self.get_params().items() if v is not standard[n].default}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in given.items())})"

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know: samples are no rows of numbers, and y is required."""
        from sklearn.utils import InputTags, Tags, TargetTags

        inputs = InputTags(two_d_array=False, dict=True)
        targets = TargetTags(required=True, one_d_labels=False)
        return Tags(None, targets, no_validation=True, input_tags=inputs)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learned_")

    def _fitted(self) -> Any:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise _not_fitted(f"this {name} is not fitted yet: call fit, partial_fit or learn_one")
        return self.learned_

    def _labelling(self) -> Any:
        """Return what was learned. Raises NotFittedError where no label was met."""
        learned = self._fitted()
        if not learned.classes:
            reason = f"has met no label yet: no sample that it learned from has a {self.noun}"
            raise _not_fitted(f"this {type(self).__name__} {reason}")
        return learned


def _not_fitted(message: str) -> NotFittedError:
    """Return the error, which is scikit-learn's own as well where that is in use."""
    other = sys.modules.get("sklearn.exceptions")
    if other is None:
        return NotFittedError(message)
    kinds = (NotFittedError, other.NotFittedError)
    both: Any = type("NotFittedError", kinds, {"__reduce__": lambda e: (_not_fitted, e.args)})
    error: NotFittedError = both(message)
    return error
