"""Sets of whole answers that have the truth as often as asked for, whatever the sequence.

An answer is a state of an example. Those listed are its ``best`` states; each has the probability that it
would have beside its strongest rival alone,

    p(y) = 1 / (1 + exp(max_{z != y} score(z) - score(y))).

So the best state has 1 / (1 + exp(-margin)), and another one 1 / (1 + exp(difference)). The answers of an
example are the labels of one unit of ``label_sets``, which says how often, at least and at most, its set has
the truth. An answer that is not listed has no larger p than the last one listed. It counts as that one: a set
with the last one has every answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set

from onlinesrl.core.evaluation.label_sets import ANSWERS, Label, LabelSet, Unit
from onlinesrl.core.example import Atom, named_atoms
from onlinesrl.core.learner import Prediction

RATE = 0.4
"""The first rate of steps: an example is one truth, where it is many of ``label_sets``; see there."""


def answers(
    prediction: Prediction, most: int, wrong: tuple[Set[Atom], Set[Atom]] | None
) -> dict[str, list[Unit]]:
    """Return the ``unit`` of ``most`` best states.

    ``wrong`` are the atoms of the truth that are not predicted, and those predicted that are not true; None:
    the truth is not known.
    """
    others, true = (prediction.best or ())[: most - 1], None
    if wrong is not None:
        changes = [(named_atoms(x.true), named_atoms(x.false)) for x in others]
        states = [(set[Atom](), set[Atom]()), *changes]
        true = states.index(wrong) if wrong in states else len(others)
    return unit([other.difference for other in others], true)


def unit(differences: Sequence[float], true: int | None) -> dict[str, list[Unit]]:
    """Return the unit of the best state and of the next ones; none where no second one is listed.

    ``differences`` are the scores of the next ones below that of the best, rising. The labels are places from
    1; None is the last one, and every answer that is not listed. ``true`` is the place of the truth from 0,
    the last one for a truth that is not listed; None: it is not known.
    """
    if not differences:
        return {}
    labels: list[Label] = [*range(1, len(differences) + 1), None]
    odds = [math.exp(-difference) for difference in differences]
    probabilities = [1.0 / (1.0 + odds[0]), *(x / (1.0 + x) for x in odds)]
    return {ANSWERS: [Unit([], labels, probabilities, true)]}


def size(sets: Mapping[str, Sequence[LabelSet]] | None) -> int | None:
    """Return how many of the best states the set has; None: it has every answer, or there is no set."""
    labels = sets[ANSWERS][0].labels if sets and ANSWERS in sets else [None]
    return None if None in labels else len(labels)
