"""What a run leaves behind for people: its weights as rules, its report and its summary."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from onlinesrl import __version__
from onlinesrl.config import Config
from onlinesrl.lang import weights as weight_files
from onlinesrl.lang.example import Atoms, Constant, Example, ValuedAtom, show_ground_atom
from onlinesrl.lang.psl_text import show_program
from onlinesrl.learn.learner import Learner, Outcome, WeightEntry
from onlinesrl.learn.online import OnlineLearner
from onlinesrl.learn.rule_weights import RuleWeights
from onlinesrl.report import ExampleRow, WeightRow, write_report
from onlinesrl.stream.folder import RunFolder, json_lines, storage_errors, write_atomic
from onlinesrl.stream.loop import Run

REPORTED_WEIGHTS = 400
E = TypeVar("E", bound=WeightEntry)


def read_summary(folder: RunFolder) -> dict[str, Any] | None:
    """Return the summary, which is the last thing that a run writes.

    None where there is none, or a damaged one: it is then written again.
    """
    if not folder.summary.exists():
        return None
    with storage_errors(folder.summary, "read"):
        text = folder.summary.read_bytes()
    try:
        msgspec.json.decode(text, type=_Summary)
        summary: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return summary


class _Line(msgspec.Struct):
    """What the report takes for granted of a line of metrics."""

    examples: int
    window: dict[str, Any]
    by: dict[str, dict[str, Any]]
    routes: dict[str, int] = {}
    errors: dict[str, int] = {}


class _Slow(msgspec.Struct):
    """One of the slowest examples."""

    id: Constant
    seconds: float
    atoms: int
    route: str


class _Summary(msgspec.Struct):
    """What people are told of a summary, as it must be."""

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


def write_results(config: Config, run_: Run, timing: Mapping[str, float]) -> dict[str, Any]:
    """Write the weights, report.html and, last, summary.json; returns the summary."""
    folder, line = run_.folder, run_.line()
    summary = {
        "version": __version__,
        "finished": run_.finished,
        "checkpoint": run_.saves,
        **{name: value for name, value in line.items() if name != "window"},
        "seconds": run_.seconds,
        "examples_per_second": line["examples"] / run_.seconds if run_.seconds else None,
        "slowest": run_.learner.slowest.found,
        **timing,
        "config": config.as_dict(),
    }
    entries = heaviest(run_.learner.weights.entries())
    write_atomic(folder.weights, weights_text(run_.learner).encode())
    with storage_errors(folder.report, "write"):
        write_report(
            folder.report,
            title=f"onlinesrl: {config.output.name}",
            summary=summary,
            metrics=list(json_lines(folder.metrics, _Line)),
            weights=[weight_row(e) for e in entries[:REPORTED_WEIGHTS]],
            examples=[example_row(run_.learner, *shown) for shown in run_.shown],
        )
    write_atomic(folder.summary, json.dumps(summary, indent=2).encode() + b"\n")
    return summary


def heaviest(entries: Iterable[E]) -> list[E]:
    """Return the weights by |averaged weight| times the updates they took part in, largest first.

    Weights that are zero and were never updated say nothing and are left out.
    """
    known = [e for e in entries if e.uses or e.weight != 0.0]
    return sorted(known, key=lambda e: -abs(e.weight) * max(1, e.uses))


def weights_text(learner: Learner) -> str:
    """Return a weights file: a program in the language of the model.

    That of Markov logic has its weights by influence, that of PSL has the rules in their order.
    """
    updates, update = learner.weights.updates, learner.update.update
    averaged = f"Averaged weights after {updates} updates ({update})"
    if isinstance(learner.weights, RuleWeights):
        header = f"// {averaged}; written by onlinesrl {__version__}.\n\n"
        return header + show_program(learner.weights.trained())
    assert isinstance(learner, OnlineLearner)
    entries = heaviest(learner.weights.entries())
    header = (
        f"{averaged}, most influential first."
        f"\n{len(entries)} weights; written by onlinesrl {__version__}."
    )
    text = io.StringIO()
    rows = ((e.clause, e.key, e.weight) for e in entries)
    program, shown = learner.layout.plan.program, learner.packer.shown()
    types = {t: (*names, *map(str, shown.get(t, ()))) for t, names in program.types.items()}
    weight_files.write(dataclasses.replace(program, types=types), rows, text, header)
    return text.getvalue()


def weight_row(entry: WeightEntry) -> WeightRow:
    """Return a weight as the report shows it."""
    return WeightRow(entry.text, entry.instance, entry.weight, entry.uses)


def example_row(learner: Learner, example: Example, outcome: Outcome) -> ExampleRow:
    """Return an example as the report shows it."""
    predicted = _valued(outcome.prediction.predicted if outcome.prediction else {})
    truth = _valued(example.truth or {})
    return ExampleRow(
        str(example.id),
        example.group,
        [atom for atom, value in predicted.items() if value > 0.5],
        [atom for atom, value in truth.items() if value > 0.5],
        _words(learner, example.evidence) if isinstance(learner, OnlineLearner) else {},
        {}
        if isinstance(learner, OnlineLearner)
        else {a: _value(v, truth.get(a, 0.0)) for a, v in predicted.items()},
    )


def _value(predicted: float, true: float) -> str:
    """Write a value, and the true one if it reads differently."""
    said, truly = f"{predicted:.2f}", f"{true:.2f}"
    return said if said == truly else f"{said} \u2192 {truly}"


def _valued(atoms: Mapping[str, Sequence[list[Constant] | ValuedAtom]]) -> dict[str, float]:
    """Return the values of atoms by their spelling."""
    found = {}
    for name, rows in atoms.items():
        for row in rows:
            args, value = (row.args, row.value) if isinstance(row, ValuedAtom) else (row, 1.0)
            found[show_ground_atom(name, map(_spelled, args))] = value
    return found


def _spelled(constant: Constant) -> str:
    text = str(constant)
    return text if text.removeprefix("-").isdecimal() else f'"{text}"'


def _words(learner: OnlineLearner, evidence: Atoms) -> dict[str, str]:
    """Say what constants of query types stand for: by a relation to a type that only names things."""
    plan = learner.layout.plan
    queried = {t for q in plan.query for t in learner.layout.arguments(q)}
    for name, atoms in evidence.items():
        types = learner.layout.arguments(name)
        if len(types) == 2 and types[0] not in plan.local and types[1] in queried:
            return {str(row[1]): str(row[0]) for row in atoms if isinstance(row, list)}
    return {}
