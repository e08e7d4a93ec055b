"""What scikit-learn and river call on every estimator, without importing them."""

from __future__ import annotations

import inspect
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeAlias
from warnings import warn

from onlinesrl.core.errors import InputError, NotFittedError, OnlinesrlWarning, UsageError, shown
from onlinesrl.core.evaluation.class_balance import BALANCED
from onlinesrl.core.online.update_rules import STANDARD
from onlinesrl.core.online.update_rules.log_likelihood import LogLikelihood
from onlinesrl.core.online.update_rules.second_order import SecondOrder
from onlinesrl.library.estimators.samples import Label, accuracy, labels_of, listed, samples_of
from onlinesrl.library.estimators.scores import Lists, label_scores, table
from onlinesrl.library.learner import section

if TYPE_CHECKING:
    MultiLabelClassifier: TypeAlias = ABC
    RowClassifier: TypeAlias = ABC
else:
    try:
        from river.base import Classifier as RowClassifier
        from river.base import MultiLabelClassifier
    except ImportError:
        MultiLabelClassifier = RowClassifier = ABC

ClassWeight: TypeAlias = Mapping[Label, float] | Literal["balanced"]
"""The weight of each label, by default 1, or what makes rare labels count as much as frequent ones."""
Labels: TypeAlias = list[list[Label]]
"""The labels of each sample."""
Samples = tuple[list[Any], list[Any]]
"""Samples, and the labels of each."""
PATIENCE = 2
"""After so many passes in succession that are no better, ``fit`` with ``held_out`` stops."""


class Learned(Protocol):
    """What an estimator has learned."""

    classes: list[Label]

    def learn(self, X: Any, y: Any, classes: Sequence[Label] | None) -> None:
        """Learn from all samples or none, in their order."""

    def passes(self, X: Any, y: Any) -> Iterator[None]:
        """Learn from all samples, once each time that it is asked for the next; see ``samples.orders``."""

    def copy(self) -> Learned:
        """Return a copy, which more passes do not change."""

    def read(self, X: Any) -> Any:
        """Return samples as ``label`` takes them."""

    def label(self, read: Any) -> Iterator[list[Label]]:
        """Yield the labels of each sample."""


class Parameters:
    """The parameters of an estimator by name, as scikit-learn asks for them, and what it has learned."""

    learned_: Any
    noun: ClassVar[str]
    """What has a label."""

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
        changed = {n: v for n, v in self.get_params().items() if v is not standard[n].default}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in changed.items())})"

    __str__ = __repr__

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


