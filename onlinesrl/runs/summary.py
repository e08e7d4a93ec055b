"""The results of a run: its weights as rules, its report and its summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.evaluation.label_sets import ANSWERS
from onlinesrl.core.example import (
    Atom,
    Constant,
    Example,
    Rows,
    ValuedAtom,
    arguments,
    show_ground_atom,
    unlabelled_atoms,
)
from onlinesrl.core.explain.counterfactual import CounterfactualQuery
from onlinesrl.core.explain.explanation import Explanation, compared
from onlinesrl.core.io.atomic_write import json_lines, read_plain, storage_errors, write_atomic
from onlinesrl.core.learner import Explainable, Learner, Outcome, Prediction, heaviest
from onlinesrl.core.version import __version__
from onlinesrl.mln.online import answer_sets
from onlinesrl.runs.config.fingerprint import leaves
from onlinesrl.runs.config.schema import Config
from onlinesrl.runs.entity_learner import EntityLearner, least_sure, table
from onlinesrl.runs.report import ExampleRow, WeightRow, write_report
from onlinesrl.runs.report.entities import entities_section
from onlinesrl.stream.recent_examples import UNCERTAIN
from onlinesrl.stream.run_folder import parts
from onlinesrl.stream.trainer import Trainer

REPORTED_WEIGHTS = 400
LEAST_SURE = 20
"""So many records are shown whose entity is least certain."""


def read_summary(path: Path) -> dict[str, Any] | None:
    """Return the summary, the last file that a run writes.

    None if there is none, or it is damaged; it is then written again.
    """
    if not path.exists():
        return None
    with storage_errors(path, "read"):
        text = read_plain(path)
    try:
        msgspec.json.decode(text, type=_Summary)
        summary: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return summary


class _Drift(msgspec.Struct):
    """The signals of drift so far, and after how many examples the newest came."""

    signals: int
    at: list[int]


class _Line(msgspec.Struct):
    """The fields of a line of metrics that the report needs."""

    examples: int
    window: dict[str, Any]
    by: dict[str, dict[str, Any]]
    routes: dict[str, int] = {}
    errors: dict[str, int] = {}
    drift: _Drift | None = None
    facts: int | None = None
    changed_atoms: int | None = None
    touched_rules: int | None = None


class _Slow(msgspec.Struct):
    """One of the slowest examples."""

    id: Constant
    seconds: float
    atoms: int
    route: str


class _Summary(msgspec.Struct):
    """The types of the fields of a summary that are shown."""

    finished: bool
    examples: int
    updates: int
    bad: int
    seconds: float
    weights: int
    dropped_weights: int
    config: dict[str, Any]
    import_seconds: float
    compile_seconds: float
    routes: dict[str, int] = {}
    slowest: list[_Slow] = []
    examples_per_second: float | None = None
    unsolved: int | None = None
    f1: float | None = None
    precision: float | None = None
    recall: float | None = None
    mae: float | None = None
    accuracy: float | None = None
    hamming: float | None = None
    regret_bound: float | None = None
    sampled: int | None = None
    facts: int | None = None
    changed_atoms: int | None = None
    temperature: float | None = None
    own: dict[str, float | None] = {}
    drift: _Drift | None = None


def write_results(
    config: Config, trainer: Trainer, timing: Mapping[str, float], hurried: Callable[[], bool]
) -> dict[str, Any]:
    """Write the weights, entities.csv, report.html and, last, summary.json; returns the summary.

    From when on it is ``hurried``, examples have no explanation, which may need a search.
    """
    state, folder, line = trainer.state, trainer.checkpointer.folder, trainer.line()
    seconds = state.seconds
    summary = {
        "version": __version__,
        "finished": state.finished,
        "checkpoint": trainer.checkpointer.number,
        **{name: value for name, value in line.items() if name != "window"},
        "seconds": seconds,
        "examples_per_second": line["examples"] / seconds if seconds else None,
        "slowest": state.learner.slowest.found,
        **timing,
        "config": config.as_dict(),
    }
    entries, entities = heaviest(state.learner.weights.entries()), None
    if isinstance(state.learner, EntityLearner):
        members = state.learner.members()
        write_atomic(folder.entities, table(members))
        entities = entities_section(state.learner.sizes(), least_sure(members, LEAST_SURE))
    write_atomic(folder.weights, weights_text(state.learner).encode())
    with storage_errors(folder.report, "write"):
        write_report(
            folder.report,
            title=f"onlinesrl: {config.output.name}",
            summary=summary,
            metrics=[line for part in parts(folder.metrics) for line in json_lines(part, _Line)],
            weights=[
                WeightRow(e.text, e.instance, e.weight, e.uses, e.standard_error)
                for e in entries[:REPORTED_WEIGHTS]
            ],
            examples=[
                (shown_row if hurried() else example_row)(state.learner, *pair)
                for pair in state.shown.whole()
            ],
            changed={key for key, _ in leaves(config.model_dump(exclude_unset=True))},
            entities=entities,
        )
    write_atomic(folder.summary, json.dumps(summary, indent=2).encode() + b"\n")
    return summary


def weights_text(learner: Learner) -> str:
    """Return a file of weights: a program in the language of the model."""
    update = learner.update
    words = f"{update.predict.capitalize()} weights after {learner.weights.updates} updates"
    return learner.weights_text(f"{words} ({update.update})", f"onlinesrl {__version__}")


def example_row(learner: Learner, example: Example, outcome: Outcome) -> ExampleRow:
    """Return an example as the report shows it."""
    explanation = _why(learner, example, outcome)
    row = shown_row(learner, example, outcome)
    return row if explanation is None else replace(row, why=[*explanation.lines()])


def shown_row(learner: Learner, example: Example, outcome: Outcome) -> ExampleRow:
    """Return an example as the report shows it, without an explanation."""
    rows = outcome.prediction.predicted if outcome.prediction else {}
    predicted, truth = _valued(rows), _valued(example.truth or {})
    without_truth = unlabelled_atoms(example)
    unlabelled = _valued(
        {
            name: [row for row in atoms if (name, tuple(map(str, arguments(row)))) in without_truth]
            for name, atoms in rows.items()
        }
    ).keys()
    near = [a for a, value in predicted.items() if learner.valued and abs(value - 0.5) < UNCERTAIN]
    positive = {*near, *(a for atoms in (predicted, truth) for a in atoms if atoms[a] > 0.5)}
    values = {
        a: _value(value, value if a in unlabelled else truth.get(a, 0.0))
        for a, value in predicted.items()
        if learner.valued and a in positive
    }
    return ExampleRow(
        str(example.id),
        example.group,
        [atom for atom, value in predicted.items() if value > 0.5],
        [atom for atom, value in truth.items() if value > 0.5],
        learner.words(example.evidence),
        values,
        near,
        [a for a in predicted if a in positive and a in unlabelled],
        sum(a not in positive and a not in unlabelled for a in predicted),
        threshold=(outcome.prediction and outcome.prediction.threshold) or {},
        best=[*_best(outcome.prediction, truth.keys() - unlabelled)] if outcome.prediction else [],
        answer_set=_answer_set(outcome.prediction) if outcome.prediction else "",
    )


def _best(prediction: Prediction, truth: Set[str]) -> Iterator[str]:
    """Yield of the next best states how much less each scores, and what differs; the truth is marked."""
    for row in prediction.best or ():
        true, false = _valued(row.true).keys(), _valued(row.false).keys()
        state = (_valued(prediction.predicted).keys() - false) | true
        mark = " (the truth)" if state == truth else ""
        atoms = [*(f"+ {atom}" for atom in true), *(f"\u2212 {atom}" for atom in false)]
        yield f"{row.rank}: {row.difference:.4g} less{mark}: {', '.join(atoms)}"


def _answer_set(prediction: Prediction) -> str:
    """Tell whether the set of answers has the prediction, and how many next best states; "" without a set."""
    if ANSWERS not in (prediction.sets or {}):
        return ""
    size = answer_sets.size(prediction.sets)
    if size is None:
        return "the set has every answer"
    if size == 0:
        return "the set is empty, without even the prediction"
    return f"the set has the prediction {f'and the next {size - 1}' if size > 1 else 'alone'}"


def _why(learner: Explainable, example: Example, outcome: Outcome) -> Explanation | None:
    """Explain the first wrong atom of an example, or else its least certain one, by the weights of the end.

    None where there is none, or the example is bad for these weights (its truth stays shown).
    """
    predicted = outcome.prediction.predicted if outcome.prediction else {}
    predicted_atoms, true_atoms = _true(predicted), _true(example.truth or {})
    unlabelled = unlabelled_atoms(example)
    wrong = [a for a in predicted_atoms if a not in true_atoms and a not in unlabelled]
    wrong += [atom for atom in true_atoms if atom not in predicted_atoms]
    try:
        explanation = learner.explain(
            example, next(iter(wrong), None), CounterfactualQuery(tries=0)
        )
    except OnlinesrlError:
        return None
    return compared(explanation, predicted)


def _true(atoms: Rows) -> dict[Atom, None]:
    return {
        (name, tuple(map(str, arguments(row)))): None
        for name, rows in atoms.items()
        for row in rows
        if not isinstance(row, ValuedAtom) or row.value > 0.5
    }


def _value(predicted: float, true: float) -> str:
    """Format a value, and the true one if it looks different."""
    text, true_text = f"{predicted:.2f}", f"{true:.2f}"
    return text if text == true_text else f"{text} \u2192 {true_text}"


def _valued(atoms: Rows) -> dict[str, float]:
    """Return the values of atoms by their spelling."""
    values = {}
    for name, rows in atoms.items():
        for row in rows:
            args, value = (row.args, row.value) if isinstance(row, ValuedAtom) else (row, 1.0)
            values[show_ground_atom(name, map(_spelled, args))] = value
    return values


def _spelled(constant: Constant) -> str:
    text = str(constant)
    return text if text.removeprefix("-").isdecimal() else f'"{text}"'
