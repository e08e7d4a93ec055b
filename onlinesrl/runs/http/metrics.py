"""Metrics and health of a run over HTTP, for Prometheus and supervisors.

The run hands over its figures, at most once per second while it works; a scrape never waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Histogram, exposition
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onlinesrl.core.evaluation.metric_table import METRIC_TABLE
from onlinesrl.stream import checkpoints as checkpoints_module
from onlinesrl.stream.daemon_calls import aside
from onlinesrl.stream.observer import Observer, Progress

HAND_OVER_SECONDS = 1.0
STUCK_SECONDS = 600.0
BUCKETS = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class RunMonitor(Observer, Collector):
    """The state of a run, as served at /metrics, /healthz and /readyz; ``checkpoints`` is a folder."""

    def __init__(self, checkpoints: Path) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.steps = Histogram(
            "onlinesrl_step_seconds",
            "Time to predict, learn from and write a micro-batch of examples.",
            registry=self.registry,
            buckets=BUCKETS,
        )
        self.checkpoints = checkpoints
        self.figures: _Figures | None = None
        self.heard_at: float | None = None
        self.running = False

    # called by the run --------------------------------------------------------------------------

    def begin(self, progress: Progress) -> None:
        """Be ready: the run has compiled and resumed, and reads."""
        self.hand_over(progress)
        self.running = True

    def batch(self, progress: Progress) -> None:
        """Take note of a micro-batch; of one without records if it is the first one that is so."""
        self.heard_at = time.monotonic()
        if progress.items:
            self.steps.observe(progress.took)
        figures = self.figures
        if (
            figures is None
            or self.heard_at - figures.at >= HAND_OVER_SECONDS
            or (not progress.items and figures.examples != progress.examples)
        ):
            self.hand_over(progress)

    def hand_over(self, progress: Progress) -> None:
        """Replace the figures."""
        line, lag = progress.line(), progress.lag()
        self.heard_at = time.monotonic()
        self.figures = _Figures(line, lag, progress.examples, progress.seconds, self.heard_at)

    def stopping(self) -> None:
        """Be ready no longer: a signal has asked to stop."""
        self.running = False

    def end(self) -> None:
        """Be ready no longer: the run has ended, and writes its results."""
        self.running, self.heard_at = False, time.monotonic()

    # called by the server---------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the run has made progress, or had nothing to do, lately."""
        return self.heard_at is None or time.monotonic() - self.heard_at < STUCK_SECONDS

    @property
    def ready(self) -> bool:
        """Whether the run learns from what comes: it has resumed and compiled and is not stopping."""
        return self.running

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the run; none before it starts."""
        if self.figures is None:
            return
        line, behind, examples, seconds, _ = self.figures
        yield from _counters(line)
        for key, entry in METRIC_TABLE.items():
            if entry.prometheus and not entry.counter and line.get(key) is not None:
                yield _gauge(entry.prometheus, entry.help, line[key])
        yield _gauge(
            "examples_per_second",
            "Examples per second since the run's start.",
            examples / max(seconds, 1e-9),
        )
        lag = GaugeMetricFamily(
            "onlinesrl_source_lag_records",
            "Records of the source still to be read.",
            labels=["partition"],
        )
        for name, records in behind.items():
            lag.add_metric([name], records)
        yield lag
        yield from _checkpoint(self.checkpoints)
        if (failures := line.get("failed_copies")) is not None:
            words = "Copies of checkpoints that failed."
            yield CounterMetricFamily("onlinesrl_failed_checkpoint_copies", words, failures)


class _Figures(NamedTuple):
    """What a run has handed over, and when."""

    line: Mapping[str, Any]
    lag: Mapping[str, int]
    examples: int
    seconds: float
    at: float


# metrics -----------------------------------------------------------------------------------------

_FAMILIES = {
    "errors": ("errors", "kind", "Examples refused, by kind of error."),
    "routes": ("predictions", "route", "Examples predicted, by route of the solver."),
}


def _counters(figures: Mapping[str, Any]) -> Iterator[Metric]:
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


def _checkpoint(folder: Path) -> Iterator[Metric]:
    """Yield the metrics of the newest checkpoint file; none if there is no checkpoint."""
    try:
        number, path = max(checkpoints_module.numbered(folder).items())
        status = path.stat()
    except (ValueError, OSError):  # none, or removed just now
        return
    age = max(0.0, time.time() - status.st_mtime)
    yield _gauge("checkpoint_number", "Number of the newest checkpoint.", number)
    yield _gauge("checkpoint_bytes", "Size of the newest checkpoint.", status.st_size)
    yield _gauge("checkpoint_age_seconds", "Time since the newest checkpoint.", age)


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
