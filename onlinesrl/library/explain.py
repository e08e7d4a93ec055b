"""Why a learner predicts what it predicts."""

from __future__ import annotations

from collections.abc import Sequence

from onlinesrl.core.errors import UsageError
from onlinesrl.core.example import Atom, Constant, Example
from onlinesrl.core.explain.counterfactual import CounterfactualQuery
from onlinesrl.core.explain.explanation import Explanation, read_atom
from onlinesrl.library.inputs import Given, constant, example
from onlinesrl.library.learner import OnlineLearner
from onlinesrl.library.prediction import Prediction

AnyAtom = str | tuple[str, Sequence[Constant]]
"""An atom as text, ``InField(3, title)``, or its predicate and arguments."""


def explain(
    learner: OnlineLearner,
    x: Example | Prediction | Given,
    atom: AnyAtom | None = None,
    *,
    query: Given | None = None,
    change: Sequence[AnyAtom] | None = None,
    tries: int = 1000,
) -> Explanation:
    """Return why an atom of an example is predicted so, by the averaged weights as they are now.

    Markov logic: the ground rules for it and against it, and the best state in which it is otherwise; PSL:
    the pull and the price of each ground rule. Without an ``atom`` it is the least certain one. ``change``
    lists the evidence atoms that may change to flip it (default: the example's own may become false),
    and ``tries`` how many changes are tried at most (0: none). Shows itself as text, in a notebook as a
    table; ``as_dict`` gives all of it. The learner does not change.

    Raises ExampleError for a bad example, ExplanationError for an atom that is not predicted, UsageError
    for what is no atom.
    """
    sample = x.example if isinstance(x, Prediction) else example(x, None, query)
    predictor = learner.learned
    question = CounterfactualQuery(
        None if change is None else [atom_of(item) for item in change], tries
    )
    return predictor.explain(sample, None if atom is None else atom_of(atom), question)


def atom_of(atom: AnyAtom) -> Atom:
    """Return an atom that was given as text, or as its predicate and arguments. Raises UsageError."""
    if isinstance(atom, str):
        return read_atom(atom)
    match atom:
        case [str(name), [*arguments]]:
            return name, tuple(
                str(constant(argument, f"the atom of {name}")) for argument in arguments
            )
    raise UsageError("expected an atom as text, Name(a, b), or its predicate and its arguments")
