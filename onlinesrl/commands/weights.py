"""onlinesrl weights: show trained weights, or how they differ between two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from onlinesrl.commands.common import Trained, located
from onlinesrl.core.errors import printable


def weights(
    trained: Trained,
    other: Annotated[
        Path | None,
        typer.Argument(parser=located, help="A second one; the differences to it are shown."),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            metavar="N|TEXT",
            help="Only weights of this rule: its number, from 1, or a part of its text.",
        ),
    ] = None,
    about: Annotated[
        str | None, typer.Option(metavar="CONSTANT", help="Only weights about this constant.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="The most weights to show.")] = 20,
    json_: Annotated[bool, typer.Option("--json", help="As JSON, to the last bit.")] = False,
) -> None:
    """Show the most influential weights, or those that differ most between two of a kind.

    The first line describes the order. Models without a common rule are not compared.
    """
    from onlinesrl.runs import weights as weights_module

    chosen = weights_module.Chosen(rule, about, top)
    if json_:
        print(json.dumps(weights_module.as_json(trained, other, chosen), indent=2))
        return
    for line in weights_module.weight_lines(trained, other, chosen):
        print(printable(line))
