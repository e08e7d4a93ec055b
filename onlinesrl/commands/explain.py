"""onlinesrl explain: why a prediction is as it is, and what would change it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from onlinesrl.commands.common import Overrides, located
from onlinesrl.core.errors import legible


def explain(
    trained: Annotated[
        Path,
        typer.Argument(
            metavar="TRAINED",
            parser=located,
            help="A run folder, a run's YAML file, a checkpoint, an .mln or a .psl file.",
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG", help="A run's YAML file; else that of the run."),
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="The id of the example; none for a world."),
    ] = None,
    atom: Annotated[
        list[str],
        typer.Option(
            metavar="'P(a, b)'", help="The atom to explain; by default the least certain ones."
        ),
    ] = [],  # noqa: B006
    change: Annotated[
        list[str],
        typer.Option(
            metavar="'P(a, b)'|P",
            help="Evidence that may change to flip it: an atom, or the example's own of a predicate.",
        ),
    ] = [],  # noqa: B006
    tries: Annotated[
        int, typer.Option(min=0, help="How many changes of the evidence are tried; 0: none.")
    ] = 1000,
    set_: Overrides = [],  # noqa: B006
    json_: Annotated[bool, typer.Option("--json", help="As JSON, to the last bit.")] = False,
) -> None:
    """Explain a prediction: the ground rules for and against it, and what would flip it."""
    from onlinesrl.core.explain.explanation import read_atom
    from onlinesrl.runs.explain import Question, explanations

    question = Question([*map(read_atom, atom)], change, tries)
    explained = explanations(trained, config, set_, id_, question)
    if json_:
        print(json.dumps([explanation.as_dict() for explanation in explained], indent=2))
        return
    for number, explanation in enumerate(explained):
        print(legible("\n" * (number > 0) + str(explanation)), flush=True)
