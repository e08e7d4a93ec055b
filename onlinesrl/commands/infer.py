"""onlinesrl infer: answer a query in one world, or infer truth values of PSL."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onlinesrl.commands.common import (
    TablesOption,
    interruptible,
    located,
    with_records,
    write_lines,
)
from onlinesrl.commands.ground import WorldArguments, is_psl
from onlinesrl.core.errors import CONTINUOUS, UsageError
from onlinesrl.runs.console import say, warn

if TYPE_CHECKING:
    from onlinesrl.mln.query.world import World

AnyModel = Annotated[
    Path,
    typer.Option(
        "--model",
        metavar="M.mln|M.psl|M.json",
        parser=located,
        help="Markov logic, or PSL's rules.",
    ),
]
OptionalQuery = Annotated[
    str | None,
    typer.Option("--query", metavar="P,Q", help="Markov logic: predicates to answer for."),
]
Data = Annotated[
    Path | None, typer.Option(metavar="M.data", help="PSL: the file that lists the data of M.psl.")
]
Method = Annotated[
    str | None,
    typer.Option(
        show_default="mpe, for PSL admm",
        help="How to answer: by an engine of `inference.engine` (onlinesrl guide config). Markov logic also "
        "has exact, for marginals.",
    ),
]
OutputPath = Annotated[
    Path | None, typer.Option(help="A file, for PSL a folder; else standard output.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the random numbers of the method.")]
Error = Annotated[
    float | None,
    typer.Option(
        metavar="E",
        help="Sampled marginals: sample until each one's standard error is at most this and the "
        "chains agree (R-hat below 1.05), at most a million samples.",
    ),
]
MaxWork = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        show_default="no limit",
        help="Markov logic, mpe: end the search after so much work with the best state found, unproven; a "
        "million take 1 to 15 seconds (inference.max_work of a configuration).",
    ),
]
Best = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Markov logic, mpe: the N best states; of all but the first, what differs from it.",
    ),
]
Lazy = Annotated[
    str | None,
    typer.Option(
        metavar="auto|never",
        show_default="auto",
        help="Markov logic, mpe: rules of many ground clauses that hold where all atoms are false are ground "
        "where a state violates them (auto), or wholly (never).",
    ),
]
Formulas = Annotated[
    list[str],
    typer.Option(
        "--formula",
        metavar="F",
        show_default=False,
        help="Markov logic: a formula to answer for, for all constants of its free variables; may be "
        "repeated. Its probability by --method exact, mcsat or gibbs, otherwise whether it is true.",
    ),
]
Given = Annotated[
    list[str],
    typer.Option(
        "--given",
        metavar="F",
        show_default=False,
        help="Markov logic: answer on the condition that this formula holds; may be repeated.",
    ),
]
Counts = Annotated[
    bool,
    typer.Option(
        "--counts",
        help="Markov logic, marginals: how many atoms of each predicate and formula are expected to hold, "
        "and the variance.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        show_default="1",
        help="PSL: how many threads admm, lifted-admm and tandem may use; the answer is the same.",
    ),
]
Stats = Annotated[bool, typer.Option("--stats", help="Print statistics as JSON.")]


SOONER = "--method lp is often proven sooner, and walksat answers soon, unproven"
UNLIMITED = f"this search has no limit: --max-work N ends it with the best state found; {SOONER}"
LIMITED = f"this search ends at --max-work, with the best state found; {SOONER}"


class Targets(StrEnum):
    """What is done with a ground rule of PSL that has an atom neither observed nor a target."""

    STOP = "stop"
    SKIP = "skip"


OnTargets = Annotated[
    Targets | None,
    typer.Option(
        "--targets",
        help="PSL: a ground rule with an atom that is neither observed nor a target is an error "
        "(stop, the default) or is left out (skip).",
    ),
]


@dataclass(frozen=True)
class FormulaArguments:
    """What is asked besides predicates."""

    formulas: Formulas = field(default_factory=list)
    given: Given = field(default_factory=list)


@dataclass(frozen=True)
class SolverArguments:
    """How an answer is searched for."""

    method: Method = None
    seed: Seed = 0
    error: Error = None
    max_work: MaxWork = None
    lazy: Lazy = None
    best: Best = None
    counts: Counts = False
    targets: OnTargets = None
    threads: Threads = None


@dataclass(frozen=True)
class OutputArguments:
    """Where an answer is written."""

    output: OutputPath = None
    tables: TablesOption = None
    stats: Stats = False

    @property
    def prints(self) -> bool:
        """Whether the answer goes to standard output."""
        return self.output is None and self.tables is None and not self.stats


@with_records
def infer(
    model: AnyModel,
    query: OptionalQuery = None,
    data: Data = None,
    *,
    world: WorldArguments,
    asked: FormulaArguments,
    solver: SolverArguments,
    results: OutputArguments,
) -> None:
    """Infer the most probable world, marginal probabilities, or PSL's truth values."""
    if is_psl(model):
        if solver.best is not None:
            raise UsageError(f"--best: {CONTINUOUS}")
        mln_options = (query, world.dialect, solver.error, solver.max_work, solver.lazy)
        lists = (world.evidence, world.closed, world.open_, asked.formulas, asked.given)
        if any(lists) or solver.counts or mln_options != (None, "alchemy", None, None, None):
            raise UsageError(
                f"{model} is a PSL model, whose data say what is asked: not --query, --evidence, "
                "--closed, --open, --dialect, --error, --max-work, --lazy, --formula, --given, --counts"
            )
        stats = _infer_psl(model, data, world.max_groundings, solver, results)
    elif (
        (query is None and not asked.formulas)
        or data is not None
        or solver.targets is not None
        or solver.threads
    ):
        raise UsageError(
            f"{model} is Markov logic, which needs --query or --formula, and takes --evidence, not --data, "
            "--targets, --threads"
        )
    else:
        method = solver.method or "mpe"
        if solver.counts and solver.best is not None:
            raise UsageError("--counts is for marginals, not for --best")
        if asked.formulas and results.tables is not None:
            raise UsageError("--tables has a file a predicate, and no place for --formula")
        if solver.best is not None and results.tables is not None:
            raise UsageError("--tables has one state, and no place for --best")
        formulas = asked.formulas, asked.given
        read = world.read(model, query or "", method, solver.lazy, *formulas)
        stats = _infer_mln(read, solver, results)
    for message in stats["warnings"]:  # even where nothing else is shown
        warn(message)
    if results.stats:
        print(json.dumps(stats, indent=2))


