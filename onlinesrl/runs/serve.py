"""A run served by HTTP: Starlette in front of the queue from which the run takes requests.

The server has its own thread and shares only the queue with the run: see `stream.requests`.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Mapping
from threading import Thread
from typing import Any, Self, cast

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from onlinesrl.core.starting import starting
from onlinesrl.runs import session
from onlinesrl.runs.config import Config
from onlinesrl.runs.exporter import STUCK_SECONDS, Board
from onlinesrl.runs.listening import address, hosts_of, listening
from onlinesrl.runs.messages import say
from onlinesrl.stream.folder import REQUESTS
from onlinesrl.stream.requests import Asked, Requests, Unanswered, Untaken

JSON, LINES = "application/json", "application/x-ndjson"
CLIENTS = 256
"""The most connections; one more disconnects the client that the server has waited for longest."""
CLIENT_SECONDS = 30.0
"""How long a client may take to send a request, or to receive its answer."""
WATCH_SECONDS = 1.0
"""How often clients are checked."""
IDLE_SECONDS = 15
"""How long an idle connection is kept."""
END_SECONDS = 5
"""How long clients may take to receive their last answers after the end of the run."""
BODIES = 8
"""How many requests of the largest size may be in memory at the same time."""


def serve(
    config: Config, host: str, port: int, fresh: bool, import_seconds: float
) -> dict[str, Any]:
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
    with Server(host, port, requests, board, 2 * source.max_bytes) as server:
        where = address(host, server.socket)
        say(f"serving at {where}; what is sent to /learn is in {journal}")
        options = session.Options(fresh, until="forever", exporter=board, requests=requests)
        return session.run(config, options, import_seconds, say)


class _Board(Board):
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


class Server:
    """Accepts requests of at most ``most`` bytes; a context manager.

    Port 0 chooses a free port; ``port`` is the actual one. Raises PortError if it is not available.
    """

    def __init__(self, host: str, port: int, requests: Requests, board: Board, most: int) -> None:
        self.requests = requests
        self.board = board
        self.most = most
        self.held = 0
        self.socket = listening(host, port, CLIENTS)
        self.port: int = self.socket.getsockname()[1]
        app = Starlette(
            routes=[
                Route("/predict", self.predict, methods=["POST"]),
                Route("/learn", self.learn, methods=["POST"]),
                *(Route(f"/{name}", self.state) for name in ("metrics", "healthz", "readyz")),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts_of(host))],
            exception_handlers={Exception: _defect},
        )
        self.server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=_Connection,
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=END_SECONDS,
            )
        )
        self.thread = Thread(target=self.server.run, args=[[self.socket]], daemon=True)

    def __enter__(self) -> Self:
        """Start to serve."""
        with starting():
            self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop serving, after the finished answers are sent."""
        self.server.should_exit = True
        self.server.force_exit = kind is KeyboardInterrupt
        self.thread.join()

    async def state(self, request: HttpRequest) -> Response:
        """Answer /metrics, /healthz and /readyz."""
        status, text = await asyncio.to_thread(self.board.answer, request.url.path)
        return Response(text, status, media_type="text/plain; version=0.0.4; charset=utf-8")

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
            return refusal or await self._ask(Asked(_lines(body, kind), learn), kind)
        except ClientDisconnect:
            return Response(status_code=400)
        finally:
            self.held -= len(body)

    async def _read(self, request: HttpRequest, body: bytearray) -> Response | None:
        """Read a request's body; return a refusal if it is too long, else None."""
        too_long = _refusal(413, f"longer than {self.most} bytes: send it in parts")
        if int(request.headers.get("content-length", 0)) > self.most:
            return too_long
        async for chunk in request.stream():
            body += chunk
            self.held += len(chunk)
            if len(body) > self.most:
                return too_long
            if self.held > BODIES * self.most:
                return _busy()
        return None

    async def _ask(self, asked: Asked, kind: str) -> Response:
        """Wait for the answers to a request."""
        alone = kind == JSON
        if not asked.lines:
            return _refusal(422, "no example") if alone else Response(media_type=LINES)
        if not self.requests.put(asked):
            return _busy()
        try:
            await asyncio.wrap_future(asked.done)
        except (Untaken, Unanswered) as ended:
            if isinstance(ended, Untaken) or not asked.learn:
                return _busy()
            return _refusal(
                500, "the run ended: this may have been learned from, or will be by the next run"
            )
        text = b"".join(said + b"\n" for said in asked.answers)
        return Response(text, 422 if alone and asked.bad else 200, media_type=kind)


def _lines(body: bytearray, kind: str) -> list[bytes]:
    """Return the examples of a body, each as a line without its end."""
    text = bytes(body).removeprefix(b"\xef\xbb\xbf")
    lines = text.split(b"\n") if kind == LINES else [text.replace(b"\n", b" ")]
    return [line.strip() for line in lines if line.strip()]


def _refusal(status: int, error: str, headers: Mapping[str, str] = {}) -> Response:
    return Response(msgspec.json.encode({"error": error}) + b"\n", status, headers, JSON)


def _busy() -> Response:
    reason = "not accepted: too many requests wait, or the run is starting or ending; try again"
    return _refusal(503, reason, {"Retry-After": "1"})


def _defect(request: HttpRequest, error: Exception) -> Response:
    traceback.print_exception(error)
    return _refusal(500, "internal error of the server")


class _Connection(H11Protocol):
    """A client connection, which is aborted if the client takes too long."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to watch a client."""
        super().connection_made(cast(asyncio.Transport, transport))
        self.since, self.seen = self.loop.time(), self.cycle
        if len(self.connections) > CLIENTS:
            others = (each for each in self.connections if isinstance(each, _Connection))
            waited = (each for each in others if each.theirs)
            min(waited, key=lambda each: each.since).transport.abort()
        self._watch()

    def shutdown(self) -> None:
        """Shut down gracefully, but abort an incomplete request."""
        if self.cycle is not None and self.cycle.more_body:
            self.transport.abort()
        else:
            super().shutdown()

    @property
    def theirs(self) -> bool:
        """Whether the server waits for the client: to send a request, or to receive an answer."""
        cycle = self.cycle
        ours = cycle is not None and not cycle.more_body and not cycle.response_complete
        return not ours or self.transport.get_write_buffer_size() > 0

    def _watch(self) -> None:
        now = self.loop.time()
        if not self.theirs or self.cycle is not self.seen:
            self.since, self.seen = now, self.cycle
        if now - self.since >= CLIENT_SECONDS:
            self.transport.abort()
        elif self in self.connections:
            self.loop.call_later(WATCH_SECONDS, self._watch)
