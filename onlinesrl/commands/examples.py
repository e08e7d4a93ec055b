"""onlinesrl examples: write what the records of a source become."""

from __future__ import annotations

import typer

from onlinesrl.commands.common import ConfigPath, OutputOption, Overrides, output_to


def examples(
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    output: OutputOption = None,
) -> None:
    """Write the examples that a source's records become, one a line, and the truths that come later.

    A bad record is named on standard error, and the exit code is then 65.
    """
    from onlinesrl.runs import evaluation
    from onlinesrl.runs.config.loading import load
    from onlinesrl.runs.console import warn

    settings, bad = load(config, set_), 0
    settings.check_examples()
    with output_to(output) as stream:
        for line, reason in evaluation.lines(settings):
            if line is not None:
                stream.write(line + b"\n")
            else:
                warn(reason)
                bad += 1
    if bad:
        raise typer.Exit(65)
