"""What scikit-learn and river call on every estimator, without importing them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from onlinesrl.core.errors import InputError, NotFittedError
from onlinesrl.estimators.samples import Label


class Estimator(ABC):
    """Parameters by name, as scikit-learn's BaseEstimator has them, and single samples, as river has them.

    A subclass keeps its parameters as given. ``learned_`` is what it has learned.
    """

    learned_: Any

    @abstractmethod
    def partial_fit(self, X: Any, y: Any, classes: Sequence[Label] | None = None) -> Self:
        """Go on learning."""

    @abstractmethod
    def predict(self, X: Any) -> list[list[Label]]:
        """Return the labels of each sample."""

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn from one sample; see ``partial_fit``."""
        self.partial_fit([x], [y])

    def predict_one(self, x: Any) -> list[Label] | None:
        """Return the labels of one sample; None before anything was learned."""
        return self.predict([x])[0] if self.__sklearn_is_fitted__() else None

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
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit, or learn_one")
        return self.learned_
