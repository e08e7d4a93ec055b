"""A server in a fork, a client of it, and what it has learned."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
from conftest import Job, wait

from onlinesrl.stream import checkpoints
from tests.support.waiting import PATIENCE, until

JSON, LINES = "application/json", "application/x-ndjson"


class Client:
    """A client of the server that said where it serves."""

    def __init__(self, said: str, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = int(said.partition(f"serving at http://{host}:")[2].split(";")[0])

    def connection(self) -> closing[HTTPConnection]:
        return closing(HTTPConnection(self.host, self.port, timeout=PATIENCE))

    def ask(
        self, method: str, path: str, body: bytes = b"", kind: str = JSON, **headers: str
    ) -> tuple[int, bytes]:
        with self.connection() as connection:
            return ask(connection, method, path, body, kind, **headers)

    def post(self, path: str, lines: list[bytes]) -> list[Any]:
        status, text = self.ask("POST", path, b"\n".join(lines), LINES)
        assert status == 200, text
        return [json.loads(line) for line in text.splitlines()]


class Served(Client):
    """A server in a fork, and a client of it."""

    def __init__(
        self,
        job: Job,
        *options: str,
        first: Callable[[], object] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.job = job
        (job.folder / "stderr").unlink(missing_ok=True)
        self.process = job.fork("serve", str(job.config), "--port", "0", *options, first=first)
        until(lambda: "serving at" in job.said and job.said.endswith("\n"))
        super().__init__(job.said, host)
        until(lambda: self.ask("GET", "/readyz")[0] == 200)

    def stop(self) -> int:
        os.kill(self.process, signal.SIGTERM)
        return wait(self.process)


def ask(
    connection: HTTPConnection, method: str, path: str, body: bytes, kind: str = JSON, **of: str
) -> tuple[int, bytes]:
    connection.request(method, path, body, {"Content-Type": kind, **of})
    answer = connection.getresponse()
    return answer.status, answer.read()


def learned(output: Path) -> Any:
    """What a run's last checkpoint has of the learner, to the bit."""
    saved = checkpoints.latest(output / "checkpoints", print)
    assert saved is not None
    arrays = {name: (a.dtype.str, a.tobytes()) for name, a in saved.arrays.items()}
    return msgspec.json.encode(saved.header["learner"]), arrays
