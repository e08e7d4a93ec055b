"""Inference on one PSL model: rules and data in; truth values of the targets, and statistics, out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import UNPROVEN, UsageError
from onlinesrl.core.evaluation.prequential import f1
from onlinesrl.core.io.atomic_write import storage_errors, write_atomic
from onlinesrl.core.jit.decorators import told_of_compiling
from onlinesrl.core.timing import Clock
from onlinesrl.logic.tables import with_names
from onlinesrl.psl.ground.grounder import MOST
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.inference.solving import InferenceProblem, Options, quiet, solved, weights_of
from onlinesrl.psl.lang.data import UNMATCHED, AtomTable, Database, Relation
from onlinesrl.psl.lang.model import PslModel, load_json, load_psl
from onlinesrl.psl.lang.reader import parse

FEASIBLE = 1e-3
"""How much an answer may violate a hard rule without a warning."""


@dataclass(frozen=True, eq=False)
class Inferred:
    """A value for every target, float64[targets], in the database's order, and statistics as plain JSON."""

    database: Database
    values: Floats
    stats: dict[str, Any]


def load(model: Path, data: Path | None) -> PslModel:
    """Read a .json model, or a .psl file of rules with its .data file. Raises LocatedError."""
    if model.suffix == ".json":
        if data is not None:
            raise UsageError(f"{model} says itself where its data are: --data is for .psl models")
        return load_json(model)
    if data is None:
        raise UsageError(f"{model} needs --data, the .data file that says where its data are")
    return load_psl(model, data)


def infer(model: Path, data: Path | None, options: Options) -> Inferred:
    """Infer the values of least energy.

    Raises UsageError for a method that cannot solve such a model, Infeasible, StorageError, and LocatedError
    for mistakes in the model or its data.
    """
    options.check()
    clock = Clock()
    options.say("reading the model and its data")
    psl = load(model, data)
    problem = InferenceProblem(psl.program, psl.functions, psl.database())
    clock.lap("load")
    return solve(problem, options, clock)


def solve(problem: InferenceProblem, options: Options, clock: Clock) -> Inferred:
    """Infer the values of least energy of a program on its data; see ``infer``."""
    options.say("loading the kernels")
    with told_of_compiling(options.tell):
        large = options.large if options.threads == 1 else 0
        loading = replace(options, say=quiet, most=MOST, skip=False, large=large)
        solved(_smallest(), loading, quiet)
    clock.lap("compile")
    options.say("grounding")
    solution, counts = solved(problem, options, clock.lap)
    unmatched = options.grounder(problem).constants - {*problem.database.constants}
    warnings = [UNMATCHED.format(name, "data") for name in sorted(unmatched)]
    if not solution.certified:
        other = "" if options.method == "admm" else "; the method admm may find one that is"
        warnings.append(f"{UNPROVEN}{other}")
    stats = {
        "method": options.method,
        **counts,
        **_quality(solution, weights_of(problem.program)),
        "warnings": warnings,
        "evaluation": evaluation(problem.database, solution.y),
        **clock.stats(),
    }
    return Inferred(problem.database, solution.y, stats)


def _smallest() -> InferenceProblem:
    """Return a problem that loads every kernel, so that times measured later are without loading."""
    single = np.zeros((1, 1), np.int32)
    none = AtomTable(single[:, :0], np.empty(0))
    target = Relation(none, AtomTable(single, np.full(1, np.nan)), none)
    return InferenceProblem(parse("1: !P(X) ^2"), {}, Database(("a",), {"P": target}))


def _quality(solution: HingeSolution, weights: Floats) -> dict[str, Any]:
    """Return the quality of an answer; PSL normalises weights by the largest."""
    top = float(weights.max(initial=0.0)) or 1.0
    bound = solution.bound if np.isfinite(solution.bound) else None
    return {
        "score": 0.0 - solution.energy,
        "objective": solution.energy,
        "normalised_objective": solution.energy / top,
        "lower_bound": bound,
        "gap": None if bound is None else solution.energy - bound,
        "violation": solution.violation,
        "certified": solution.certified,
        "rounds": solution.iterations,
    }


