"""onlinesrl run: learn online from a stream."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from onlinesrl.commands.common import STARTED, AllowHost, ConfigPath, Overrides

if TYPE_CHECKING:
    from onlinesrl.runs.http.metrics import Exporter


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

    seconds = time.perf_counter() - STARTED
    with _exporter(metrics_host, metrics_port, allow_host, say) as exporter:
        options = run_module.Options(fresh, strict, _until(until), exporter)
        summary = run_module.run(settings, options, seconds, say)
    print_summary(summary, sys.stdout)


@contextmanager
def _exporter(
    host: str, port: int | None, allow_host: list[str], say: Callable[[str], None]
) -> Iterator[Exporter | None]:
    """Serve metrics where a port is given, once the run has its folder."""
    if port is None:
        yield None
        return
    from onlinesrl.runs.http.metrics import Exporter
    from onlinesrl.runs.http.server import At

    at = At(host, port, allow_host, "--metrics-host {} --metrics-port {}")
    with Exporter(at) as exporter:

        def begin() -> None:
            exporter.start()
            say(f"metrics at {exporter.server.address}/metrics")

        exporter.locked = begin
        yield exporter


def _until(text: str | None) -> str | int | None:
    if text is not None and re.fullmatch("0*[1-9][0-9]{0,17}", text):
        return int(text)
    if text not in {None, "end", "forever"}:
        raise typer.BadParameter(
            "expected end, forever or a number of examples, up to 18 digits", param_hint="--until"
        )
    return text
