"""onlinesrl run: learn online from a stream."""

from __future__ import annotations

import re
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated

import typer

from onlinesrl.commands.common import STARTED, AllowHost, ConfigPath, Overrides


def run(
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006 - typer's way
    fresh: Annotated[bool, typer.Option(help="Start over, and delete the earlier run.")] = False,
    strict: Annotated[bool, typer.Option(help="Stop at the first bad example.")] = False,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="end|forever|N", help="Where to stop; a number is the total of examples."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve /metrics there; 0: a free port.")
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="The interface of that port; 0.0.0.0: every one.")
    ] = "127.0.0.1",
    allow_host: AllowHost = [],  # noqa: B006
) -> None:
    """Learn online from a stream; resumes from the last checkpoint if there is one."""
    from onlinesrl.runs.config.loading import load

    settings = load(config, set_)
    from onlinesrl.runs import run as run_module
    from onlinesrl.runs.console import say
    from onlinesrl.runs.progress import print_summary
    from onlinesrl.stream.checkpoints import FOLDER as CHECKPOINTS

    seconds = time.perf_counter() - STARTED
    options = run_module.Options(fresh, strict, _until(until))
    with ExitStack() as stack:
        if metrics_port is not None:
            from onlinesrl.runs.http.metrics import RunMonitor, state_routes
            from onlinesrl.runs.http.server import At, Server

            names = "--metrics-host {} --metrics-port {}"
            server = stack.enter_context(Server(At(metrics_host, metrics_port, allow_host, names)))
            monitor = RunMonitor(settings.output / CHECKPOINTS)

            def locked() -> None:
                server.start(state_routes(monitor))
                say(f"metrics at {server.address}/metrics")

            options = replace(options, monitor=monitor, locked=locked)
        summary = run_module.run(settings, options, seconds, say)
    print_summary(summary, sys.stdout)


def _until(text: str | None) -> str | int | None:
    if text is not None and re.fullmatch("0*[1-9][0-9]{0,17}", text):
        return int(text)
    if text not in {None, "end", "forever"}:
        raise typer.BadParameter(
            "expected end, forever or a number of examples, up to 18 digits", param_hint="--until"
        )
    return text
