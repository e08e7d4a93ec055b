"""Metrics and health of a run over HTTP, for Prometheus and supervisors.

A scrape never blocks on the run, and the run blocks on a scrape only briefly. While it works, it hands
over its figures at most once per second; while it waits for its source, a scrape reads them itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Self

from prometheus_client import CollectorRegistry, Histogram, exposition
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onlinesrl.core.evaluation.metric_table import METRIC_TABLE
from onlinesrl.runs.http.server import At, Server
from onlinesrl.stream import checkpoints as checkpoints_module
from onlinesrl.stream.daemon_calls import aside
from onlinesrl.stream.decoding import Batch
from onlinesrl.stream.shutdown import ShutdownSignal
from onlinesrl.stream.trainer import Trainer

HAND_OVER_SECONDS = 1.0
PATIENCE_SECONDS = 0.05
STUCK_SECONDS = 600.0
BUCKETS = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class RunMonitor(Collector):
    """The state of a run, as served at /metrics, /healthz and /readyz."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.steps = Histogram(
            "onlinesrl_step_seconds",
            "Time to predict, learn from and write a micro-batch of examples.",
            registry=self.registry,
            buckets=BUCKETS,
        )
        self.locked: Callable[[], object] = lambda: None
        """Called when the run has the lock of its folder."""
        self.trainer: Trainer | None = None
        self.stopper: ShutdownSignal | None = None
        self.figures: dict[str, Any] = {}
        self.figures_at = 0.0
        self.seconds = 0.0
        self.examples = 0
        self.started = self.since = time.monotonic()
        self.working = self.ended = False
        self.unchanging = Lock()

    # called by the run --------------------------------------------------------------------------

    def begin(self, trainer: Trainer) -> None:
        """Note that a run has compiled and resumed."""
        self.seconds = trainer.seconds
        self.started = time.monotonic()
        self.hand_over(trainer.line())
        self.trainer = trainer

    @contextmanager
    def running(self, stopper: ShutdownSignal) -> Iterator[None]:
        """Be ready while the run reads micro-batches."""
        self.stopper = stopper
        try:
            yield
        finally:
            with self.unchanging:
                self.ended = True
            self.work()

    @contextmanager
    def processing(self, batch: Batch) -> Iterator[None]:
        """Keep scrapes from reading the state of the run, which changes."""
        with self.unchanging:
            self.examples += len(batch.batch)
            self.work()
            yield
        self.working = False

    def update(self, line: Callable[[], dict[str, Any]]) -> None:
        """Note a micro-batch that has been learned from and written, if there was one."""
        now = time.monotonic()
        if self.examples:
            self.steps.observe(now - self.since)
        self.examples = 0
        self.work()
        if not self.ready or now - self.figures_at >= HAND_OVER_SECONDS:
            self.hand_over(line())

    def hand_over(self, line: dict[str, Any]) -> None:
        """Replace the figures."""
        self.figures, self.figures_at = line, time.monotonic()

    def work(self) -> None:
        """Note that the run is making progress, and has work."""
        self.working, self.since = True, time.monotonic()

    # called by the server---------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the run has made progress lately, or has nothing to do."""
        return not self.working or time.monotonic() - self.since < STUCK_SECONDS

    @property
    def ready(self) -> bool:
        """Whether the run learns from what comes: it has resumed and compiled and is not stopping."""
        stopper = self.stopper
        return stopper is not None and not stopper.asked and not self.ended

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the run; none before it starts."""
        trainer = self.trainer
        if trainer is None:
            return
        if self.unchanging.acquire(timeout=PATIENCE_SECONDS):
            try:
                if not self.ended:
                    self.hand_over(trainer.line())
            finally:
                self.unchanging.release()
        figures = self.figures
        seconds = self.seconds + self.figures_at - self.started
        yield from _counters(figures)
        for key, entry in METRIC_TABLE.items():
            if entry.prometheus and not entry.counter and figures.get(key) is not None:
                yield _gauge(entry.prometheus, entry.help, figures[key])
        yield _gauge(
            "examples_per_second",
            "Examples per second since the run's start.",
            figures["examples"] / max(seconds, 1e-9),
        )
        lag = GaugeMetricFamily(
            "onlinesrl_source_lag_records",
            "Records of the source still to be read.",
            labels=["partition"],
        )
        for name, behind in trainer.reader.source.lag().items():
            lag.add_metric([name], behind)
        yield lag
        yield from _checkpoint(trainer)


# metrics -----------------------------------------------------------------------------------------

_FAMILIES = {
    "errors": ("errors", "kind", "Examples refused, by kind of error."),
    "routes": ("predictions", "route", "Examples predicted, by route of the solver."),
}


def _counters(figures: dict[str, Any]) -> Iterator[Metric]:
    for key, entry in METRIC_TABLE.items():
        if entry.prometheus and entry.counter and key in figures:
            yield CounterMetricFamily(f"onlinesrl_{entry.prometheus}", entry.help, figures[key])
    yield CounterMetricFamily(
        "onlinesrl_dead_letters", "Examples put into deadletter.jsonl.", figures["bad"]
    )
    signals = figures.get("drift", {"signals": 0})["signals"]
    yield CounterMetricFamily("onlinesrl_drift_signals", "Signals of drift.", signals)
    for key, (name, label, words) in _FAMILIES.items():
        family = CounterMetricFamily(f"onlinesrl_{name}", words, labels=[label])
        for value, count in figures[key].items():
            family.add_metric([value], count)
        yield family


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(f"onlinesrl_{name}", words, value)


def _checkpoint(trainer: Trainer) -> Iterator[Metric]:
    """Yield the metrics of the newest checkpoint file; none if there is no checkpoint."""
    try:
        number, path = max(checkpoints_module.numbered(trainer.folder.checkpoints).items())
        status = path.stat()
    except (ValueError, OSError):  # none, or removed just now
        return
    age = max(0.0, time.time() - status.st_mtime)
    yield _gauge("checkpoint_number", "Number of the newest checkpoint.", number)
    yield _gauge("checkpoint_bytes", "Size of the newest checkpoint.", status.st_size)
    yield _gauge("checkpoint_age_seconds", "Time since the newest checkpoint.", age)
    if trainer.copies is not None:
        failures, words = trainer.copies.failures, "Copies of checkpoints that failed."
        yield CounterMetricFamily("onlinesrl_failed_checkpoint_copies", words, failures)


# the server --------------------------------------------------------------------------------------


def state_routes(monitor: RunMonitor) -> list[Route]:
    """Return the routes that serve a monitor."""
    answers: dict[str, Callable[[], tuple[int, bytes]]] = {
        "/metrics": lambda: (200, exposition.generate_latest(monitor.registry)),
        "/healthz": lambda: (200, b"alive\n") if monitor.alive else (503, b"stuck\n"),
        "/readyz": lambda: (200, b"ready\n") if monitor.ready else (503, b"not ready\n"),
    }

    async def state(request: Request) -> Response:
        status, text = await asyncio.wrap_future(aside(answers[request.url.path]))
        return Response(text, status, media_type="text/plain; version=0.0.4; charset=utf-8")

    return [Route(path, state) for path in answers]


class Exporter(RunMonitor):
    """Serves its metrics from ``start`` on; a context manager.

    Raises what ``runs.http.server.Server`` raises.
    """

    def __init__(self, at: At) -> None:
        super().__init__()
        self.server = Server(state_routes(self), at)
        self.port = self.server.port
        self.start = self.server.start

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop serving, without waiting for clients."""
        self.server.__exit__(*error)
