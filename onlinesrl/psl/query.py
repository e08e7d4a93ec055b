"""Inference on one PSL model: rules and data in; truth values of the targets, and statistics, out."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.clock import Clock
from onlinesrl.core.errors import UNPROVEN, UsageError
from onlinesrl.core.kernels.jit import told_of_compiling
from onlinesrl.core.metrics import f1
from onlinesrl.core.storage import storage_errors, write_atomic
from onlinesrl.logic.tables import with_names
from onlinesrl.psl.engines.admm import Admm
from onlinesrl.psl.engines.dual import residual
from onlinesrl.psl.engines.engine import HingeEngine, HingeSolution, Round
from onlinesrl.psl.engines.lifting import Lifted
from onlinesrl.psl.engines.sgd import Sgd
from onlinesrl.psl.engines.tron import Tron
from onlinesrl.psl.ground.grounder import MOST, Grounder
from onlinesrl.psl.ground.hinges import AT_MOST
from onlinesrl.psl.ground.rows import Listing
from onlinesrl.psl.lang.ast import PslProgram
from onlinesrl.psl.lang.data import AtomTable, Database, Relation
from onlinesrl.psl.lang.model import Functions, PslModel, load_json, load_psl
from onlinesrl.psl.lang.psl import parse

if TYPE_CHECKING:
    from onlinesrl.psl.engines.tandem import TandemSolution

METHODS = ("admm", "lifted-admm", "tandem", "sgd", "tron", "qp")

FEASIBLE = 1e-3
"""How much an answer may violate a hard rule without a warning."""

DUCKDB_BYTES = 400_000_000
"""The memory, in bytes, that DuckDB may use for grounding in tandem inference."""

Say: TypeAlias = Callable[[str], None]
MakeGrounder: TypeAlias = Callable[[PslProgram, Functions], Grounder]
Solve: TypeAlias = Callable[
    [PslProgram, Functions, Database, Callable[[str], None]],
    "tuple[HingeSolution | TandemSolution, dict[str, Any]]",
]
"""Grounds and solves a program on data, reporting laps; also returns statistics."""


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


def infer(  # noqa: PLR0913, PLR0917 - the options of the command
    model: Path,
    data: Path | None,
    method: str,
    seed: int,
    folder: Path | None,
    say: Say,
    max_groundings: int = MOST,
    skip: bool = False,
    tell: Say = lambda _: None,
    threads: int = 1,
) -> Inferred:
    """Infer the values of least energy; ``say`` gets progress messages, ``tell`` messages that stay.

    ``max_groundings`` limits the rows of joins when grounding in memory. ``skip`` leaves out ground rules
    with an atom that is neither observed nor a target. ``threads`` does not change the answer.

    ``folder`` is for data that do not fit in memory; by default the system's temporary folder. Raises
    UsageError for a method that cannot solve such a model, Infeasible, StorageError, and LocatedError
    for mistakes in the model or its data.
    """
    check_method(method)
    clock = Clock()
    say("reading the model and its data")
    psl = load(model, data)
    found = psl.program, psl.functions, psl.database()
    clock.lap("load")
    return solve(*found, method, seed, folder, say, max_groundings, skip, tell, clock, threads)


def check_method(method: str) -> None:
    """Raise UsageError for a method that there is not."""
    if method not in METHODS:
        raise UsageError(f"unknown method {method}; for PSL there are {', '.join(METHODS)}")


def solve(  # noqa: PLR0913, PLR0917 - as ``infer``
    program: PslProgram,
    functions: Functions,
    database: Database,
    method: str,
    seed: int,
    folder: Path | None,
    say: Say,
    max_groundings: int,
    skip: bool,
    tell: Say,
    clock: Clock,
    threads: int = 1,
) -> Inferred:
    """Infer the values of least energy of a program on its data; see ``infer``."""
    place = folder or Path(tempfile.gettempdir())
    say("loading the kernels")
    with told_of_compiling(tell):
        loading = _method(method, seed, place, lambda _: None, Grounder, threads, fewest=0)
        loading(*_smallest(), lambda _: None)
    advice = "--max-groundings sets how many, and --method tandem takes any number"
    most = np.iinfo(np.int64).max if method == "tandem" else max_groundings
    grounder = partial(Grounder, most=most, advice=advice, skip=skip)
    solver = _method(method, seed, place, say, grounder, threads)
    clock.lap("compile")
    say("grounding")
    found, counts = solver(program, functions, database, clock.lap)
    stats = {
        "method": method,
        **counts,
        **_quality(found, _weights(program)),
        "evaluation": evaluation(database, found.y),
        **clock.stats(),
    }
    return Inferred(database, found.y, stats)


def _smallest() -> tuple[PslProgram, Functions, Database]:
    """Return a problem that loads every kernel, so that times measured later are without loading."""
    one = np.zeros((1, 1), np.int32)
    none = AtomTable(one[:, :0], np.empty(0))
    target = Relation(none, AtomTable(one, np.full(1, np.nan)), none)
    return parse("1: !P(X) ^2"), {}, Database(("a",), {"P": target})


def _method(  # noqa: PLR0913, PLR0917 - as ``infer``
    method: str,
    seed: int,
    folder: Path,
    say: Say,
    grounder: MakeGrounder,
    threads: int,
    fewest: int = Admm.fewest,
) -> Solve:
    if method == "tandem":
        return partial(_solved_while_ground, seed, threads, folder, say, grounder)
    engine = _engine(method, seed, say, threads, fewest)
    return partial(_solved_in_memory, engine, say, grounder)


def _solved_in_memory(  # noqa: PLR0913, PLR0917 - a method and its problem
    engine: HingeEngine,
    say: Say,
    grounder: MakeGrounder,
    program: PslProgram,
    functions: Functions,
    database: Database,
    lap: Callable[[str], None],
) -> tuple[HingeSolution, dict[str, Any]]:
    grounded = grounder(program, functions).ground(database)
    model = grounded.graphs.model
    lap("ground")
    say(f"{model.n_rows:,} ground rules over {model.n_variables:,} targets")
    try:
        found = engine.solve(model, _weights(program))
    except ValueError as error:
        raise UsageError(f"this method does not solve this model: {error}") from None
    lap("solve")
    constraints = int(np.count_nonzero(model.kind >= AT_MOST))
    potentials = model.n_rows - constraints
    return found, {
        **_counts(program, model.n_variables, potentials, constraints, grounded.inactive),
        "skipped": int(grounded.skipped[0]),
        "dual_residual": residual(model, found.y, found.dual),
    }


def _solved_while_ground(  # noqa: PLR0913, PLR0917 - a method and its problem
    seed: int,
    threads: int,
    folder: Path,
    say: Say,
    grounder: MakeGrounder,
    program: PslProgram,
    functions: Functions,
    database: Database,
    lap: Callable[[str], None],
) -> tuple[TandemSolution, dict[str, Any]]:
    from onlinesrl.psl.engines.tandem import Tandem, TandemProgress
    from onlinesrl.psl.ground.duckdb_joins import DuckDb

    def report(at: TandemProgress) -> None:
        if at.phase != "ground" and not laps:
            laps.append(at.phase)
            lap("ground")
        so_far = f"{at.phase} {at.round}: {at.rows:,} ground rules"
        say(f"{so_far}, {_energy(at.energy, at.bound)}")

    laps: list[str] = []
    listing, inactive = Listing(database), np.zeros(len(program.rules), np.int64)
    skipped = np.zeros(1, np.int64)
    with storage_errors(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    with DuckDb(folder, DUCKDB_BYTES) as engine:
        models = grounder(program, functions).models(listing, inactive, engine, skipped)
        tandem = Tandem(folder, seed=seed, threads=threads)
        found = tandem.solve(models, listing.n_variables, _weights(program), report)
    lap("solve")
    counts = found.potentials, found.constraints, inactive
    return found, {
        **_counts(program, listing.n_variables, *counts),
        "skipped": int(skipped[0]),
        "bytes_on_disk": found.bytes_on_disk,
    }


def _weights(program: PslProgram) -> Floats:
    return np.array([rule.weight or 0.0 for rule in program.rules])


def _counts(
    program: PslProgram, targets: int, potentials: int, constraints: int, inactive: Ints
) -> dict[str, int]:
    """Count ground rules, including those that are never active and hence not in the model."""
    hard = np.array([rule.weight is None for rule in program.rules], np.bool_)
    return {
        "targets": targets,
        "potentials": potentials + int(inactive[~hard].sum()),
        "constraints": constraints + int(inactive[hard].sum()),
        "never_active": int(inactive.sum()),
    }


def _energy(energy: float, bound: float) -> str:
    gap = f", at most {energy - bound:.3g} above the least" if bound > -np.inf else ""
    return f"energy {energy:.8g}{gap}"


def _engine(method: str, seed: int, say: Say, threads: int, fewest: int) -> HingeEngine:
    def watch(at: Round) -> None:
        excess = f", violation {at.violation:.2g}" if at.violation > 0 else ""
        say(f"round {at.number}: {_energy(at.energy, at.bound)}{excess}")

    if method == "qp":
        try:
            from onlinesrl.psl.engines.qp import Qp
        except ModuleNotFoundError as error:
            message = f"qp needs {error.name}, which comes with the extra qp: pip install '.[qp]'"
            raise UsageError(message) from None
        return Qp()
    admm = Admm(watch=watch, threads=threads, fewest=fewest)
    engines: Mapping[str, HingeEngine] = {
        "admm": admm,
        "lifted-admm": Lifted(admm),
        "sgd": Sgd(seed=seed, watch=watch),
        "tron": Tron(),
    }
    return engines[method]


def _quality(found: HingeSolution | TandemSolution, weights: Floats) -> dict[str, Any]:
    """Return the quality of an answer; PSL normalises weights by the largest."""
    top = float(weights.max(initial=0.0)) or 1.0
    bound = found.bound if np.isfinite(found.bound) else None
    return {
        "objective": found.energy,
        "normalised_objective": found.energy / top,
        "lower_bound": bound,
        "gap": None if bound is None else found.energy - bound,
        "violation": found.violation,
        "certified": found.certified,
        "warnings": [] if found.certified else [UNPROVEN],
        "rounds": found.iterations,
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
        truth, found = relation.target_truth(), values[first : first + n]
        known = ~np.isnan(truth)
        truth, found = truth[known], found[known]
        first += n
        if len(truth):
            hits = int(np.sum((found > 0.5) & (truth > 0.5)))
            alarms, misses = int(np.sum(found > 0.5)) - hits, int(np.sum(truth > 0.5)) - hits
            result[name] = {
                "atoms": len(truth),
                "mean_absolute_error": float(np.abs(found - truth).mean()),
                "f1": f1(hits, alarms, misses),
            }
    return result