def _infer_mln(world: World, solver: SolverArguments, results: OutputArguments) -> dict[str, Any]:
    from onlinesrl.core.jit.decorators import told_of_compiling
    from onlinesrl.core.search_status import observed
    from onlinesrl.mln.query import infer as infer_module
    from onlinesrl.runs.progress import Search, Status

    method, max_work = solver.method or "mpe", solver.max_work
    with told_of_compiling(say), closing(Status(sys.stderr)) as status:
        advice = None if method != "mpe" else LIMITED if max_work else UNLIMITED
        with observed(Search(status, advice)):
            error = solver.error
            if solver.best is None:
                answers = [
                    infer_module.solve(world, method, solver.seed, error, max_work, solver.counts)
                ]
            else:
                answers = infer_module.solve_best(world, solver.best, method, error, max_work)
    values, stats = answers[0]
    if results.tables is not None:
        _write_tables(results.tables, infer_module.columns(world, values))
    if results.output is not None or results.prints:
        one = solver.best is None
        lines = (
            infer_module.lines(world, values, method, stats.get("counts", {}))
            if one
            else infer_module.lines_of_best(world, answers)
        )
        write_lines(results.output, lines)
    return stats


def _write_tables(folder: Path, tables: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
    from onlinesrl.logic.tables import write_parquet

    for name, columns in tables.items():
        write_parquet(folder / f"{name}.parquet", columns)


def _infer_psl(
    model: Path,
    data: Path | None,
    max_groundings: int | None,
    solver: SolverArguments,
    results: OutputArguments,
) -> dict[str, Any]:
    from onlinesrl.psl.ground.grounder import MOST
    from onlinesrl.psl.inference.solving import Options
    from onlinesrl.psl.query import infer as inference
    from onlinesrl.runs.progress import Status

    with interruptible(), closing(Status(sys.stderr)) as status:
        options = Options(
            solver.method or "admm",
            solver.seed,
            results.output,
            status,
            status.tell,
            max_groundings or MOST,
            solver.targets is Targets.SKIP,
            solver.threads or 1,
        )
        inferred = inference.infer(model, data, options)
    if results.tables is not None:
        _write_tables(results.tables, inference.columns(inferred))
    if results.output is not None:
        inference.write(inferred, results.output)
    elif results.prints:
        write_lines(None, inference.lines(inferred))
    if results.output is not None or inferred.stats["warnings"] or inferred.stats["skipped"]:
        print(inference.summary(inferred), file=sys.stderr)
    return inferred.stats