class Estimator(Parameters, MultiLabelClassifier):
    """What ``learned_`` can do, under the names of scikit-learn and, for single samples, of river."""

    def __init__(
        self,
        update: str | Mapping[str, Any] = STANDARD,
        loss: str | None = None,
        sigma: float | None = None,
        passes: int = 1,
        held_out: float | None = None,
        class_weight: ClassWeight | None = None,
        calibrated: bool = False,
    ):
        self.update = update
        self.loss = loss
        self.sigma = sigma
        self.passes = passes
        self.held_out = held_out
        self.class_weight = class_weight
        self.calibrated = calibrated

    @abstractmethod
    def predict_marginals(self, X: Any) -> list[list[dict[Label, float]]]:
        """Return the probabilities of each sample's labels."""

    @abstractmethod
    def _new(self, update: Mapping[str, Any]) -> Learned:
        """Return what there is before learning, by the keys of an update."""

    def fit(self, X: Any, y: Any, **parameters: Any) -> Self:
        """Learn anew from samples, in so many ``passes``: the first in their order, others in a random one.

        With ``held_out``, a share of the samples, these are not learned from: learning ends when ``PATIENCE``
        passes in succession label them no better, and what the best pass has learned remains.
        """
        check_none(parameters)
        passes, share = self._checked()
        learned = best = self._empty()
        if share is None:
            for _ in islice(learned.passes(X, y), passes):
                pass
        else:
            best = self._stopped(learned, passes, *_parted(samples_of(X, least=2), y, share))
        self._warn_of_unknown(best.classes)
        self.learned_ = best
        return self

    def _warn_of_unknown(self, classes: Sequence[Label]) -> None:
        """Warn of labels that have a weight and do not occur."""
        weights = self.class_weight if isinstance(self.class_weight, Mapping) else {}
        if unknown := [label for label in weights if label not in classes]:
            warn(
                f"class_weight has no effect for {', '.join(map(repr, unknown))}: there is no such label "
                f"(labels: {', '.join(map(repr, classes))})",
                OnlinesrlWarning,
                stacklevel=3,
            )

    def _checked(self) -> tuple[int, float | None]:
        passes, share = self.passes, self.held_out
        if not isinstance(passes, Integral) or passes < 1:
            raise UsageError(f"passes is {passes!r}, expected a whole number, at least 1")
        if share is not None and not (isinstance(share, Real) and 0 < share < 1):
            raise UsageError(f"held_out is {share!r}, expected a share of samples between 0 and 1")
        return int(passes), None if share is None else float(share)

    def _stopped(self, learned: Learned, passes: int, training: Samples, test: Samples) -> Learned:
        """Return the best of what is learned in so many passes, as far as held-out samples tell."""
        best, highest, worse, held_out = learned, -1.0, 0, None
        for _ in islice(learned.passes(*training), passes):
            held_out = learned.read(test[0]) if held_out is None else held_out
            score = accuracy(*self._compared(test[1], [*learned.label(held_out)]))
            worse += 1
            if score > highest:
                best, highest, worse = learned.copy(), score, 0
            if worse == PATIENCE:
                break
        return best

    def partial_fit(
        self, X: Any, y: Any, classes: Sequence[Label] | None = None, **parameters: Any
    ) -> Self:
        """Go on learning, where features and labels may be new; ``classes`` are further labels.

        For more than one sample the weights are copied once. Ctrl-C ends it with none learned; where there is
        one sample, after that.
        """
        check_none(parameters)
        learned = self.learned_ if self.__sklearn_is_fitted__() else self._empty()
        learned.learn(X, y, classes)
        if classes is not None:
            self._warn_of_unknown(learned.classes)
        self.learned_ = learned
        return self

    def predict(self, X: Any) -> list[list[Label]]:
        """Return the labels of each sample: its most probable labelling."""
        learned = self._labelling()
        return Lists(learned.label(learned.read(X)))

    def report(self, X: Any, y: Any) -> str:
        """Return a table of precision, recall, F1 and support of each label."""
        return table(label_scores(*self._compared(y, self.predict(X))))

    def score(self, X: Any, y: Any, **parameters: Any) -> float:
        """Return the share of labels that are predicted right."""
        check_none(parameters)
        return accuracy(*self._compared(y, self.predict(X)))

    def _compared(self, y: Any, predicted: Labels) -> tuple[Labels, Labels]:
        """Return the true labels of each sample and the predicted ones beside them. Raises InputError."""
        return labels_of(y, [*map(len, predicted)], self.noun), predicted

    @property
    def classes_(self) -> list[Label]:
        """The labels, in the order in which they were met."""
        return [*self._fitted().classes]

    def predict_single(self, x: Any) -> list[Label]:
        """Return the labels of one sample; see ``predict``."""
        labels: list[Label] = self.predict([x])[0]
        return labels

    def predict_marginals_single(self, x: Any) -> list[dict[Label, float]]:
        """Return the probability of each label in one sample; see ``predict_marginals``."""
        marginals: list[dict[Label, float]] = self.predict_marginals([x])[0]
        return marginals

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn from one sample; see ``partial_fit``.

        In ``x`` what has a label may have a name: it is a mapping then, and so are ``y`` and predictions, as
        river's multi-output metrics take them.
        """
        names, sample = self._unnamed(x)
        if names is not None:
            if not isinstance(y, Mapping) or not y.keys() <= {*names}:
                reason = f"expected a mapping from names of x to labels: {shown([*names])}"
                raise InputError(f"y is {shown(y)}, {reason}")
            y = [y.get(name) for name in names]
        self.partial_fit([sample], [y])

    def predict_one(self, x: Any) -> Any:
        """Return the labels of one sample; None before any label was met. See ``learn_one``."""
        return self._one(x, self.predict)

    def predict_proba_one(self, x: Any) -> Any:
        """Return the probability of each label in one sample; see ``predict_one``."""
        return self._one(x, self.predict_marginals)

    def _one(self, x: Any, predict: Callable[[Any], list[Any]]) -> Any:
        if not self.__sklearn_is_fitted__() or not self.learned_.classes:
            return None
        names, sample = self._unnamed(x)
        (predicted,) = predict([sample])
        return predicted if names is None else dict(zip(names, predicted, strict=True))

    @abstractmethod
    def _unnamed(self, x: Any) -> tuple[list[Any] | None, Any]:
        """Return the names of what has a label in a sample, and the sample with numbers; None and itself."""

    def _empty(self) -> Learned:
        overrides = {"loss": self.loss, "sigma": self.sigma}
        chosen = {name: value for name, value in overrides.items() if value is not None}
        chosen = section(self.update, "update") | chosen
        if self.calibrated:
            chosen["calibrated"] = True
        update = chosen.get("update")
        if self.passes != 1 and update == SecondOrder.name:
            raise UsageError(f"passes: not for {update}, {SecondOrder.once}")
        if self.class_weight is not None and update in {LogLikelihood.name, SecondOrder.name}:
            reason = f"not for update {update}, which has no label loss"
            raise UsageError(f"class_weight: {reason}; set a threshold of its probabilities")
        return self._new(chosen)

    def _class_weight(self) -> ClassWeight | None:
        """Return ``class_weight``. Raises UsageError."""
        weight = self.class_weight
        if weight is None or (isinstance(weight, str) and weight == BALANCED):
            return weight
        if not isinstance(weight, Mapping):
            reason = "expected balanced, or a mapping from labels to their weights"
            raise UsageError(f"class_weight is {weight!r}, {reason}")
        for label, value in weight.items():
            if not isinstance(value, Real) or not 0 <= value < math.inf:
                reason = f"the weight of {label!r} is {value!r}, expected a number, at least 0"
                raise UsageError(f"class_weight: {reason}")
        return {label: float(value) for label, value in weight.items()}

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know: samples are no rows of numbers, and y is required."""
        from sklearn.utils import InputTags, Tags, TargetTags

        inputs = InputTags(two_d_array=False, dict=True)
        targets = TargetTags(required=True, one_d_labels=False)
        return Tags(None, targets, no_validation=True, input_tags=inputs)


