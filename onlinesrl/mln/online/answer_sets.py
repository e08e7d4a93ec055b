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
from collections.abc import Set

from onlinesrl.core.evaluation.label_sets import ANSWERS, Label, Unit
from onlinesrl.core.example import Atom, named_atoms
from onlinesrl.core.learner import Prediction

RATE = 0.4
"""The first rate of steps: an example is one truth, where it is many of ``label_sets``; see there."""


def answers(
    prediction: Prediction, most: int, wrong: tuple[Set[Atom], Set[Atom]] | None
) -> dict[str, list[Unit]]:
    """Return the unit of ``most`` best states; none where no second one is listed.

    Its labels are their places from 1; None is the last one, and every answer that is not listed. ``wrong``
    are the atoms of the truth that are not predicted, and those predicted that are not true; None: the truth
    is not known.
    """
    others = (prediction.best or ())[: most - 1]
    if not others:
        return {}
    labels: list[Label] = [*range(1, len(others) + 1), None]
    odds = [math.exp(-other.difference) for other in others]
    probabilities = [1.0 / (1.0 + odds[0]), *(x / (1.0 + x) for x in odds)]
    true = None
    if wrong is not None:
        changes = [(named_atoms(x.true), named_atoms(x.false)) for x in others]
        states = [(set[Atom](), set[Atom]()), *changes]
        true = states.index(wrong) if wrong in states else len(others)
    return {ANSWERS: [Unit([], labels, probabilities, true)]}
