"""Requests a second, and how long one takes, of `POST /predict` beside a bare uvicorn application.

Clients keep their connections. Both servers are processes of their own that run one after the other in each
round; the bare one reads the same bodies and answers the same bytes, without predicting. The learner alone
predicts the same examples in this process, so that what serving costs can be told from what predicting does.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from onlinesrl.core.example import decode
from onlinesrl.runs import run
from onlinesrl.runs.config.loading import load
from tests.benchmarks.measure import REPO, show
from tests.support.serving import Served

pytestmark = pytest.mark.benchmark
ROUNDS, REQUESTS, EXAMPLES = 5, 1000, 50
CLIENTS = (1, 8)
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
print(listener.getsockname()[1], flush=True)
config = uvicorn.Config(application, lifespan="off", log_level="critical", access_log=False)
uvicorn.Server(config).run([listener])
"""


class Running(NamedTuple):
    """A server: its process and its port."""

    process: int
    port: int

    def cpu(self) -> float:
        """Return the CPU seconds of its process so far."""
        times = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def client(port: int, bodies: Sequence[bytes], requests: int) -> list[float]:
    """Send requests one after the other over one connection; return the seconds of each."""
    head = "POST /predict?{} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    messages = [
        f"{head.format(n)}Content-Length: {len(body)}\r\n\r\n".encode() + body
        for n, body in enumerate(bodies)
    ]
    seconds = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for n in range(requests):
            began = time.perf_counter()
            connection.sendall(messages[n % len(messages)])
            assert answer_of(connection).startswith(b'{"id":')
            seconds.append(time.perf_counter() - began)
    return seconds


def answer_of(connection: socket.socket) -> bytes:
    """Receive the body of an answer with status 200."""
    text, length = b"", None
    while length is None or len(text) < length:
        piece = connection.recv(1 << 16)
        assert piece, "the server hung up"
        text += piece
        if length is None and b"\r\n\r\n" in text:
            head, _, text = text.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
    return text


def load_of(
    server: Running, bodies: Sequence[bytes], clients: int
) -> tuple[float, float, list[float]]:
    """Return requests a second, the server's CPU milliseconds a request, and the milliseconds of each."""
    began, cpu = time.perf_counter(), server.cpu()
    with ThreadPoolExecutor(clients) as pool:
        share = [REQUESTS // clients] * clients
        times = [*pool.map(lambda requests: client(server.port, bodies, requests), share)]
    seconds, cpu = time.perf_counter() - began, server.cpu() - cpu
    return REQUESTS / seconds, 1e3 * cpu / REQUESTS, [1e3 * t for each in times for t in each]


def alone(learned: Sequence[bytes], bodies: Sequence[bytes]) -> list[float]:
    """Return how long the learner decodes and predicts a body, without a server, in milliseconds.

    First the mean CPU time, then the wall time of each.
    """
    learner = run.make_learner(load(REPO / "configs" / "citations.yaml"))
    learner.compile()
    learner.step([decode(line) for line in learned])
    milliseconds, cpu = [], time.process_time()
    for n in range(REQUESTS):
        began = time.perf_counter()
        learner.predict([learner.decode(bodies[n % len(bodies)])])
        milliseconds.append(1e3 * (time.perf_counter() - began))
    return [1e3 * (time.process_time() - cpu) / REQUESTS, *milliseconds]


def test_predictions_beside_a_bare_application(job, citations, tmp_path):
    lines = [line.rstrip() for line in citations]
    bodies = [json.dumps(json.loads(line) | {"truth": None}).encode() for line in lines[:EXAMPLES]]
    served = Served(job([]))
    served.post("/learn", lines)
    (tmp_path / "answers").write_bytes(
        b"".join(json.dumps(x).encode() + b"\n" for x in served.post("/predict", bodies))
    )
    command = [sys.executable, "-c", BARE, str(tmp_path / "answers")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as bare:
        try:
            assert bare.stdout is not None
            servers = {
                "bare": Running(bare.pid, int(bare.stdout.readline())),
                "serve": Running(served.process, served.port),
            }
            cpu, *milliseconds = alone(lines, bodies)
            rows = [("learner alone", "", 1e3 / cpu, cpu, *_percentiles(milliseconds))]
            for clients in CLIENTS:
                rows += compared(servers, bodies, clients)
        finally:
            bare.terminate()
    assert served.stop() == 0, served.job.said
    head = ("", "clients", "requests/s", "CPU ms", "p50 ms", "p99 ms")
    show(f"{ROUNDS} rounds of {REQUESTS:,} requests", head, rows)


def compared(
    servers: dict[str, Running], bodies: Sequence[bytes], clients: int
) -> list[Sequence[str | float]]:
    """Return a row for each server, and one of how many times as slow the second is."""
    loads: dict[str, list[tuple[float, float, list[float]]]] = {name: [] for name in servers}
    for _ in range(ROUNDS):
        for name, server in servers.items():
            loads[name].append(load_of(server, bodies, clients))
    rows = {
        name: (
            *np.median([load[:2] for load in rounds], axis=0).tolist(),
            *_percentiles([t for *_, milliseconds in rounds for t in milliseconds]),
        )
        for name, rounds in loads.items()
    }
    ratios = (serve / bare for bare, serve in zip(*rows.values(), strict=True))
    return [
        *((name, clients, *row) for name, row in rows.items()),
        ("serve / bare", clients, *ratios),
    ]


def _percentiles(milliseconds: Sequence[float]) -> list[float]:
    return np.percentile(milliseconds, [50, 99]).tolist()