def named(inferred: Inferred) -> Iterator[tuple[str, AtomTable]]:
    """Yield each predicate that has targets, and its targets with their values."""
    first = 0
    for name, relation in inferred.database.relations.items():
        n = len(relation.targets)
        if n:
            yield name, AtomTable(relation.targets.columns, inferred.values[first : first + n])
        first += n


def columns(inferred: Inferred) -> dict[str, dict[str, Sequence[Any]]]:
    """Return the targets and their values as columns, by predicate."""
    names = np.array(inferred.database.constants, object)
    return {
        name: with_names(
            [None] * len(table.columns),
            (names[column].tolist() for column in table.columns),
            table.values.tolist(),
        )
        for name, table in named(inferred)
    }


def lines(inferred: Inferred) -> Iterator[str]:
    """Yield a line for each target: predicate, constants and value, separated by tabs."""
    for name, table in named(inferred):
        yield from (f"{name}\t{row}" for row in _rows(inferred.database, table))


def summary(inferred: Inferred) -> str:
    """Return a summary of an answer for people, as lines of text."""
    stats = inferred.stats
    rows = {
        "Targets": f"{stats['targets']:,}",
        "Ground rules": f"{stats['potentials']:,} potentials, {stats['constraints']:,} constraints",
        "Objective": f"{stats['objective']:.8g}, {_optimality(stats)}",
        "Violation": f"{stats['violation']:.2g} of a hard rule, the most",
        "Seconds": ", ".join(f"{part} {value:.2f}" for part, value in stats["seconds"].items()),
        "Peak memory": f"{stats['peak_bytes'] / 1e6:,.0f} MB",
    }
    if stats["skipped"]:
        reach = "that reach an atom neither observed nor a target"
        rows["Left out"] = f"{stats['skipped']:,} ground rules {reach}"
    for name, figures in stats["evaluation"].items():
        error = f"mean absolute error {figures['mean_absolute_error']:.4f}"
        rows[name] = error + ("" if figures["f1"] is None else f", F1 {figures['f1']:.1%}")
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items())


def _optimality(stats: Mapping[str, Any]) -> str:
    if stats["violation"] > FEASIBLE:
        return "but the values break hard rules"
    if stats["gap"] is None:
        return "which may be far above the least"
    return f"at most {max(stats['gap'], 0):.2g} above the least"


def write(inferred: Inferred, folder: Path) -> None:
    """Write a file of rows for each predicate with targets, as PSL does, and ``stats.json``.

    Raises StorageError.
    """
    with storage_errors(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, table in named(inferred):
        rows = "".join(f"{row}\n" for row in _rows(inferred.database, table))
        write_atomic(folder / f"{name}.txt", rows.encode())
    write_atomic(folder / "stats.json", json.dumps(inferred.stats, indent=2).encode(), b"\n")


def _rows(database: Database, table: AtomTable) -> Iterator[str]:
    columns = [[database.constants[n] for n in column.tolist()] for column in table.columns]
    values = (f"{value:.10g}" for value in table.values.tolist())
    return map("\t".join, zip(*columns, values, strict=True))


def evaluation(database: Database, values: Floats) -> dict[str, Any]:
    """Compare values of targets with their truth, if the data give it, by predicate.

    Mean absolute error, and F1 with values above 1/2 as true.
    """
    result, first = {}, 0
    for name, relation in database.relations.items():
        n = len(relation.targets)
        truth, predicted = relation.target_truth(), values[first : first + n]
        has_truth = ~np.isnan(truth)
        truth, predicted = truth[has_truth], predicted[has_truth]
        first += n
        if len(truth):
            hits = int(np.sum((predicted > 0.5) & (truth > 0.5)))
            alarms, misses = int(np.sum(predicted > 0.5)) - hits, int(np.sum(truth > 0.5)) - hits
            result[name] = {
                "atoms": len(truth),
                "mean_absolute_error": float(np.abs(predicted - truth).mean()),
                "f1": f1(hits, alarms, misses),
            }
    return result
