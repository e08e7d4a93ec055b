"""onlinesrl learn: learn weights from a batch of data."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Annotated

import typer

from onlinesrl.commands.common import ConfigPath, Overrides, interruptible
from onlinesrl.core.errors import legible
from onlinesrl.runs.console import warn


def learn(
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    fresh: Annotated[bool, typer.Option(help="Replace an earlier result.")] = False,
) -> None:
    """Learn the weights of a model from a batch of data with their truth, and score them.

    Of a run over records: estimate them from its records, with labels or without, and write its model.
    """
    with interruptible():
        from onlinesrl.core.jit.decorators import told_of_compiling
        from onlinesrl.runs import batch_learning, entity_weights
        from onlinesrl.runs.config.loading import load_batch
        from onlinesrl.runs.config.schema import EntityWeights
        from onlinesrl.runs.progress import Status

        settings = load_batch(config, set_)
        if isinstance(settings, EntityWeights):
            for line in entity_weights.learn(settings, fresh):
                print(legible(line))
            return
        with closing(Status(sys.stderr)) as status, told_of_compiling(status.tell):
            result = batch_learning.learn(settings, fresh, status)
    for message in result["warnings"]:
        warn(message)
    for line in batch_learning.summary(result):
        print(legible(line))
