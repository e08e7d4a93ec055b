"""onlinesrl explain: why a prediction is as it is, and what would change it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from onlinesrl.commands.common import Overrides
from onlinesrl.core.errors import legible


def explain(
    trained: Annotated[
        Path,
        typer.Argument(
            metavar="TRAINED",
            help="A run folder, a run's YAML file, a checkpoint, an .mln or a .psl file.",
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG", help="A run's YAML file; else that of the run."),
    ] = None,
    id_: Annotated[str, typer.Option("--id", metavar="ID", help="The example.")] = ...,  # type: ignore[assignment]
    atom: Annotated[
        list[str],
        typer.Option(metavar="'P(a, b)'", help="What to explain; else the least certain atoms."),
    ] = [],  # noqa: B006
    change: Annotated[
        list[str],
        typer.Option(
            metavar="'P(a, b)'|P",
            help="Evidence that may change to flip it: an atom, or the example's own of a predicate.",
        ),
    ] = [],  # noqa: B006
    tries: Annotated[
        int, typer.Option(min=0, help="How many changes of evidence to try; 0: none.")
    ] = 1000,
    set_: Overrides = [],  # noqa: B006
    json_: Annotated[bool, typer.Option("--json", help="As JSON, to the last bit.")] = False,
) -> None:
    """Explain a prediction: the ground rules for and against it, and what would flip it."""
    from onlinesrl.runs.explain import explanations

    found = explanations(trained, config, set_, id_, atom, change, tries)
    if json_:
        print(json.dumps([each.as_dict() for each in found], indent=2))
        return
    for number, each in enumerate(found):
        print(legible("\n" * (number > 0) + str(each)), flush=True)
