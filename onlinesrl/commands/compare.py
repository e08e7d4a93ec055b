"""onlinesrl compare: compare configurations by cross-validation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinesrl.commands.common import Distribute, Overrides, interruptible
from onlinesrl.core.errors import UsageError, legible

if TYPE_CHECKING:
    from onlinesrl.core.parallel.config import PoolSection
    from onlinesrl.runs.comparison.statistics import Line

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


def compare(
    configs: Annotated[list[Path], typer.Argument(metavar="CONFIG...", help="Runs' YAML files.")],
    grid: Grid = [],  # noqa: B006 - typer's way
    tune: Tune = [],  # noqa: B006
    folds: Annotated[
        int | None,
        typer.Option(min=2, help="The number of folds; by default each group of examples is one."),
    ] = None,
    metric: Metric = "f1",
    set_: Overrides = [],  # noqa: B006
    output: Annotated[Path, typer.Option(help="The folder of the CSV and the report.")] = Path(
        "runs/comparison"
    ),
    fresh: Annotated[bool, typer.Option(help="Replace an earlier comparison.")] = False,
    workers: Workers = None,
    distribute: Distribute = [],  # noqa: B006
) -> None:
    """Compare configurations by cross-validation: mean, standard deviation, paired t-test, CPU, memory."""
    from onlinesrl.runs.comparison import candidates, cross_validation, page, statistics
    from onlinesrl.runs.comparison.folds import divided

    _check_metric(metric)
    pool = _pool(distribute, workers)
    journal = page.opened(output, fresh)
    chosen, alternatives = candidates.candidates(configs, set_, grid), candidates.grid(tune)
    with _status() as say:
        compared = cross_validation.cross_validated(
            *(chosen, alternatives, partial(divided, k=folds), metric, pool, say),
            journal,
        )
    lines = statistics.lines(compared, metric)
    settings = {
        "configurations": [*map(str, configs)],
        "grid": grid,
        "tuned on the last tenth": tune,
        "folds": ["one for each group" if folds is None else str(folds)],
        "set": set_,
    }
    page.write(output, compared, lines, metric, settings, candidates.differences(chosen))
    _print(statistics.text(lines, metric))
    for candidate, line in zip(chosen, lines, strict=True):
        if line.best and not tune:
            print(f"\n{candidate.command()}")
    print(f"\nresults in {output}", flush=True)
    _end(lines)


def _pool(distribute: Sequence[str], workers: int | None) -> PoolSection:
    from onlinesrl.core.parallel.config import PoolSection, given

    local = [] if workers is None else [f"workers={workers}"]
    return given(PoolSection, [*local, *distribute])


def _check_metric(metric: str) -> None:
    from onlinesrl.runs.comparison.scoring import SCORES

    if metric not in SCORES:
        raise UsageError(f"--metric {metric}: expected one of {', '.join(SCORES)}")


@contextmanager
def _status() -> Iterator[Callable[[str], object]]:
    from onlinesrl.core.jit.decorators import told_of_compiling
    from onlinesrl.runs.progress import Status

    with interruptible(), closing(Status(sys.stderr)) as status, told_of_compiling(status.tell):
        yield status


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(legible(line))


def _end(lines: Sequence[Line]) -> None:
    if any(line.error is not None for line in lines):
        raise typer.Exit(65)
