"""Requests of `POST /predict` beside a bare uvicorn application that answers the same bytes.

Clients keep their connections. Both servers are processes of their own that are asked in turns; the bare one
reads the same bodies, without predicting. The learner alone predicts them in this process.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from onlinesrl.core.example import decode
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.run import make_learner
from tests.benchmarks.measure import show, sizes
from tests.support.paths import REPO
from tests.support.serving import JSON, Client, Served, ask

BARE = """
import socket, sys, uvicorn

answers = open(sys.argv[1], "rb").read().splitlines(keepends=True)
kind = (b"content-type", b"application/json")

async def application(scope, receive, send):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    answer = answers[int(scope["query_string"])]
    length = (b"content-length", b"%d" % len(answer))
    await send({"type": "http.response.start", "status": 200, "headers": [kind, length]})
    await send({"type": "http.response.body", "body": answer})

listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen(2048)
print(f"serving at http://127.0.0.1:{listener.getsockname()[1]};", flush=True)
config = uvicorn.Config(application, lifespan="off", log_level="critical", access_log=False)
uvicorn.Server(config).run([listener])
"""


class Load(NamedTuple):
    """Requests a second, the server's CPU milliseconds a request, and the milliseconds of each."""

    rate: float
    cpu: float
    times: list[float]


def cpu_of(process: int) -> float:
    """Return the CPU seconds of a process so far."""
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def load_of(
    process: int, client: Client, bodies: Sequence[bytes], clients: int, requests: int
) -> Load:
    def each(count: int) -> list[float]:
        """Send requests one after the other over one connection; return the milliseconds of each."""
        times = []
        with client.connection() as connection:
            for n in range(count):
                place, began = n % len(bodies), time.perf_counter()
                status, _ = ask(connection, "POST", f"/predict?{place}", bodies[place], JSON)
                times.append(1e3 * (time.perf_counter() - began))
                assert status == 200
        return times

    began, cpu = time.perf_counter(), cpu_of(process)
    with ThreadPoolExecutor(clients) as pool:
        times = [*pool.map(each, [requests // clients] * clients)]
    seconds, cpu = time.perf_counter() - began, cpu_of(process) - cpu
    return Load(requests / seconds, 1e3 * cpu / requests, [t for own in times for t in own])


def alone(learned: Sequence[bytes], bodies: Sequence[bytes], requests: int) -> Load:
    """The learner decodes and predicts without a server."""
    learner = make_learner(load(REPO / "configs" / "citations.yaml"))
    learner.step([decode(line) for line in learned])
    times, cpu = [], time.process_time()
    for n in range(requests):
        began = time.perf_counter()
        learner.predict([learner.decode(bodies[n % len(bodies)])])
        times.append(1e3 * (time.perf_counter() - began))
    milliseconds = 1e3 * (time.process_time() - cpu) / requests
    return Load(1e3 / milliseconds, milliseconds, times)


@contextmanager
def bare(answers: Path) -> Iterator[tuple[int, Client]]:
    """Serve the answers in a process of its own; yield its number, and a client."""
    command = [sys.executable, "-c", BARE, str(answers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, Client(process.stdout.readline())
        finally:
            process.terminate()


@sizes("rounds, requests", (1, 16), (5, 1000))
def test_predictions_beside_a_bare_application(rounds, requests, job, citations, tmp_path):
    lines = [line.rstrip() for line in citations]
    bodies = [json.dumps(json.loads(line) | {"truth": None}).encode() for line in lines[:50]]
    served = Served(job([]))
    served.post("/learn", lines)
    answers = (json.dumps(x).encode() + b"\n" for x in served.post("/predict", bodies))
    (tmp_path / "answers").write_bytes(b"".join(answers))
    loads = {("learner alone", 1): [alone(lines, bodies, requests)]}
    with bare(tmp_path / "answers") as (process, client):
        servers = {"bare": (process, client), "serve": (served.process, served)}
        for clients in (1, 8):
            for _ in range(rounds):
                for name, server in servers.items():
                    load = load_of(*server, bodies, clients, requests)
                    loads.setdefault((name, clients), []).append(load)
    assert served.stop() == 0, served.job.said
    rows = [
        (
            *key,
            *np.median([load[:2] for load in found], axis=0).tolist(),
            *np.percentile([t for load in found for t in load.times], [50, 99]).tolist(),
        )
        for key, found in loads.items()
    ]
    head = ("", "clients", "requests/s", "CPU ms", "p50 ms", "p99 ms")
    show(f"{rounds} rounds of {requests:,} requests", head, rows)
