"""onlinesrl check: validate a configuration, its model and its first examples."""

from __future__ import annotations

from typing import Annotated

import typer

from onlinesrl.commands.common import ConfigPath, Overrides
from onlinesrl.core.errors import legible


def check(
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    examples: Annotated[int, typer.Option(min=0, help="How many examples are checked.")] = 100,
) -> None:
    """Validate configuration, model and first examples without running."""
    from onlinesrl.runs import evaluation
    from onlinesrl.runs.config.loading import load

    lines, good = evaluation.check(load(config, set_), examples)
    for line in lines:
        print(legible(line))
    if not good:
        raise typer.Exit(65)
