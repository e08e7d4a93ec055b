"""The atoms that examples ask about, with their probabilities, and their truth where it is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from onlinesrl.core.evaluation.own_metric import true_atoms
from onlinesrl.core.evaluation.precision_at_k import PrecisionAtK
from onlinesrl.core.example import Example, ValuedAtom, named_atoms, unlabelled_atoms
from onlinesrl.core.learner import Answered, Item, Outcome, Prediction


class ScoredAtom(NamedTuple):
    """An atom with its probability, or its value in PSL; ``true`` None: its truth is not known."""

    predicate: str
    args: tuple[str, ...]
    probability: float
    true: bool | None


def scored_atoms(example: Example, prediction: Prediction) -> Iterator[ScoredAtom]:
    """Yield the atoms of a prediction that the example asks about; all where it does not say which."""
    example = example.whole()
    asked = None if example.asked is None else named_atoms(example.asked)
    unlabelled = unlabelled_atoms(example)
    rows = prediction.predicted if prediction.marginals is None else prediction.marginals
    for name, atoms in rows.items():
        true = true_atoms(example.truth, name)
        for atom in atoms:
            if not isinstance(atom, ValuedAtom):
                continue
            args = tuple(map(str, atom.args))
            if asked is None or (name, args) in asked:
                known = example.labelled and (name, args) not in unlabelled
                yield ScoredAtom(name, args, atom.value, args in true if known else None)


def count_top(
    top: Mapping[str, PrecisionAtK], items: Sequence[Item], outcomes: Sequence[Outcome]
) -> None:
    """Count predictions, and labels of earlier ones, among the most probable atoms by predicate."""
    for item, outcome in zip(items, outcomes, strict=True) if top else ():
        if outcome.prediction is None:
            continue
        answered = isinstance(item, Answered)
        example, prediction = item if isinstance(item, Answered) else (item, outcome.prediction)
        assert isinstance(example, Example)
        for predicate, args, probability, true in scored_atoms(example, prediction):
            name = [str(example.id), *args]
            if answered and true is not None:
                top[predicate].label(example.time, name, probability, true)
            elif not answered:
                top[predicate].add(example.time, name, probability, true)
