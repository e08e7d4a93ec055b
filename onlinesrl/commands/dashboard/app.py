"""The page: Starlette serves it, its events and explanations; a worker process reads checkpoints."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from onlinesrl.commands.dashboard.folders import Unseen, Watched
from onlinesrl.runs.console import Say
from onlinesrl.runs.http.events import EventStream
from onlinesrl.runs.http.server import At, Server
from onlinesrl.stream.daemon_calls import aside

STATIC = Path(__file__).parent / "static"
STREAMS = 32
"""The most clients that receive events at a time."""
EVERY_SECONDS = 1.0
"""How often run folders are looked at, while somebody has the page open."""
REST = 10
"""After a checkpoint has been looked at, no other one is for so many times as long."""
WORKER = "onlinesrl.commands.dashboard.worker"
GONE = {"error": "no answer: it took too long, or there is too little memory"}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:",
    "X-Content-Type-Options": "nosniff",
}


def serve(folders: Sequence[Path], at: At, say: Say) -> None:
    """Serve the page until a signal. Raises FolderError, and what ``runs.http.server.Server`` raises."""
    runs = [Watched(path) for path in dict.fromkeys(folders)]
    with Server(at) as server:
        server.start(routes(runs))
        say(f"dashboard at {server.address}; Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            server.wait()


def routes(runs: Sequence[Watched]) -> list[BaseRoute]:
    """Return what shows runs."""
    page = Page(runs)
    return [
        Route("/", page.index),
        Route("/events", page.stream),
        Route("/explain", page.explain),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]


class Page:
    """The runs that are shown, looked at for all clients together."""

    def __init__(self, runs: Sequence[Watched]) -> None:
        self.runs = runs
        self.looked = float("-inf")
        self.rest = [float("-inf")] * len(runs)
        self.looking = asyncio.Lock()
        self.asking = asyncio.Semaphore(1)
        self.explaining = asyncio.Semaphore(1)
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.followers = set[EventStream]()

    async def index(self, request: Request) -> Response:
        """Answer with the page."""
        return FileResponse(STATIC / "index.html", headers=HEADERS)

    async def stream(self, request: Request) -> Response:
        """Answer with server-sent events: parts of runs, whenever they have changed."""
        if len(self.followers) >= STREAMS:
            text, headers = "too many pages are open\n", {"Retry-After": "5"}
            return Response(text, 503, headers, media_type="text/plain")
        return EventStream(self.events(), self.followers)

    async def events(self) -> AsyncIterator[bytes]:
        """Yield all parts of all runs, then those that change."""
        sent: dict[tuple[int, str], bytes] = {}
        yield _event("runs", [str(run.path) for run in self.runs])
        while True:
            await self.look()
            for number, run in enumerate(self.runs):
                for name, value in run.parts().items():
                    part = _event("part", {"run": number, "name": name, "value": value})
                    if sent.get((number, name)) != part:
                        sent[number, name] = part
                        yield part
            yield b""
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self) -> None:
        """Read what is new in the run folders, unless that was done just now."""
        async with self.looking:
            if time.monotonic() - self.looked < EVERY_SECONDS / 2:
                return
            for number, run in enumerate(self.runs):
                await asyncio.wrap_future(aside(run.look))
                rested = time.monotonic() > self.rest[number]
                unseen = run.unseen
                if unseen is not None and rested and number not in self.tasks:
                    self.tasks[number] = asyncio.create_task(self.open(number, unseen))
            self.looked = time.monotonic()

    async def open(self, number: int, unseen: Unseen) -> None:
        """Have a worker look at a checkpoint."""
        started = time.monotonic()
        try:
            async with self.asking:
                before = None if unseen.before is None else str(unseen.before)
                content = await answer(
                    task="look", checkpoint=str(unseen.saved.path), before=before
                )
            self.runs[number].take(unseen, content)
        finally:
            ended = time.monotonic()
            self.rest[number] = ended + REST * (ended - started)
            del self.tasks[number]

    async def explain(self, request: Request) -> Response:
        """Explain an atom of an example that is shown, or its least certain one."""
        parameters = request.query_params
        try:
            run = self.runs[int(parameters["run"])]
            pair = run.examples[parameters["id"]]["pair"]
        except (ValueError, KeyError, IndexError):
            return _json({"error": "this example is no longer among the newest ones"}, 404)
        async with self.explaining:
            atom = parameters.get("atom")
            reply = await answer(task="explain", folder=str(run.path), pair=pair, atom=atom)
        return _json(reply, 200 if "lines" in reply else 422)


async def answer(**request: Any) -> dict[str, Any]:
    """Return what a worker process answers, ``GONE`` if nothing."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", WORKER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        output, _ = await process.communicate(msgspec.json.encode(request))
        reply: dict[str, Any] = msgspec.json.decode(output) if process.returncode == 0 else GONE
        return reply
    finally:
        if process.returncode is None:
            process.kill()


def _json(value: Any, status: int) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _event(name: str, value: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(value))
