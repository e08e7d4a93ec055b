"""The classifier of linked things: a Markov logic network over features and links, learned online."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onlinesrl.core.errors import InputError, shown
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.library.estimators.estimator import Estimator, Labels
from onlinesrl.library.estimators.features import check_text, flat, pairs
from onlinesrl.library.estimators.samples import (
    Label,
    classes_of,
    extended,
    known_labels_of,
    listed,
    orders,
    samples_of,
)
from onlinesrl.library.estimators.scores import Lists
from onlinesrl.library.inputs import example
from onlinesrl.library.learner import OnlineLearner
from onlinesrl.library.prediction import Prediction
from onlinesrl.logic.text import quote

RULES = """\
Thing(thing)
Feature(feature, thing): real
Linked(relation, thing, thing)
Label(thing, label!)

Feature(+f, x) ^ Label(x, +y)
Linked(+r, x, z) ^ Label(x, +y) ^ Label(z, +w)
"""
LINKED = "linked"
"""The relation of a link that names none."""
Evidence = dict[str, list[Any]]


class LinkedClassifier(Estimator):
    """Labels things jointly, by their features and by the labels of the things they are linked to.

    A sample of ``X`` is a pair: its things, each with features as ``SequenceTagger`` takes them, and its
    links, each ``(i, j)`` or ``(i, j, relation)`` between numbers of
    things, from 0; a link has a direction. In ``y`` a sample has a label, string or integer, for each thing,
    or None where it is not known: such a label is completed, and no metric or score counts it.
    ``update``, ``loss`` and ``sigma`` are those of ``OnlineLearner``, ``passes`` and ``held_out`` say how
    often ``fit`` goes over the samples. ``class_weight`` is what a thing counts by its label: a mapping from
    labels, or ``balanced`` by the labels seen so far. ``calibrated`` is that of ``SequenceTagger``. The
    ``classes`` of the first ``partial_fit`` may be predicted though none was seen yet.

    It is the Markov logic network of the rules ``Feature(+f, x) ^ Label(x, +y)`` and ``Linked(+r, x, z) ^
    Label(x, +y) ^ Label(z, +w)``, learned a sample at a time and averaged: ``learner`` has it.

    After an exception it is what it was before. Raises InputError, ExampleError, UsageError, NotFittedError.

    >>> pages = [{"word": "course"}, {"word": "thesis"}, {"word": "home"}]
    >>> links = [(0, 1, "cites"), (1, 2, "cites")]
    >>> classifier = LinkedClassifier().fit([(pages, links)], [["class", "student", "student"]])
    >>> classifier.predict([([{"word": "thesis"}, {"word": "new"}], [(0, 1, "cites")])])
    [['student', 'student']]
    """

    learned_: Learned
    noun = "thing"

    def predict(self, X: Any, known: Any = None) -> list[list[Label]]:
        """Return the labels of each sample: its most probable labelling.

        ``known`` has, as ``y``, labels that are known, and None for those to predict.
        """
        learned: Learned = self._labelling()
        return Lists(learned.label(learned.read(X, known)))

    def predict_marginals(self, X: Any, known: Any = None) -> list[list[dict[Label, float]]]:
        """Return for each thing of each sample the probability of each label; see ``predict``.

        Exact where the links make no wide loops, else sampled.
        """
        learned: Learned = self._labelling()
        return Lists(learned.marginals(X, known))

    def _compared(self, y: Any, predicted: Labels) -> tuple[Labels, Labels]:
        """See ``Estimator._compared``; things without a label are left out."""
        known = known_labels_of(y, [*map(len, predicted)], self.noun)
        pairs = zip(known, predicted, strict=True)
        return [[*part.values()] for part in known], [[row[i] for i in part] for part, row in pairs]

    @property
    def learner(self) -> OnlineLearner:
        """The learner: its weights, certificate and checkpoints."""
        learner: OnlineLearner = self._fitted().learner
        return learner

    def _unnamed(self, x: Any) -> tuple[list[Any] | None, Any]:
        match x:
            case [Mapping() as things, links]:
                number = {name: n for n, name in enumerate(things)}
                numbered = [
                    (*(number.get(name, name) for name in link[:2]), *link[2:]) for link in links
                ]
                return [*things], ([*things.values()], numbered)
        return None, x

    def _new(self, update: Mapping[str, Any]) -> Learned:
        weight = self._class_weight()
        if isinstance(weight, str):
            return Learned({**update, "costs": weight})
        costs = {f"Label(_, {quote(str(k))})": _costs(w) for k, w in (weight or {}).items()}
        return Learned({**update, "costs": {"Label": _costs(1.0), **costs}} if costs else update)


def _costs(weight: float) -> dict[str, float]:
    """Return the costs by which a thing with a wrong label costs twice the weight of the true one."""
    return {"missed": 2.0 * weight, "extra": 0.0}


class Learned:
    """What a classifier has learned; the learner's labels are strings."""

    def __init__(self, update: Mapping[str, Any]):
        self.update = update
        self.learner: OnlineLearner | None = None
        self.classes: list[Label] = []

    def learn(self, X: Any, y: Any, classes: Sequence[Label] | None) -> None:
        """Learn from all samples or none."""
        evidence, truth, labels = self._read(X, y, classes)
        learner = self.learner or self._new(classes)
        if len(evidence) == 1:
            learner.learn_one(evidence[0], truth[0])
        else:
            learner.learn_many(evidence, truth)
        self.learner, self.classes = learner, labels

    def passes(self, X: Any, y: Any) -> Iterator[None]:
        """See ``estimator.Learned.passes``."""
        samples = samples_of(X, least=1)
        self.learner = self._new(None)
        for n, order in enumerate(orders(len(samples))):
            if n < 2:  # in the first pass labels are met
                evidence, truth, self.classes = self._read(samples, y, None)
                if not self.classes and any(isinstance(facts, Example) for facts in evidence):
                    raise InputError("y has no label: every label is None")
            xs, ys = [evidence[n] for n in order], [truth[n] for n in order]
            self.learner.learn_many(xs, ys, again=n > 0)
            yield

    def copy(self) -> Learned:
        """See ``estimator.Learned.copy``."""
        return copy.deepcopy(self)

    def _new(self, classes: Sequence[Label] | None) -> OnlineLearner:
        return OnlineLearner(_model(classes_of(classes)), "Label", update=self.update)

    def _read(
        self, X: Any, y: Any, classes: Sequence[Label] | None
    ) -> tuple[list[Evidence | Example], list[Evidence], list[Label]]:
        """Return samples to learn from, their truths, and all labels.

        A sample with unknown labels is an Example that lists them as unlabelled, with the labels met so far.
        """
        facts, lengths = _evidences(samples_of(X, least=1))
        known = known_labels_of(y, lengths, LinkedClassifier.noun)
        met = extended(self.classes, [classes_of(classes)])
        labels = extended(met, [part.values() for part in known])
        evidence: list[Evidence | Example] = [*facts]
        truth = [{"Label": [[i, str(label)] for i, label in part.items()]} for part in known]
        for n, (part, length) in enumerate(zip(known, lengths, strict=True)):
            met += {*part.values()}.difference(met)
            if len(part) < length:
                unknown = [i for i in range(length) if i not in part]
                atoms = {
                    "Label": [[i, str(label)] for i in unknown for label in labels if label in met]
                }
                evidence[n] = example(facts[n], truth[n], None, atoms)
        return evidence, truth, labels

    def read(self, X: Any, known: Any = None) -> list[Evidence]:
        """Return samples to predict, with the labels that are known. Raises InputError."""
        evidence, lengths = _evidences(samples_of(X))
        if known is None:
            return evidence
        for n, part in enumerate(known_labels_of(known, lengths, LinkedClassifier.noun)):
            if new := [label for label in part.values() if label not in self.classes]:
                raise InputError(f"sample {n}: the label {shown(new[0])} was never learned from")
            evidence[n]["Label"] = [[i, str(label)] for i, label in part.items()]
        return evidence

    def label(self, read: Sequence[Evidence]) -> Iterator[list[Label]]:
        """Yield the labels of each sample's things."""
        by_name = {str(label): label for label in self.classes}
        predictions = self._predictions(read, marginals=False)
        for facts, prediction in zip(read, predictions, strict=True):
            atoms = [*prediction["Label"], *facts.get("Label", ())]
            by_thing = {i: by_name[str(label)] for i, label in atoms}
            yield [by_thing[i] for i in range(len(by_thing))]

    def marginals(self, X: Any, known: Any = None) -> Iterator[list[dict[Label, float]]]:
        """Yield the probabilities of each sample's things' labels."""
        read = self.read(X, known)
        predictions = self._predictions(read, marginals=True)
        for facts, prediction in zip(read, predictions, strict=True):
            values = {} if prediction.values is None else prediction.values["Label"]
            by_name = {(i, str(label)): value for (i, label), value in values.items()}
            by_name |= {(i, str(label)): 1.0 for i, label in facts.get("Label", ())}
            yield [
                {label: by_name.get((i, str(label)), 0.0) for label in self.classes}
                for i in range(len(facts["Thing"]))
            ]

    def _predictions(self, evidence: Sequence[Evidence], marginals: bool) -> list[Prediction]:
        return (
            [] if self.learner is None else self.learner.predict_many(evidence, marginals=marginals)
        )


