"""What a run leaves behind for people: its weights as rules, its report and its summary."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onlinesrl import __version__
from onlinesrl.config import Config
from onlinesrl.ground.pack import show_atom
from onlinesrl.lang import weights as weight_files
from onlinesrl.lang.example import Atoms, Constant, Example, ValuedAtom
from onlinesrl.learn.online import OnlineLearner, Outcome
from onlinesrl.learn.weights import Entry, WeightTable
from onlinesrl.report import ExampleRow, WeightRow, write_report
from onlinesrl.stream.folder import RunFolder, storage_errors, write_atomic
from onlinesrl.stream.loop import Run

REPORTED_WEIGHTS = 400


def read_summary(folder: RunFolder) -> dict[str, Any] | None:
    """Return the summary, which is the last thing that a run writes; None where there is none."""
    if not folder.summary.exists():
        return None
    with storage_errors(folder.summary, "read"):
        summary: dict[str, Any] = json.loads(folder.summary.read_bytes())
    return summary


def write_results(config: Config, run_: Run, timing: Mapping[str, float]) -> dict[str, Any]:
    """Write weights.mln, report.html and, last, summary.json; returns the summary."""
    folder, line = run_.folder, run_.line()
    summary = {
        "version": __version__,
        "finished": run_.finished,
        **{name: value for name, value in line.items() if name != "window"},
        "seconds": run_.seconds,
        "examples_per_second": line["examples"] / run_.seconds if run_.seconds else None,
        **timing,
        "config": config.as_dict(),
    }
    entries = heaviest(run_.learner.weights)
    write_atomic(folder.weights, weights_text(run_.learner, entries).encode())
    with storage_errors(folder.report, "write"):
        write_report(
            folder.report,
            title=f"onlinesrl: {config.output.name}",
            summary=summary,
            metrics=_metrics_lines(folder.metrics),
            weights=[weight_row(e) for e in entries[:REPORTED_WEIGHTS]],
            examples=[example_row(run_.learner, *shown) for shown in run_.shown],
        )
    write_atomic(folder.summary, json.dumps(summary, indent=2).encode() + b"\n")
    return summary


def _metrics_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def heaviest(weights: WeightTable) -> list[Entry]:
    """Return the weights by |averaged weight| times the updates they took part in, largest first.

    Weights that are zero and were never updated say nothing and are left out.
    """
    entries = [e for e in weights.entries() if e.uses or e.weight != 0.0]
    return sorted(entries, key=lambda e: -abs(e.weight) * max(1, e.uses))


def weights_text(learner: OnlineLearner, entries: list[Entry]) -> str:
    """Return a weights file."""
    text = io.StringIO()
    updates = learner.weights.updates
    header = (
        f"Averaged weights after {updates} updates ({learner.hyper.update}), most influential first."
        f"\n{len(entries)} weights; written by onlinesrl {__version__}."
    )
    rows = ((e.clause, e.key, e.weight) for e in entries)
    weight_files.write(learner.layout.plan.program, rows, text, header)
    return text.getvalue()


def weight_row(entry: Entry) -> WeightRow:
    """Return a weight as the report shows it."""
    instance = ", ".join(
        f"{name} = {constant}"
        for name, constant in zip(entry.clause.template, entry.key, strict=True)
    )
    return WeightRow(entry.clause.text, instance, entry.weight, entry.uses)


def example_row(learner: OnlineLearner, example: Example, outcome: Outcome) -> ExampleRow:
    """Return an example as the report shows it."""
    predicted = outcome.prediction.predicted if outcome.prediction else {}
    return ExampleRow(
        str(example.id),
        example.group,
        _atoms(predicted),
        _atoms(example.truth or {}),
        _words(learner, example.evidence),
    )


def _atoms(atoms: Mapping[str, Sequence[list[Constant] | ValuedAtom]]) -> list[str]:
    found = []
    for name, rows in atoms.items():
        for row in rows:
            args, value = (row.args, row.value) if isinstance(row, ValuedAtom) else (row, 1.0)
            if value:
                found.append(show_atom(name, (a if isinstance(a, int) else f'"{a}"' for a in args)))
    return found


def _words(learner: OnlineLearner, evidence: Atoms) -> dict[str, str]:
    """Say what constants of query types stand for: by a relation to a type that only names things."""
    plan = learner.layout.plan
    queried = {t for q in plan.query for t in learner.layout.arguments(q)}
    for name, atoms in evidence.items():
        types = learner.layout.arguments(name)
        if len(types) == 2 and types[0] not in plan.local and types[1] in queried:
            return {str(row[1]): str(row[0]) for row in atoms if isinstance(row, list)}
    return {}
