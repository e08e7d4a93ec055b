"""How examples are divided into those to learn from and those to score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from onlinesrl.core.errors import UsageError
from onlinesrl.core.example import Example


class Fold(NamedTuple):
    """A division of examples, each part in the order of the stream."""

    name: str
    training: Sequence[Example]
    test: Sequence[Example]


Divide: TypeAlias = Callable[[Sequence[Example]], Sequence[Fold]]


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
            name,
            [e for e in examples if e.group != name],
            [e for e in examples if e.group == name],
        )
        for name in names
    ]


def last_tenth(examples: Sequence[Example]) -> Fold:
    """Return the last tenth of the examples, at least one, to be scored after the others were learned from.

    Raises UsageError.
    """
    if len(examples) < 2:
        raise UsageError(f"{len(examples)} examples: too few to set a tenth of them aside")
    cut = len(examples) - max(1, len(examples) // 10)
    return Fold("last tenth", examples[:cut], examples[cut:])
