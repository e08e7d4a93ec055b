"""The metrics server: true figures, readiness, and that it never gets in the way of learning."""

import json
import math
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Job, wait
from prometheus_client.parser import text_string_to_metric_families

from onlinesrl.runs import run as run_module
from onlinesrl.runs.http import metrics as module
from onlinesrl.runs.http.server import At, Server
from onlinesrl.stream.observer import Progress
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("counting")

Samples = dict[tuple[str, str], float]


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def scrape(port: int) -> Samples:
    """Every sample by its name without the prefix, and the value of its label."""
    status, text = get(port, "/metrics")
    assert status == 200
    return {
        (sample.name.removeprefix("onlinesrl_"), "".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Fed:
    """A run that reads what the test writes to it, and serves its metrics."""

    def __init__(self, job: Job, first: Callable[[], object] = lambda: None) -> None:
        self.job = job
        there, self.pipe = os.pipe()
        (job.folder / "stderr").unlink(missing_ok=True)

        def begin() -> None:
            os.close(self.pipe)
            os.dup2(there, 0)
            first()

        options = ["--metrics-port", "0", "--set", "source.path=-"]
        self.process = job.start(*options, first=begin)
        os.close(there)
        self.port = int(until(lambda: self.said("metrics at http://127.0.0.1:")).split("/")[0])

    def said(self, words: str) -> str:
        return self.job.said.partition(words)[2] if "\n" in self.job.said else ""

    def feed(self, lines: list[bytes]) -> None:
        os.write(self.pipe, b"".join(lines))

    def end(self) -> int:
        os.close(self.pipe)
        return wait(self.process)


@pytest.fixture
def lines(citations):
    unlabelled = json.dumps({k: v for k, v in json.loads(citations[9]).items() if k != "truth"})
    return [
        *citations[:20],
        b"{\n",
        b'{"id": 1, "evidence": {"Nothing": [["a"]]}}\n',
        b'{"id": 2, "evidence": {"Token": [["a"]]}}\n',
        b'{"id": 3, "evidence": {"Token": [["a", 1]]}, "truth": {"InField": [[1, "title"], [1, "venue"]]}}\n',
        unlabelled.encode() + b"\n",
        b"[" + b" " * 500_000 + b"]\n",
    ]


@pytest.mark.usefixtures("kernels")
def test_metrics_are_those_of_the_summary(job, lines):
    run = job(
        [],
        source={"path": "-", "max_bytes": 400_000},
        batch=1,
        checkpoint={"every": 10},
        limits={"bad_share": 1.0},
    )
    fed = Fed(run)
    Thread(target=fed.feed, args=[lines], daemon=True).start()
    until(lambda: scrape(fed.port).get(("examples_total", "")) == len(lines))
    found = scrape(fed.port)  # while it waits for more
    assert get(fed.port, "/readyz") == (200, "ready\n")
    assert get(fed.port, "/healthz") == (200, "alive\n")
    assert get(fed.port, "/nothing")[0] == 404
    assert fed.end() == 0
    summary = json.loads((run.output / "summary.json").read_bytes())
    assert summary["errors"] == {"decode": 1, "hard_rule": 1, "schema": 2, "too_long": 1}
    last = run.lines("metrics.jsonl")[-1]
    assert {name: last[name] for name in ("f1", "errors", "loss")} == {
        name: summary[name] for name in ("f1", "errors", "loss")
    }
    expected = {
        ("examples_total", ""): summary["examples"],
        ("labelled_examples_total", ""): summary["labelled"],
        ("bad_examples_total", ""): summary["bad"],
        ("dead_letters_total", ""): len(run.lines("deadletter.jsonl")),
        ("updates_total", ""): summary["updates"],
        ("dropped_weights_total", ""): 0,
        ("f1_ratio", ""): summary["f1"],
        ("mean_loss", ""): summary["loss"],
        ("regret_bound", ""): summary["regret_bound"],
        ("weights", ""): summary["weights"],
        ("step_seconds_count", ""): len(lines),
        ("checkpoint_number", ""): 2,
        **{("errors_total", kind): n for kind, n in summary["errors"].items()},
        **{("predictions_total", route): n for route, n in summary["routes"].items()},
    }
    assert {key: found[key] for key in expected} == expected
    assert found["checkpoint_bytes", ""] > 1000
    assert 0 <= found["checkpoint_age_seconds", ""] < PATIENCE
    assert 0 < found["step_seconds_sum", ""] < PATIENCE
    assert found["examples_per_second", ""] > 0
    assert not any(name == "source_lag_records" for name, _ in found)


def test_metrics_go_on_after_a_resume(job, lines):
    run = job([], source={"path": "-"}, batch=1, limits={"bad_share": 1.0})
    fed = Fed(run)
    fed.feed(lines[:24])
    until(lambda: scrape(fed.port).get(("examples_total", "")) == 24)
    before = scrape(fed.port)
    os.kill(fed.process, signal.SIGTERM)
    assert fed.end() == 0
    again = Fed(run)
    assert until(lambda: get(again.port, "/readyz")[0] == 200)
    after = scrape(again.port)
    same = {key for key in before if "_seconds" not in key[0] and "per_second" not in key[0]}
    same -= {key for key in same if key[0].startswith("checkpoint_")}
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    assert after["checkpoint_number", ""] == 1
    again.feed(lines[:24])  # standard input is given again from its start
    assert again.end() == 0


def test_clients_do_not_change_results(job, citations):
    """Not those that never ask, not those that never read, and not those that ask all the time."""
    alone = job(citations[:60], "alone")
    assert alone.run() == 0
    run = job([], source={"path": "-"})
    fed = Fed(run)
    done = Event()
    idle = [socket.create_connection(("127.0.0.1", fed.port)) for _ in range(8)]
    idle[0].sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    idle[1].sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    with suppress(OSError):  # it is hung up on
        idle[2].sendall(bytes(100_000))

    def ask():
        while not done.is_set():
            get(fed.port, "/metrics")

    def nag():
        try:
            ask()
        except (OSError, HTTPException):  # the run has ended
            return

    nagging = [Thread(target=nag) for _ in range(2)]
    for thread in nagging:
        thread.start()
    try:
        for first in range(0, 60, 10):
            fed.feed(citations[first : first + 10])
        assert fed.end() == 0, run.said
    finally:
        done.set()
        for thread in nagging:
            thread.join()
        for connection in idle:
            connection.close()
    assert run.results() == alone.results()
    assert "Traceback" not in run.said


def progress(examples: int) -> Progress:
    """What a run says that waits for two partitions."""
    names = ("labelled", "bad", "updates", "dropped_weights", "weights")
    line: dict[str, Any] = {
        "examples": examples,
        **dict.fromkeys(names, 0),
        **dict.fromkeys(("f1", "loss", "regret_bound")),
        "errors": {},
        "routes": {},
    }
    return Progress([], [], examples, 0.0, 2.0, None, lambda: line, lambda: {"0": 12, "1": 0})


@pytest.fixture
def monitor(tmp_path):
    made = module.RunMonitor(tmp_path)
    made.begin(progress(5))
    return made


def test_readiness(job, citations, tmp_path):
    gates = [tmp_path / "compiled", tmp_path / "written"]

    def slow():
        compile_kernels, write_results = run_module.compile_kernels, run_module.write_results

        def compiling(*arguments):
            until(gates[0].exists)
            return compile_kernels(*arguments)

        def writing(*arguments):
            until(gates[1].exists)
            return write_results(*arguments)

        run_module.compile_kernels, run_module.write_results = compiling, writing

    fed = Fed(job([], source={"path": "-"}, batch=1), slow)
    assert get(fed.port, "/readyz") == (503, "not ready\n")
    assert get(fed.port, "/healthz") == (200, "alive\n")
    assert ("examples_total", "") not in scrape(fed.port)
    gates[0].touch()
    until(lambda: get(fed.port, "/readyz") == (200, "ready\n"))
    fed.feed(citations[:3])
    until(lambda: scrape(fed.port).get(("examples_total", "")) == 3)
    os.kill(fed.process, signal.SIGTERM)
    until(lambda: get(fed.port, "/readyz")[0] == 503)
    assert scrape(fed.port)["examples_total", ""] == 3
    assert get(fed.port, "/healthz")[0] == 200
    assert get(fed.port, "/nothing")[0] == 404
    gates[1].touch()
    assert fed.end() == 0


def test_lag_by_partition_and_nothing_for_what_is_not_known(monitor):
    with Server(At()) as server:
        server.start(module.state_routes(monitor))
        found = scrape(server.port)
    assert found["source_lag_records", "0"] == 12
    assert found["source_lag_records", "1"] == 0
    assert not {name for name, _ in found} & {"f1_ratio", "mean_loss", "regret_bound"}


def test_a_run_that_works_too_long_is_not_alive(monitor, monkeypatch):
    now = math.ceil(time.monotonic())  # sums of whole numbers are exact
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    monitor.batch(progress(5))  # it waits for its source
    assert (monitor.ready, monitor.alive) == (True, True)
    now += module.STUCK_SECONDS
    assert not monitor.alive
    monitor.batch(progress(5))
    assert monitor.alive
    monitor.end()
    assert not monitor.ready
