"""onlinesrl serve: learn from and predict what clients send by HTTP."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from onlinesrl.commands.common import STARTED, AllowHost, ConfigPath, Overrides
from onlinesrl.core.errors import ConfigError


def serve(
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    host: Annotated[
        str, typer.Option(help="The interface to listen on; 0.0.0.0: every one.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: a free one.")] = 8080,
    allow_host: AllowHost = [],  # noqa: B006
    fresh: Annotated[
        bool, typer.Option(help="Discard what was learned, and learn again from all requests.")
    ] = False,
) -> None:
    """Predict, and learn from, what clients send by HTTP; resumes from the last checkpoint.

    What is sent to /learn is written to requests.jsonl in the run folder, which is the run's source.
    """
    from onlinesrl.runs.config.loading import load

    try:
        settings = load(config, set_)
    except ConfigError:  # a server reads no source, so none need be configured
        settings = load(config, [*set_, "source.path=-"])
    if not settings.source.served:
        raise settings.error("source.kind", "a server learns what clients send; leave source: out")
    from onlinesrl.runs import serving as server
    from onlinesrl.runs.http.server import At
    from onlinesrl.runs.progress import print_summary

    seconds = time.perf_counter() - STARTED
    at = At(host, port, allow_host)
    print_summary(server.serve(settings, at, fresh, seconds), sys.stdout)
