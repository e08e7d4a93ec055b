"""A run served by HTTP, of examples or of a world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onlinesrl.runs import run as run_module
from onlinesrl.runs.config.schema import Config
from onlinesrl.runs.console import say
from onlinesrl.runs.entity_service import EntityService
from onlinesrl.runs.http.metrics import RunMonitor, state_routes
from onlinesrl.runs.http.server import At, Server
from onlinesrl.runs.service import Service
from onlinesrl.runs.world_service import WorldService
from onlinesrl.stream.checkpoints import FOLDER as CHECKPOINTS
from onlinesrl.stream.run_folder import PREDICTIONS, REQUESTS
from onlinesrl.stream.sources.request_queue import Requests

END_SECONDS = 5
"""How long clients may take to receive their last answers after the end of the run."""


def serve(config: Config, at: At, fresh: bool, import_seconds: float) -> dict[str, Any]:
    """Learn from and predict what clients send, until a signal; return the summary.

    Bad examples of clients do not end the run, whatever their share.
    """
    journal = config.output / REQUESTS
    source = config.source.model_copy(update={"path": (journal,)})
    limits = config.limits.model_copy(update={"bad_share": 1.0})
    metrics, mapping = config.metrics, source.mapping
    has_times = source.linked is not None or (mapping is not None and mapping.time is not None)
    if metrics.every is None and has_times and not config.world:
        metrics = metrics.model_copy(update={"every": "1d"})
    updates = {"source": source, "limits": limits, "metrics": metrics}
    config = config.model_copy(update=updates)
    if config.distribute is not None:
        raise config.error("distribute", "not for a server, whose requests come one by one")
    requests = Requests()
    monitor = _ServiceMonitor(requests, config.output / CHECKPOINTS)
    with Server(at, END_SECONDS) as server:
        sizes = source.max_bytes, limits.request_lines
        if config.world:
            predictions = config.output / PREDICTIONS
            kind = EntityService if config.of_records else WorldService
            service: Service = kind(requests, server, *sizes, predictions)
        else:
            service = Service(requests, server, *sizes)

        def locked() -> None:
            server.start([*service.routes(), *state_routes(monitor)])
            say(f"serving at {server.address}; what is sent to /{service.taking} is in {journal}")

        options = run_module.Options(
            fresh, until="forever", monitor=monitor, requests=requests, locked=locked
        )
        return run_module.run(config, options, import_seconds, say)


class _ServiceMonitor(RunMonitor):
    """The state of a run that answers requests."""

    def __init__(self, requests: Requests, checkpoints: Path) -> None:
        super().__init__(checkpoints)
        self.requests = requests

    @property
    def ready(self) -> bool:
        return self.requests.accepting and super().ready
