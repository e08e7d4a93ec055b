"""What an atom's probability would be without a constant, or an evidence atom, that is linked with it.

Each is left out alone, and the example predicted again: leave-one-out attribution ("erasure" in Li, Monroe &
Jurafsky, Understanding Neural Networks through Representation Erasure, 2016).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, TypeAlias

from msgspec.structs import replace

from onlinesrl.core.example import Atom, Atoms, Constant, Example, ValuedAtom, arguments
from onlinesrl.core.explain.counterfactual import Candidate, changed
from onlinesrl.core.explain.explanation import shown
from onlinesrl.core.learner import Prediction
from onlinesrl.mln.explain.predicted_world import Predictor

MOST = 64
"""So many constants and evidence atoms are left out at most, those next to the atom first."""
LEAST = 0.005
"""A smaller difference of probabilities is not told."""
Row: TypeAlias = list[Constant] | ValuedAtom
TypedConstant: TypeAlias = tuple[str | None, str]


def leave_one_out(predictor: Predictor, example: Example, atom: Atom, tries: int) -> dict[str, Any]:
    """Return the fields ``probability``, ``without`` and ``sampled`` of an explanation.

    There are none where the learner predicts without probabilities, or nothing may be tried.
    """
    blind = replace(example, truth=None, unlabelled=None)
    prediction = predictor.predict([blind])[0].prediction if tries else None
    probability = None if prediction is None else _probability(prediction, atom)
    if prediction is None or probability is None:
        return {}
    variants = [*islice(_variants(predictor, blind, atom), min(tries, MOST))]
    outcomes = predictor.predict([variant for _, variant in variants])
    sampled, without = prediction.probabilities == "sampled", list[tuple[str, float]]()
    for (text, _), outcome in zip(variants, outcomes, strict=True):
        if outcome.prediction is None:
            continue
        other = _probability(outcome.prediction, atom)
        if other is not None and abs(other - probability) >= LEAST:
            without.append((text, other))
            sampled |= outcome.prediction.probabilities == "sampled"
    without.sort(key=lambda pair: -abs(pair[1] - probability))
    return {"probability": probability, "without": tuple(without), "sampled": sampled}


def _probability(prediction: Prediction, atom: Atom) -> float | None:
    """Return the probability of an atom; None where it has none."""
    for row in (prediction.marginals or {}).get(atom[0], ()):
        if tuple(map(str, row.args)) == atom[1]:
            return row.value
    return None


def _variants(predictor: Predictor, example: Example, atom: Atom) -> Iterator[tuple[str, Example]]:
    """Yield what is left out, and the example without it: constants, then evidence atoms.

    A constant is linked if an evidence atom has it together with a constant of the atom. One of a single
    evidence atom is left out by that.
    """
    types = predictor.grounder.layout.arguments

    def typed(name: str, row: Row | Sequence[str]) -> set[TypedConstant]:
        constants = row if isinstance(row, tuple) else arguments(row)  # type: ignore[arg-type]
        return {(kind, str(c)) for kind, c in zip(types(name), constants, strict=True)}

    own = typed(atom[0], atom[1])
    true = [
        (name, row, typed(name, row))
        for name, rows in example.evidence.items()
        for row in rows
        if not isinstance(row, ValuedAtom) or row.value
    ]
    next_to = [known for _, _, known in true if known & own]
    linked = dict.fromkeys(c for known in next_to for c in sorted(known - own, key=str))
    for constant in linked:
        rows = [
            (name, tuple(map(str, arguments(row))))
            for name, row, known in true
            if constant in known
        ]
        if len(rows) < 2:
            continue

        def others(atoms: Atoms | None, constant: TypedConstant = constant) -> Atoms | None:
            return atoms and {
                name: [row for row in rows if constant not in typed(name, row)]
                for name, rows in atoms.items()
            }

        evidence = others(example.evidence) or {}
        rest = set[TypedConstant]().union(*(typed(n, row) for n in evidence for row in evidence[n]))
        lacking = replace(
            example, evidence=evidence, query=others(example.query), asked=others(example.asked)
        )
        kept = own <= rest or example.query is not None
        yield (
            constant[1],
            lacking if kept else changed(example, [Candidate(a, False) for a in rows]),
        )
    near = chain(
        (row for row in true if row[2] & own),
        (row for row in true if not row[2] & own and row[2] & linked.keys()),
    )
    for name, row, _ in near:
        candidate = Candidate((name, tuple(map(str, arguments(row)))), False)
        yield shown(candidate.atom), changed(example, [candidate])
