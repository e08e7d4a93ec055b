"""The dashboard among strangers: clients that send half a request, many pages, files that block."""

import os
import re
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from urllib.error import HTTPError
from urllib.request import urlopen

from conftest import Job, wait

from onlinesrl.commands.dashboard import app
from onlinesrl.commands.dashboard.folders import Watched
from onlinesrl.stream.run_folder import RunFolder
from tests.support.waiting import PATIENCE, until


class Shown:
    """A dashboard in a fork, of a run that has only begun."""

    def __init__(self, job: Job, first: Callable[[], object]) -> None:
        self.job = job
        with RunFolder(job.output):
            pass
        self.process = job.fork("dashboard", str(job.output), "--port", "0", first=first)
        self.port = int(until(lambda: re.search(r"127\.0\.0\.1:(\d+); ", job.said))[1])  # type: ignore[index]

    def connect(self, sent: bytes) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        client.sendall(sent)
        return client

    def status(self, path: str = "/") -> int:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as answer:
                return int(answer.status)
        except HTTPError as error:
            with error:
                return error.code

    def end(self) -> int:
        os.kill(self.process, signal.SIGINT)
        return wait(self.process)


def test_many_pages_lock_no_page_out(job):
    def few():
        app.STREAMS, app.EVERY_SECONDS = 2, 0.05

    shown = Shown(job([]), few)
    events = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as held:
        for status in (b"200", b"200", b"503"):
            assert held.enter_context(shown.connect(events)).recv(12) == b"HTTP/1.1 " + status
        assert shown.status() == 200
    until(lambda: received(shown, events) == b"HTTP/1.1 200")  # those before have gone
    assert shown.end() == 0


def received(shown: Shown, sent: bytes) -> bytes:
    with shown.connect(sent) as client:
        return client.recv(12)


def test_ctrl_c_ends_it_whatever_its_threads_do(job, tmp_path):
    def block():
        Watched.look = lambda run: (tmp_path / "in").touch() or time.sleep(1e6)  # type: ignore[method-assign, assignment, func-returns-value]

    shown = Shown(job([]), block)
    with shown.connect(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        until((tmp_path / "in").exists)
        assert shown.status() == 200
        assert shown.end() == 0
    assert shown.job.said.count("\n") == 1
