"""Samples and their labels as callers give them, checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeAlias

import numpy as np

from onlinesrl.core.errors import ExampleError, InputError, shown
from onlinesrl.library.inputs import constant

Label: TypeAlias = str | int


def listed(value: Any, place: str, expected: str) -> list[Any]:
    """Return what was given as a list. Raises InputError where it is a text, a mapping or one thing."""
    iterable = isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0
    if not iterable or isinstance(value, str | bytes | Mapping):
        raise InputError(f"{place} is a {type(value).__name__}, expected {expected}")
    return value if isinstance(value, list) else [*value]


def samples_of(X: Any, least: int = 0) -> list[Any]:
    """Return samples as a list. Raises InputError where they are fewer than ``least``."""
    samples = listed(X, "X", "a list of samples")
    if len(samples) < least:
        raise InputError(f"X has {len(samples)} samples, expected at least {least}")
    return samples


def orders(size: int) -> Iterator[Sequence[int]]:
    """Yield the order of so many samples in each pass: as they are, then at random, always the same ways."""
    random, order = Random(0), [*range(size)]
    while True:
        yield order
        order = random.sample(order, size)


def labels_of(y: Any, lengths: Sequence[int], noun: str) -> list[list[Label]]:
    """Return the labels of samples of these lengths, in each so many of ``noun``. Raises InputError."""
    if y is None:
        raise InputError("y is None: requires y to be passed, but the target y is None")
    labels = listed(y, "y", "a list of labels for each sample")
    if len(labels) != len(lengths):
        raise InputError(f"X has {len(lengths)} samples, but y has {len(labels)}")
    return [
        _labels(sample_labels, n, length, noun)
        for n, (sample_labels, length) in enumerate(zip(labels, lengths, strict=True))
    ]


def known_labels_of(y: Any, lengths: Sequence[int], noun: str) -> list[dict[int, Label]]:
    """Return the labels of each sample by number, without those that are None. Raises InputError."""
    rows = [
        listed(row, f"sample {n}: its y", "a list of labels")
        for n, row in enumerate(
            [] if y is None else listed(y, "y", "a list of labels for each sample")
        )
    ]
    filled = [[0 if label is None else label for label in row] for row in rows]
    labels = labels_of(None if y is None else filled, lengths, noun)
    return [
        {i: label for i, label in enumerate(sample_labels) if row[i] is not None}
        for row, sample_labels in zip(rows, labels, strict=True)
    ]


def _labels(values: Any, n: int, length: int, noun: str) -> list[Label]:
    labels = listed(values, f"sample {n}: its y", "a list of labels")
    if len(labels) != length:
        raise InputError(f"sample {n} has {length} {noun}s, but {len(labels)} labels")
    return [
        label
        if type(label) is str and label.isascii()  # as they nearly always are
        else _label(label, f"sample {n}, {noun} {t}")
        for t, label in enumerate(labels)
    ]


def _label(value: Any, place: str) -> Label:
    label = value.item() if isinstance(value, np.generic) else value
    if label is None:
        advice = "leave the sample out, or take a LinkedClassifier, which completes missing labels"
        raise InputError(f"{place}: the label is None; {advice}")
    if type(label) not in {str, int}:
        raise InputError(f"{place}: the label is {shown(label)}, expected a string or an integer")
    try:
        result: Label = constant(label, place)
    except ExampleError as error:
        raise InputError(str(error)) from None
    return result


def classes_of(classes: Any) -> list[Label]:
    """Return labels given beside those of samples; none for None. Raises InputError."""
    values = [] if classes is None else listed(classes, "classes", "a list of labels")
    return [_label(value, f"classes, {n}") for n, value in enumerate(values)]


def extended(old: Sequence[Label], groups: Iterable[Iterable[Label]]) -> list[Label]:
    """Return the known labels, then those that each group adds: integers, then strings.

    Raises InputError where an integer and a string read alike: in Markov logic they are one constant.
    """
    labels = dict.fromkeys(old)
    for group in groups:
        new = {*group}.difference(labels)
        labels |= dict.fromkeys(sorted(new, key=lambda label: (isinstance(label, str), label)))
    if len(labels) > len(old):
        alike = {str(label) for label in labels if isinstance(label, int)}
        if twice := alike.intersection(label for label in labels if isinstance(label, str)):
            text = min(twice)
            raise InputError(f"y has the labels {text} and {text!r}, which are the same constant")
    return [*labels]


def accuracy(y: Sequence[Sequence[Label]], predicted: Sequence[Sequence[Label]]) -> float:
    """Return the share of labels that are predicted right; 0 where there are none."""
    pairs = [
        pair
        for true_labels, predicted_label in zip(y, predicted, strict=True)
        for pair in zip(true_labels, predicted_label, strict=True)
    ]
    return sum(label == predicted_label for label, predicted_label in pairs) / max(1, len(pairs))