def _model(labels: Sequence[Label]) -> str:
    return f"label = {{{', '.join([*(quote(str(label)) for label in labels), '...'])}}}\n{RULES}"


def _evidences(samples: Sequence[Any]) -> tuple[list[Evidence], list[int]]:
    evidence = [_evidence(sample, f"sample {n}") for n, sample in enumerate(samples)]
    return evidence, [len(facts["Thing"]) for facts in evidence]


def _evidence(sample: Any, place: str) -> Evidence:
    """Return the atoms of a sample's things and links. Raises InputError."""
    parts = listed(sample, place, "a pair of things and links")
    if len(parts) != 2:
        raise InputError(f"{place} has {len(parts)} parts, expected two: things and links")
    things = listed(parts[0], f"{place}: its first part", "a list of things")
    links = listed(parts[1], f"{place}: its second part", "a list of links")
    return {
        "Thing": [[i] for i in range(len(things))],
        "Feature": [
            ValuedAtom([name, i], number)
            for i, part in enumerate(things)
            for name, number in _features(part, f"{place}, thing {i}").items()
        ],
        "Linked": [_link(part, len(things), f"{place}, link {n}") for n, part in enumerate(links)],
    }


def _features(thing: Any, place: str) -> dict[str, float]:
    """Return the features of a thing, with the number by which each counts; repeated ones add up."""
    features: dict[str, float] = {}
    try:
        for name, value in pairs(thing):
            for feature, number in flat(name, value):
                check_text(feature)
                features[feature] = features.get(feature, 0.0) + number
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    return {feature: number for feature, number in features.items() if number}


def _link(link: Any, things: int, place: str) -> list[str | int]:
    expected = f"expected (i, j) or (i, j, relation), of things 0 to {things - 1}"
    match listed(link, place, expected):
        case [int() | np.integer() as i, int() | np.integer() as j, *rest] if (
            0 <= i < things and 0 <= j < things and len(rest) < 2
        ):
            (relation,) = rest or [LINKED]
            if isinstance(relation, str):
                return [relation, int(i), int(j)]
    raise InputError(f"{place} is {shown(link)}, {expected}")
