"""Why PSL gives a target its value: the pull of each ground rule, and the least change that flips it.

The energy is least where nothing pulls a value any more. A ground rule of form ``l = q . y + c`` and dual
``u`` (``psl.inference.dual``) pulls value ``j`` up by ``-u q_j``. At 0 and 1 the bound's multiplier cancels
the sum of the pulls. At the optimum the rest is 0, by the stationarity of the KKT conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec
import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Atom, Constant, Example, ValuedAtom
from onlinesrl.core.explain.counterfactual import (
    Candidate,
    CounterfactualQuery,
    candidates_of,
    changed,
    search,
)
from onlinesrl.core.explain.explanation import (
    Explanation,
    ExplanationError,
    Flip,
    Reason,
    first_of,
    ordered,
    shown,
)
from onlinesrl.core.learner import Outcome, Prediction
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.ground.hinge_loss_mrf import EQUAL, HingeLossMRF
from onlinesrl.psl.ground.packing import CheckedExample, PslPacker
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.inference.weight_scale import scale

AT_BOUND = 1e-6
"""Values nearer than this to 0 or 1 count as 0 or 1."""
NO_PULL = 1e-9
"""A weaker pull counts as 0; where all weights are small, that share of the largest."""


class Weights(Protocol):
    """The weights that predictions are made with."""

    def averaged(self) -> Floats:
        """Return the averaged weight of every rule, float64[rules]."""


class Predictor(Protocol):
    """What an explanation needs: the online learner has it."""

    packer: PslPacker
    grounder: Grounder

    @property
    def weights(self) -> Weights:
        """The weights."""

    def solved(self, example: Example) -> tuple[CheckedExample, HingeLossMRF, HingeSolution]:
        """Return an example, its ground model, and its values by the averaged weights."""

    def ground_model(self, checked: CheckedExample) -> HingeLossMRF:
        """Return the ground model of an example. Raises ExampleError where it cannot be grounded."""

    def predict(self, items: Sequence[Example]) -> list[Outcome]:
        """Predict without learning."""


def explain(
    learner: Predictor, example: Example, atom: Atom | None, query: CounterfactualQuery
) -> Explanation:
    """See ``Learner.explain``."""
    example = msgspec.structs.replace(example, truth=None)
    checked, model, solution = learner.solved(example)
    if atom is None:
        atom = first_of(_by_certainty(checked, solution), example)
    name, (predicate, constants) = str(example.id), atom
    if predicate not in learner.packer.query:
        raise ExplanationError(
            f"{shown(atom)}: {predicate} is not predicted, but {', '.join(learner.packer.query)}"
        )
    if constants in checked.observed.get(predicate, {}):
        observed = checked.observed[predicate][constants]
        return Explanation(name, shown(atom), observed, given=True)
    if constants not in checked.targets[predicate]:
        raise ExplanationError(f"{shown(atom)} is neither in the example's `query` nor observed")
    target = _targets(checked).index(atom)
    database = learner.packer.database([checked])
    texts = learner.grounder.texts(database, learner.packer.query, target)
    reasons = reasons_of(model, solution, target, texts, learner.weights.averaged())
    y = float(solution.y[target])
    flip = _least_change(learner, example, checked, atom, y > 0.5, query)
    return replace(balance(name, atom, y, reasons, solution.certified), flip=flip)


def balance(
    name: str, atom: Atom, y: float, reasons: tuple[Reason, ...], certified: bool
) -> Explanation:
    """Return why a target of the example ``name`` has the value y, from the pulls of its ground rules."""
    total = sum(reason.effect for reason in reasons)
    bound_holds = (y <= AT_BOUND and total < 0) or (y >= 1 - AT_BOUND and total > 0)
    return Explanation(
        name,
        shown(atom),
        y,
        certified,
        reasons=reasons,
        undecided=sum(reason.effect == 0 for reason in reasons),
        bound=-total if bound_holds else 0.0,
        residual=0.0 if bound_holds else abs(total),
    )


def least_certain(learner: Predictor, example: Example, most: int) -> list[Atom]:
    """See ``Learner.least_certain``."""
    checked, _, solution = learner.solved(msgspec.structs.replace(example, truth=None))
    return _by_certainty(checked, solution)[:most]


def _by_certainty(checked: CheckedExample, solution: HingeSolution) -> list[Atom]:
    atoms = _targets(checked)
    order = np.argsort(np.abs(solution.y - 0.5), kind="stable")
    return [atoms[target] for target in order.tolist()]


def _targets(checked: CheckedExample) -> list[Atom]:
    """Return the targets in the order of the variables."""
    return [(name, key) for name, rows in checked.targets.items() for key in rows]


def reasons_of(
    model: HingeLossMRF, solution: HingeSolution, target: int, texts: Sequence[str], weights: Floats
) -> tuple[Reason, ...]:
    """Return the pull of every ground rule on a target; ``texts`` are theirs, in order."""
    entries = np.flatnonzero(model.variable == target)
    rows = model.row[entries]
    pulls = -solution.dual[rows] * model.coefficient[entries]
    form = model.forms(solution.y)[rows]
    least = NO_PULL / scale(weights)
    distance = np.where(model.kind[rows] == EQUAL, np.abs(form), np.maximum(form, 0.0))
    return ordered(
        [
            Reason(
                text,
                None if model.weight_index[row] < 0 else float(weights[model.weight_index[row]]),
                pull if abs(pull) > least else 0.0,
                distance=row_distance,
                dual=float(solution.dual[row]),
            )
            for text, row, pull, row_distance in zip(
                texts, rows.tolist(), pulls.tolist(), distance.tolist(), strict=True
            )
        ]
    )


# what would flip it --------------------------------------------------------------------------------


def _least_change(
    learner: Predictor,
    example: Example,
    checked: CheckedExample,
    atom: Atom,
    value: bool,
    query: CounterfactualQuery,
) -> Flip | None:
    """Return the least change of evidence that takes a target to the other side of 1/2.

    Raises ExplanationError for a candidate that cannot be observed.
    """
    if not query.tries:
        return None
    for name, args in query.candidates or ():
        if learner.packer.arities.get(name) != len(args):
            raise ExplanationError(
                f"{shown((name, args))}: no atom of the model, so it cannot change"
            )
        if args in checked.targets.get(name, {}):
            raise ExplanationError(
                f"{shown((name, args))} is predicted itself, so it cannot change"
            )
    candidates = candidates_of(example, query)
    strengths = _strengths(learner, checked, atom, candidates)
    connected = [
        replace(c, reach=strengths[c.atom]) for c in candidates if strengths.get(c.atom, 0) > 0
    ]

    def flipped(sets: Sequence[Sequence[Candidate]]) -> list[str | None]:
        items = [changed(example, change) for change in sets]
        values = [_value(change.prediction, atom) for change in learner.predict(items)]
        return [f"{y:.3g}" if y is not None and (y > 0.5) != value else None for y in values]

    return search(connected, 0.0, flipped, query.tries)


def _value(prediction: Prediction | None, atom: Atom) -> float | None:
    """Return the value of an atom in a prediction; None where there is none."""
    for row in prediction.predicted.get(atom[0], ()) if prediction else ():
        if isinstance(row, ValuedAtom) and tuple(map(str, row.args)) == atom[1]:
            return row.value
    return None


def _strengths(
    learner: Predictor, checked: CheckedExample, atom: Atom, candidates: Sequence[Candidate]
) -> Mapping[Atom, float]:
    """Return how strongly rules connected with a target hold each candidate: sum of w_i |q_ij|.

    The candidates become targets of a model. With their values fixed, its energy is a sum over components,
    and only those in the target's component can change it. An atom that a filter names always counts.
    """
    changeable = {candidate.atom for candidate in candidates}
    observed = {
        name: {key: value for key, value in rows.items() if (name, key) not in changeable}
        for name, rows in checked.observed.items()
    }
    targets: dict[str, dict[tuple[str, ...], list[Constant]]] = {
        name: {**checked.targets.get(name, {}), **{k: [*k] for n, k in changeable if n == name}}
        for name in learner.packer.arities
    }
    opened = replace(checked, observed=observed, targets=targets)
    try:
        model = learner.ground_model(opened)
    except ExampleError:
        return dict.fromkeys(changeable, np.inf)
    atoms = _targets(opened)
    fixed = np.array([candidate in changeable for candidate in atoms])
    in_component = np.isin(model.row, _component(model, atoms.index(atom), fixed))
    weight = np.where(model.weight_index < 0, np.inf, model.row_weights(learner.weights.averaged()))
    strength = np.where(in_component, weight[model.row], 0.0) * np.abs(model.coefficient)
    total = np.bincount(model.variable, np.nan_to_num(strength), model.n_variables).tolist()
    strengths = {candidate: total[n] for n, candidate in enumerate(atoms) if fixed[n]}
    filters = learner.grounder.filters
    return strengths | {atom: np.inf for atom in changeable if atom[0] in filters}


def _component(model: HingeLossMRF, target: int, fixed: Bools) -> Ints:
    """Return the rows of a target's component; variables that are ``fixed`` connect no rows."""
    rows_of: dict[int, list[int]] = {}
    for row, variable in zip(model.row.tolist(), model.variable.tolist(), strict=True):
        rows_of.setdefault(variable, []).append(row)
    rows, seen, queue = set[int](), {target}, [target]
    while queue:
        for row in rows_of.get(queue.pop(), ()):
            if row not in rows:
                rows.add(row)
                variables = model.variable[model.start[row] : model.start[row + 1]].tolist()
                new = [j for j in variables if not fixed[j] and j not in seen]
                seen.update(new)
                queue += new
    return np.array(sorted(rows), np.int64)
