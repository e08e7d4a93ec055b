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
    """Validate a configuration of a run or of batch learning, its model and first examples."""
    from onlinesrl.runs import batch_learning, evaluation
    from onlinesrl.runs.config.loading import load_any
    from onlinesrl.runs.config.schema import Config

    settings, good = load_any(config, set_), True
    if isinstance(settings, Config):
        lines, good = evaluation.check(settings, examples)
    else:
        lines = [*batch_learning.check(settings, examples)]
    for line in lines:
        print(legible(line))
    if not good:
        raise typer.Exit(65)
