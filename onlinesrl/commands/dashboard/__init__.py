"""onlinesrl dashboard: show runs in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onlinesrl.commands.common import AllowHost, interruptible
from onlinesrl.runs.console import say


def dashboard(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    host: Annotated[
        str, typer.Option(help="The interface to listen on; 0.0.0.0: every one.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: a free one.")] = 8081,
    allow_host: AllowHost = [],  # noqa: B006
) -> None:
    """Show runs in a browser, side by side and live; their folders are only read."""
    from onlinesrl.commands.dashboard.app import serve
    from onlinesrl.runs.http.server import At

    with interruptible():
        serve(runs, At(host, port, allow_host), say)
