"""onlinesrl compare: compare configurations by cross-validation."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from onlinesrl.commands.common import Distribute, Overrides, interruptible, with_records
from onlinesrl.core.errors import FolderError, UsageError, legible

Grid = Annotated[
    list[str],
    typer.Option(
        metavar="KEY=V1,V2,...", help="Values of a key; of several keys, all combinations."
    ),
]
Metric = Annotated[
    str,
    typer.Option(
        help="The score to compare: f1, accuracy, hamming, mae, auc, average_precision, cll, map, ..."
    ),
]
Tune = Annotated[
    list[str],
    typer.Option(
        metavar="KEY=V1,V2,...",
        help="As --grid, but of the values the best on the last tenth of each fold's training part is used.",
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes at a time; the default is one for each core.")
]


@dataclass(frozen=True)
class CandidateArguments:
    """What is compared, beside the configurations."""

    grid: Grid = field(default_factory=list)
    tune: Tune = field(default_factory=list)
    set_: Overrides = field(default_factory=list)


@with_records
def compare(
    configs: Annotated[list[Path], typer.Argument(metavar="CONFIG...", help="Runs' YAML files.")],
    arguments: CandidateArguments,
    folds: Annotated[
        int | None,
        typer.Option(min=2, help="The number of folds; by default each group of examples is one."),
    ] = None,
    metric: Metric = "f1",
    output: Annotated[Path, typer.Option(help="The folder of the CSV.")] = Path("runs/comparison"),
    fresh: Annotated[bool, typer.Option(help="Replace an earlier comparison.")] = False,
    workers: Workers = None,
    distribute: Distribute = [],  # noqa: B006
) -> None:
    """Compare configurations by cross-validation: mean, standard deviation, paired t-test, CPU, memory."""
    from onlinesrl.core.io.atomic_write import storage_errors, write_atomic
    from onlinesrl.core.jit.decorators import told_of_compiling
    from onlinesrl.core.parallel.config import given
    from onlinesrl.runs.comparison import candidates, cross_validation, statistics
    from onlinesrl.runs.comparison.scoring import SCORES
    from onlinesrl.runs.progress import Status

    if metric not in SCORES:
        raise UsageError(f"--metric {metric}: expected one of {', '.join(SCORES)}")
    local = [] if workers is None else [f"workers={workers}"]
    pool = given([*local, *distribute])
    table = output / "comparison.csv"
    if not fresh and table.exists():
        raise FolderError(f"{output}: there is a comparison already; --fresh replaces it")
    chosen = candidates.candidates(configs, arguments.set_, arguments.grid)
    alternatives = candidates.grid(arguments.tune)
    with interruptible(), closing(Status(sys.stderr)) as status, told_of_compiling(status.tell):
        compared = cross_validation.cross_validated(
            chosen, alternatives, folds, metric, pool, status
        )
    lines = statistics.lines(compared, metric)
    for text in statistics.text(lines, metric):
        print(legible(text))
    for candidate, line in zip(chosen, lines, strict=True):
        if line.best and not arguments.tune:
            print(f"\n{candidate.command()}")
    with storage_errors(output, "make the folder"):
        output.mkdir(parents=True, exist_ok=True)
    write_atomic(table, statistics.csv(compared, metric).encode())
    print(f"\nresults in {output}", flush=True)
    if any(line.error is not None for line in lines):
        raise typer.Exit(65)
