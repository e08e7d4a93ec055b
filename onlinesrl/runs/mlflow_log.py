"""The metrics of a run, logged to MLflow while it runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onlinesrl.core.io.atomic_write import read_plain, write_atomic

PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
"""Unless the environment says otherwise; MLflow's own would have a run wait for minutes."""
PAUSE_SECONDS = 60.0
"""After a failure, until MLflow is asked again."""


class MlflowLog:
    """Logs each line of metrics to a run of MLflow, with the number of examples as its step.

    ``file`` has the id of MLflow's run, which a resumed run goes on with. What fails is warned of, once, and
    does not stop the run; lines of the next minute are not logged.
    """

    def __init__(self, experiment: str, name: str, file: Path, warn: Callable[[str], None]) -> None:
        self.experiment, self.name, self.file = experiment, name, file
        self._warn = warn
        self._client: Any = None
        self._next = time.monotonic()

    def log(self, line: Mapping[str, Any]) -> None:
        """Log the numbers of a line."""
        self._tried(lambda: self._log(line))

    def end(self, finished: bool) -> None:
        """Say to MLflow that the run has finished, or was stopped."""
        if self._client is not None:
            status = "FINISHED" if finished else "KILLED"
            self._next = time.monotonic()
            self._tried(lambda: self._client.set_terminated(self._run, status))

    def _log(self, line: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        if self._client is None:
            self._begin()
        now, step = int(time.time() * 1000), line["examples"]
        metrics = [
            Metric(key, float(value), now, step)
            for key, value in line.items()
            if isinstance(value, int | float)
        ]
        self._client.log_batch(self._run, metrics)

    def _begin(self) -> None:
        from mlflow import MlflowClient

        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
        client = MlflowClient()
        if self.file.exists():
            self._run = read_plain(self.file).decode()
            client.update_run(self._run, "RUNNING")
        else:
            known = client.get_experiment_by_name(self.experiment)
            experiment = known.experiment_id if known else client.create_experiment(self.experiment)
            self._run = client.create_run(experiment, run_name=self.name).info.run_id
            write_atomic(self.file, self._run.encode())
        self._client = client

    def _tried(self, call: Callable[[], object]) -> None:
        if time.monotonic() < self._next:
            return
        try:
            call()
        except Exception as error:
            self._next = time.monotonic() + PAUSE_SECONDS
            self._warn(f"metrics are not logged to MLflow: {error}")
            self._warn = lambda message: None
