"""The metrics of a run, logged to MLflow while it runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from onlinesrl.core.io.atomic_write import read_plain, write_atomic
from onlinesrl.stream.daemon_calls import RemoteCalls
from onlinesrl.stream.observer import Observer, Progress

PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
"""Unless the environment says otherwise; MLflow's own would have a run wait for minutes."""
MOST_LINES = 1000
"""So many lines of metrics may wait while MLflow is away."""


class MlflowLog(Observer):
    """Logs each line of metrics to a run of MLflow, with the number of examples as its step.

    A thread of its own does so. ``file`` has the id of MLflow's run, which a resumed run goes on with. What
    fails is warned of, and does not stop the run.
    """

    def __init__(self, experiment: str, name: str, file: Path, warn: Callable[[str], None]) -> None:
        import mlflow.entities

        for variable, value in PATIENCE.items():
            os.environ.setdefault(variable, value)
        self.experiment, self.name, self.file = experiment, name, file
        self.warn = warn
        self._mlflow: Any = mlflow
        self._client: Any = None
        self._calls = RemoteCalls("metrics are not logged to MLflow", MOST_LINES, warn)

    def batch(self, progress: Progress) -> None:
        """Log the lines of metrics that were written."""
        for line in progress.written:
            self.log(line)

    def log(self, line: Mapping[str, Any]) -> None:
        """Log the numbers of a line."""
        now, step = int(time.time() * 1000), line["examples"]
        metrics = [
            self._mlflow.entities.Metric(key, float(value), now, step)
            for key, value in line.items()
            if isinstance(value, int | float)
        ]
        self._calls.begin(partial(self._log, metrics))

    def close(self, finished: bool, stopping: Callable[[], bool]) -> None:
        """Say to MLflow that the run has finished, or was stopped; wait a limited time for its answer."""
        self._calls.begin(partial(self._end, "FINISHED" if finished else "KILLED"))
        if not self._calls.end(stopping):
            self.warn("the last metrics are not logged to MLflow, which did not answer in time")

    def _log(self, metrics: list[Any]) -> None:
        if self._client is None:
            self._begin()
        self._client.log_batch(self._run, metrics)

    def _end(self, status: str) -> None:
        if self._client is not None:
            self._client.set_terminated(self._run, status)

    def _begin(self) -> None:
        client = self._mlflow.MlflowClient()
        if self.file.exists():
            self._run = read_plain(self.file).decode()
            client.update_run(self._run, "RUNNING")
        else:
            known = client.get_experiment_by_name(self.experiment)
            experiment = known.experiment_id if known else client.create_experiment(self.experiment)
            self._run = client.create_run(experiment, run_name=self.name).info.run_id
            write_atomic(self.file, self._run.encode())
        self._client = client
