"""onlinesrl infer: answer a query in one world, or infer truth values of PSL."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onlinesrl.commands.common import (
    Closed,
    DialectOption,
    Evidence,
    MaxAtoms,
    MaxGroundings,
    Open,
    TablesOption,
    interruptible,
    located,
    write_lines,
)
from onlinesrl.commands.ground import is_psl, read_world, world_options
from onlinesrl.core.errors import UsageError
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


def infer(
    model: AnyModel,
    query: OptionalQuery = None,
    evidence: Evidence = [],  # noqa: B006
    closed: Closed = "",
    open_: Open = "",
    dialect: DialectOption = "alchemy",
    data: Data = None,
    method: Method = None,
    output: OutputPath = None,
    tables: TablesOption = None,
    seed: Seed = 0,
    error: Error = None,
    max_work: MaxWork = None,
    max_atoms: MaxAtoms = 1_000_000,
    max_groundings: MaxGroundings = None,
    targets: OnTargets = None,
    threads: Threads = None,
    stats: Stats = False,
) -> None:
    """Infer the most probable world, marginal probabilities, or PSL's truth values."""
    to_stdout, skip = not stats, targets is Targets.SKIP
    if is_psl(model):
        mln_options = query is not None or evidence or closed or open_ or dialect != "alchemy"
        if mln_options or (error, max_work) != (None, None):
            raise UsageError(
                f"{model} is a PSL model, whose data say what is asked: not --query, --evidence, "
                "--closed, --open, --dialect, --error, --max-work"
            )
        method, most, several = method or "admm", max_groundings, threads or 1
        result = _infer_psl(
            model, data, method, output, tables, seed, most, skip, several, to_stdout
        )
    elif query is None or data is not None or targets is not None or threads:
        raise UsageError(
            f"{model} is Markov logic, which needs --query, and takes --evidence, not --data, "
            "--targets, --threads"
        )
    else:
        options = world_options(closed, open_, dialect)
        world = read_world(model, evidence, query, options, max_atoms, max_groundings)
        result = _infer_mln(
            world, method or "mpe", output, tables, seed, error, max_work, to_stdout
        )
    if stats:
        print(json.dumps(result, indent=2))


# Markov logic ------------------------------------------------------------------------------------


def _infer_mln(
    world: World,
    method: str,
    output: Path | None,
    tables: Path | None,
    seed: int,
    error: float | None,
    max_work: int | None,
    to_stdout: bool,
) -> dict[str, Any]:
    from onlinesrl.core.jit.decorators import told_of_compiling
    from onlinesrl.core.search_status import observed
    from onlinesrl.mln.query import infer as infer_module
    from onlinesrl.runs.progress import Search, Status

    with told_of_compiling(say), closing(Status(sys.stderr)) as status:
        advice = None if method != "mpe" else LIMITED if max_work else UNLIMITED
        with observed(Search(status, advice)):
            values, stats = infer_module.solve(world, method, seed, error, max_work)
    if tables is not None:
        _write_tables(tables, infer_module.columns(world, values))
    if output is not None or (to_stdout and tables is None):
        write_lines(output, infer_module.lines(world, values, method))
    _warn_all(stats)
    return stats


def _warn_all(stats: dict[str, Any]) -> None:
    """Say, even where nothing else is shown, that an answer is not what was asked for."""
    for message in stats["warnings"]:
        warn(message)


def _write_tables(folder: Path, tables: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
    from onlinesrl.logic.tables import write_parquet

    for name, columns in tables.items():
        write_parquet(folder / f"{name}.parquet", columns)


# PSL ---------------------------------------------------------------------------------------------


def _infer_psl(
    model: Path,
    data: Path | None,
    method: str,
    output: Path | None,
    tables: Path | None,
    seed: int,
    max_groundings: int | None,
    skip: bool,
    threads: int,
    to_stdout: bool,
) -> dict[str, Any]:
    from onlinesrl.psl.ground.grounder import MOST
    from onlinesrl.psl.inference.solving import Options
    from onlinesrl.psl.query import infer as inference
    from onlinesrl.runs.progress import Status

    most = max_groundings or MOST
    with interruptible(), closing(Status(sys.stderr)) as status:
        options = Options(method, seed, output, status, status.tell, most, skip, threads)
        inferred = inference.infer(model, data, options)
    if tables is not None:
        _write_tables(tables, inference.columns(inferred))
    if output is not None:
        inference.write(inferred, output)
    elif to_stdout and tables is None:
        write_lines(None, inference.lines(inferred))
    _warn_all(inferred.stats)
    if output is not None or inferred.stats["warnings"] or inferred.stats["skipped"]:
        print(inference.summary(inferred), file=sys.stderr)
    return inferred.stats