def check_none(parameters: Mapping[str, Any]) -> None:
    """Raise InputError for parameters that there are in scikit-learn and not here."""
    if "sample_weight" in parameters:
        reason = "an online update has no weights of samples; give a sample several times"
        raise InputError(f"sample_weight is not supported: {reason}")
    if parameters:
        raise InputError(f"there is no parameter {min(parameters)}")


def _parted(samples: list[Any], y: Any, share: float) -> tuple[Samples, Samples]:
    """Return what to learn from, and the share to hold out, at equal distances. Raises InputError."""
    labels = listed(y, "y", "a list of labels for each sample")
    if len(labels) != len(samples):
        raise InputError(f"X has {len(samples)} samples, but y has {len(labels)}")
    out = [int((n + 1) * share) > int(n * share) for n in range(len(samples))]
    if not any(out):
        raise InputError(f"held_out is {share}, which is none of {len(samples)} samples")
    parts: list[Samples] = [([], []), ([], [])]
    for x, labels_of_sample, test in zip(samples, labels, out, strict=True):
        parts[test][0].append(x)
        parts[test][1].append(labels_of_sample)
    return parts[0], parts[1]


def _not_fitted(message: str) -> NotFittedError:
    """Return the error, which is scikit-learn's own as well where that is in use."""
    other = sys.modules.get("sklearn.exceptions")
    if other is None:
        return NotFittedError(message)
    kinds = (NotFittedError, other.NotFittedError)
    kind: Any = type("NotFittedError", kinds, {"__reduce__": lambda e: (_not_fitted, e.args)})
    error: NotFittedError = kind(message)
    return error
