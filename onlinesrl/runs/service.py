"""A run served by HTTP: Starlette in front of the queue from which the run takes requests.

The server has its own thread and shares only the queue with the run: see ``sources.request_queue``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from onlinesrl.runs import run as run_module
from onlinesrl.runs.config.schema import Config
from onlinesrl.runs.console import say
from onlinesrl.runs.http.metrics import STUCK_SECONDS, RunMonitor, state_routes
from onlinesrl.runs.http.server import At, Server
from onlinesrl.stream.run_folder import REQUESTS
from onlinesrl.stream.sources.request_queue import PendingRequest, Requests, Unanswered, Untaken

JSON, LINES = "application/json", "application/x-ndjson"
END_SECONDS = 5
"""How long clients may take to receive their last answers after the end of the run."""
BODIES = 8
"""So many requests of the largest size may be in memory at the same time, answers on their way included."""


def serve(config: Config, at: At, fresh: bool, import_seconds: float) -> dict[str, Any]:
    """Learn from and predict what clients send, until a signal; return the summary.

    Bad examples of clients do not end the run, whatever their share.
    """
    journal = config.output / REQUESTS
    source = config.source.model_copy(update={"path": (journal,)})
    limits = config.limits.model_copy(update={"bad_share": 1.0})
    config = config.model_copy(update={"source": source, "limits": limits})
    if config.distribute is not None:
        raise config.error("distribute", "not for a server, whose requests come one by one")
    requests = Requests()
    board = _Board(requests)
    service = Service(requests, source.max_bytes, limits.request_lines)
    routes = [*service.routes(), *state_routes(board)]
    with Server(routes, at, END_SECONDS) as server:

        def begin() -> None:
            service.server = server
            server.start()
            say(f"serving at {server.address}; what is sent to /learn is in {journal}")

        board.locked = begin
        options = run_module.Options(fresh, until="forever", exporter=board, requests=requests)
        return run_module.run(config, options, import_seconds, say)


class _Board(RunMonitor):
    """The state of a run that answers requests."""

    def __init__(self, requests: Requests) -> None:
        super().__init__()
        self.requests = requests

    @property
    def alive(self) -> bool:
        since = self.requests.predicting
        return super().alive and (since is None or time.monotonic() - since < STUCK_SECONDS)

    @property
    def ready(self) -> bool:
        return self.requests.accepting and super().ready


class Service:
    """Puts requests in the queue: of at most twice ``max_bytes``, and of so many ``lines``."""

    server: Server

    def __init__(self, requests: Requests, max_bytes: int, lines: int) -> None:
        self.requests = requests
        self.most = 2 * max_bytes
        self.lines = lines
        self.held = 0
        """The bytes of the requests that are in memory."""

    def routes(self) -> list[Route]:
        """Return what serves clients."""
        return [
            Route("/predict", self.predict, methods=["POST"]),
            Route("/learn", self.learn, methods=["POST"]),
        ]

    async def predict(self, request: HttpRequest) -> Response:
        """Predict examples with the weights as they are."""
        return await self._answer(request, learn=False)

    async def learn(self, request: HttpRequest) -> Response:
        """Predict examples, then learn from them."""
        return await self._answer(request, learn=True)

    async def _answer(self, request: HttpRequest, learn: bool) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in {JSON, LINES}:
            return _refusal(
                415, f"expected Content-Type {JSON}, an example, or {LINES}, one per line"
            )
        body = bytearray()
        try:
            refusal = await self._read(request, body)
            if refusal is None and kind == LINES:
                refusal = self._too_many(body.count(b"\n") + (not body.endswith(b"\n")))
            if refusal is not None:
                return refusal
            text = bytes(body).removeprefix(b"\xef\xbb\xbf")
            text = text if kind == LINES else text.replace(b"\n", b" ")
            return await self._ask(PendingRequest(text, learn), kind)
        except ClientDisconnect:
            return Response(status_code=400)
        finally:
            self.held -= len(body)

    def _too_many(self, lines: int) -> Response | None:
        reason = f"more than {self.lines} lines (limits.request_lines): send them in parts"
        return _refusal(413, reason) if lines > self.lines else None

    async def _read(self, request: HttpRequest, body: bytearray) -> Response | None:
        """Read a request's body; return a refusal if it is too long, else None."""
        reason = f"longer than {self.most} bytes (twice source.max_bytes): send it in parts"
        too_long = _refusal(413, reason)
        if int(request.headers.get("content-length", 0)) > self.most:
            return too_long
        async for chunk in request.stream():
            body += chunk
            self.held += len(chunk)
            if len(body) > self.most:
                return too_long
            if self.held + self.server.unsent > BODIES * self.most:
                return _busy()
        return None

    async def _ask(self, pending: PendingRequest, kind: str) -> Response:
        """Wait for the answers to a request."""
        alone = kind == JSON
        if pending.over:
            return _refusal(422, "no example") if alone else Response(media_type=LINES)
        if not self.requests.put(pending):
            return _busy()
        try:
            await asyncio.wrap_future(pending.done)
        except (Untaken, Unanswered) as ended:
            if isinstance(ended, Untaken) or not pending.learn:
                return _busy()
            return _refusal(
                500,
                "the run ended: this may have been learned from, or will be, in whole or in part",
            )
        text = b"".join(line + b"\n" for line in pending.answers)
        return Response(text, 422 if alone and pending.bad else 200, media_type=kind)


def _refusal(status: int, error: str, headers: Mapping[str, str] = {}) -> Response:
    return Response(msgspec.json.encode({"error": error}) + b"\n", status, headers, JSON)


def _busy() -> Response:
    reason = "not accepted: too many requests wait, or the run is starting or ending; try again"
    return _refusal(503, reason, {"Retry-After": "1"})
