"""How examples are divided into those to learn from and those to score."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from onlinesrl.core.errors import UsageError
from onlinesrl.core.example import Example, Label
from onlinesrl.stream.late_labels import with_labels
from onlinesrl.stream.records import Record


class Fold(NamedTuple):
    """A division of examples, each part in the order of the stream."""

    name: str
    training: Sequence[Example]
    test: Sequence[Example]


def divided(examples: Sequence[Example], k: int | None) -> list[Fold]:
    """Return k folds, example n being tested in fold n mod k; for None, a fold for each group.

    Examples without a group are in the training part of every group's fold. Raises UsageError.
    """
    if k is not None:
        if not 2 <= k <= len(examples):
            raise UsageError(
                f"--folds {k}: expected from 2 to {len(examples)}, the number of examples"
            )
        return [
            Fold(str(n + 1), [e for m, e in enumerate(examples) if m % k != n], examples[n::k])
            for n in range(k)
        ]
    names = sorted({e.group for e in examples if e.group is not None})
    if len(names) < 2:
        groups = f"only the group {names[0]}" if names else "no groups"
        raise UsageError(f"the examples have {groups}, so none can be left out; give --folds K")
    return [
        Fold(
            name, [e for e in examples if e.group != name], [e for e in examples if e.group == name]
        )
        for name in names
    ]


def by_time(contents: Sequence[tuple[Record, Example | Label]], k: int, pending: int) -> list[Fold]:
    """Return k folds of a stream in k + 1 parts: each after the first, with what was known when it began.

    Examples are learned from if their label has come before the part that is tested, whose examples have
    theirs however late. At most ``pending`` examples wait for a label.
    """
    cuts = pairwise(len(contents) * n // (k + 1) for n in range(1, k + 2))
    return [
        Fold(
            str(n + 1),
            _labelled(contents[:begin], pending),
            _labelled(contents[begin:], pending, end - begin),
        )
        for n, (begin, end) in enumerate(cuts)
    ]


def _labelled(
    contents: Sequence[tuple[Record, Example | Label]], pending: int, most: int | None = None
) -> list[Example]:
    """Return the examples with a label; of the first ``most`` contents, with labels of all."""
    names = {str(content.id) for _, content in contents[:most] if isinstance(content, Example)}
    joined = with_labels(contents, pending, lambda *_: True)
    return [x for _, x in joined if x.labelled and str(x.id) in names]


def last_tenth(examples: Sequence[Example]) -> Fold:
    """Return the last tenth of the examples, at least one, to be scored after the others were learned from.

    Raises UsageError.
    """
    if len(examples) < 2:
        raise UsageError(f"{len(examples)} examples: too few to set a tenth of them aside")
    cut = len(examples) - max(1, len(examples) // 10)
    return Fold("last tenth", examples[:cut], examples[cut:])
