"""Scores of predicted labels: of each label, and of chunks of labels such as B-NP I-NP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from onlinesrl.core.evaluation.prequential import class_scores
from onlinesrl.library.estimators.samples import Label, labels_of

_BEGINS, _GOES_ON, _ENDS = "BSU", "IEL", "ESLU"
OUTSIDE = "O"
Chunk = tuple[str, int, int]
"""Its kind, and its first and last position."""


class Lists(list[Any]):
    """A list for each sample; NumPy takes it as an array of objects, of one dimension."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the array, as NumPy and scikit-learn ask for it."""
        import numpy as np

        array = np.empty(len(self), dtype=object)
        for n, item in enumerate(self):
            array[n] = item
        return array


def label_scores(y: Any, predicted: Any) -> dict[Label, dict[str, Any]]:
    """Return precision, recall, F1 and support of each label; a score is None where it is undefined.

    ``y`` and ``predicted`` have a list of labels for each sample. Raises InputError.
    """
    pairs = _pairs(y, predicted)
    return _scores(
        (((t, a) for t, a in enumerate(truth)), ((t, b) for t, b in enumerate(guess)))
        for truth, guess in pairs
    )


def chunk_scores(y: Any, predicted: Any) -> dict[str, dict[str, Any]]:
    """Return precision, recall, F1 and support of each kind of chunk; see ``chunks``. Raises InputError."""
    return _scores((_keyed(truth), _keyed(guess)) for truth, guess in _pairs(y, predicted))


def chunk_f1(y: Any, predicted: Any) -> float:
    """Return the F1 of chunks of any kind, as conlleval does; 0 where there is none. Raises InputError."""
    pairs = [({*chunks(truth)}, {*chunks(guess)}) for truth, guess in _pairs(y, predicted)]
    hits = sum(len(truth & guess) for truth, guess in pairs)
    return 2 * hits / max(1, sum(len(truth) + len(guess) for truth, guess in pairs))


def chunks(labels: Sequence[Label]) -> Iterator[Chunk]:
    """Yield the chunks of a sequence: labels are O, or a letter, a hyphen and a kind.

    B begins a chunk and I goes on with it; E and L end it, and S and U are a chunk alone. A letter that
    cannot follow what is before it begins a chunk, as in conlleval. Any other label is a chunk of its own
    kind, as long as it is repeated.
    """
    kind, first = "", 0
    before = OUTSIDE
    for t, label in enumerate([*map(str, labels), OUTSIDE]):
        if apart(before, label):
            if before != OUTSIDE:
                yield kind, first, t - 1
            kind, first = kind_of(label), t
        before = label


def apart(before: str, label: str) -> bool:
    """Tell whether a label does not go on with the chunk of the label before."""
    (ends, kind), (begins, other) = _parts(before), _parts(label)
    return label == OUTSIDE or kind != other or begins in _BEGINS or ends in _ENDS


def kind_of(label: str) -> str:
    """Return the kind of the chunks in which a label may be."""
    return _parts(label)[1]


def _parts(label: str) -> tuple[str, str]:
    letter, hyphen, kind = label.partition("-")
    return (letter, kind) if hyphen and letter in {*_BEGINS, *_GOES_ON} else ("I", label)


def _pairs(y: Any, predicted: Any) -> list[tuple[list[Label], list[Label]]]:
    guesses = [[*labels] for labels in predicted]
    return [*zip(labels_of(y, [*map(len, guesses)], "prediction"), guesses, strict=True)]


def _keyed(labels: Sequence[Label]) -> Iterator[tuple[Hashable, str]]:
    for kind, first, last in chunks(labels):
        yield (first, last), kind


def _scores(
    pairs: Iterable[tuple[Iterable[tuple[Hashable, Any]], Iterable[tuple[Hashable, Any]]]],
) -> dict[Any, dict[str, Any]]:
    """Return the scores of each kind, from pairs of what is true and what was predicted, with their kinds."""
    hits: Counter[Any] = Counter()
    true: Counter[Any] = Counter()
    positives: Counter[Any] = Counter()
    for true_items, predicted_items in pairs:
        truth, predicted = {*true_items}, {*predicted_items}
        hits.update(kind for _, kind in truth & predicted)
        true.update(kind for _, kind in truth)
        positives.update(kind for _, kind in predicted)
    kinds = sorted({*true, *positives}, key=str)
    return {
        kind: class_scores(hits[kind], positives[kind] - hits[kind], true[kind] - hits[kind])
        for kind in kinds
    }


def table(scores: dict[Any, dict[str, Any]]) -> str:
    """Return scores as lines of text."""
    wide = max([len(str(name)) for name in scores], default=0)
    head = f"{'':{wide}}  precision  recall     f1  support"
    return "\n".join(
        [head, *(_line(str(name).ljust(wide), values) for name, values in scores.items())]
    )


def _line(name: str, values: dict[str, Any]) -> str:
    cells = (
        f"{'-' if x is None else f'{x:.3f}'}"
        for x in (values["precision"], values["recall"], values["f1"])
    )
    precision, recall, f1 = cells
    return f"{name}  {precision:>9}  {recall:>6}  {f1:>5}  {values['support']:>7}"
