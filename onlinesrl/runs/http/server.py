"""A server of HTTP on a thread of its own: who may ask, how many clients, and for how long they may wait.

Runs that are served, metrics and the dashboard have it in common.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
import traceback
from collections.abc import Collection, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Self, cast

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from onlinesrl.core.errors import PortError, UnavailableError
from onlinesrl.core.operating_system import limit_unreceived, most_files
from onlinesrl.core.parallel.starting import starting
from onlinesrl.runs.console import warn

CLIENTS = 256
"""The most connections; one more disconnects the client that the server has waited for longest."""
SPARE = 64
"""How many files the process may open beside the connections."""
CLIENT_SECONDS = 30.0
"""How long a client may take to send a request, or to receive its answer."""
WATCH_SECONDS = 1.0
"""How often clients are checked."""
IDLE_SECONDS = 15
"""How long an idle connection is kept."""
WAIT_SECONDS = 0.2
END_SECONDS = 5.0
"""How long the thread may take to end, beside what clients may take."""
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/\s]+))(?::[0-9]{1,5})?")


class At(NamedTuple):
    """Where a server listens, with the options that say so, and other names by which clients may ask."""

    host: str = "127.0.0.1"
    port: int = 0
    allowed: Sequence[str] = ()
    options: str = "--host {} --port {}"

    @property
    def names(self) -> frozenset[str]:
        """The names by which clients may ask."""
        return frozenset(name.lower() for name in ("localhost", self.host, *self.allowed))

    def address(self, port: int) -> str:
        """Return the URL of the server, at the port that it has."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{port}"


def listening(at: At) -> socket.socket:
    """Return a socket that listens; port 0: at a free one. Raises PortError if it is not available."""
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only for sockets that name their protocol
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        limit_unreceived(opened, CLIENT_SECONDS)  # of all its connections
        opened.bind((at.host, at.port))
        opened.listen(1)  # the server asks for more; without it two processes could have the port
    except (OSError, OverflowError, UnicodeError) as error:
        opened.close()
        raise PortError.of(at.options.format(at.host, at.port), error) from error
    return opened


def may_ask(header: str, names: Collection[str]) -> bool:
    """Tell whether a Host header has an IP address or one of the ``names``, against DNS rebinding.

    A page that makes a browser ask by another name, which resolves to this machine, is refused; no page
    can make it send an address in place of that name.
    """
    match = _HOST.fullmatch(header)
    if match is None:
        return False
    name = (match[1] or match[2]).lower()
    try:
        return name in names or bool(ip_address(name))
    except ValueError:
        return False


def most_clients() -> int:
    """Return how many connections there may be, as far as the process may open files.

    As many again are left for those that are accepted before others have been closed. Raises
    UnavailableError if there is no room for any.
    """
    limit = most_files()
    if limit is None:
        return CLIENTS
    needed = len([*Path("/dev/fd").iterdir()]) + SPARE
    if limit < needed + 2:
        raise UnavailableError(
            f"the process may open {limit} files, and a server needs {needed + 2} at least; "
            "raise the limit (ulimit -n)"
        )
    return min(CLIENTS, (limit - needed) // 2)


class Server:
    """Serves routes at a port, from ``start`` on, to clients that ask by a name of ``at``; a context manager.

    At the end clients have ``end_seconds`` to receive their last answers. Raises PortError if the port
    is not available, UnavailableError if the process may open too few files.
    """

    def __init__(self, routes: Sequence[BaseRoute], at: At, end_seconds: int = 0) -> None:
        self.clients = most_clients()
        self.socket = listening(at)
        self.port: int = self.socket.getsockname()[1]
        self.address = at.address(self.port)
        if not ip_address(self.socket.getsockname()[0]).is_loopback:
            warn(
                f"{self.address}: open to other machines, without a password and without encryption"
            )
        self.uvicorn = _Uvicorn(
            uvicorn.Config(
                application(routes, at.names),
                http=cast(Any, partial(_Connection, self.clients)),
                backlog=max(1, self.clients // 4),  # so many are accepted at once
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=end_seconds,
            )
        )
        self.end_seconds = END_SECONDS + end_seconds
        self.thread = Thread(target=self.uvicorn.run, args=[[self.socket]], daemon=True)

    @property
    def unsent(self) -> int:
        """How many bytes of answers clients have not received yet."""
        transports = (connection.transport for connection in self.uvicorn.server_state.connections)
        return sum(connection.get_write_buffer_size() for connection in transports)

    def start(self) -> None:
        """Start to serve."""
        with starting():
            self.thread.start()

    def wait(self) -> None:
        """Wait until the server ends, which a signal may interrupt at any time.

        ``Thread.join`` takes an interrupted thread for an ended one, before Python 3.13.
        """
        while self.thread.is_alive():
            time.sleep(WAIT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop serving, after the finished answers are sent."""
        self.uvicorn.should_exit = True
        self.uvicorn.force_exit = kind is KeyboardInterrupt
        if self.thread.ident is None:
            self.socket.close()
        else:
            self.thread.join(self.end_seconds)


class _Uvicorn(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for opened in sockets or ():
            opened.listen(CLIENTS)  # so many wait, however few are accepted at once


def application(routes: Sequence[BaseRoute], names: Collection[str]) -> Starlette:
    """Return the application that serves routes to clients that ask by one of the ``names``."""
    return Starlette(
        routes=routes,
        middleware=[Middleware(_Guard, names=names)],
        exception_handlers={Exception: _defect},
    )


def _defect(request: Request, error: Exception) -> Response:
    traceback.print_exception(error)
    return JSONResponse({"error": "internal error of the server"}, 500)


class _Guard:
    """Refuses requests for another host, and those whose length can be read in two ways."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self.app = app
        self.names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, reason = Headers(scope=scope), ""
        if "transfer-encoding" in headers and (
            "content-length" in headers or scope["http_version"] == "1.0"
        ):
            reason = "expected Content-Length, or Transfer-Encoding of HTTP/1.1, not both"
        elif not may_ask(headers.get("host", ""), self.names):
            reason = "the name in Host is not allowed here; the option --allow-host NAME allows it"
        if reason:
            refusal = PlainTextResponse(reason + "\n", 400, {"Connection": "close"})
            await refusal(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class _Connection(H11Protocol):
    """A client connection, one of at most ``most``; it is aborted if the client takes too long."""

    def __init__(self, most: int, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.most = most

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to watch a client."""
        super().connection_made(cast(asyncio.Transport, transport))
        self.since, self.seen = self.loop.time(), self.cycle
        connections = (
            connection for connection in self.connections if isinstance(connection, _Connection)
        )
        alive = [connection for connection in connections if not connection.transport.is_closing()]
        if len(alive) > self.most:
            waited = (
                connection for connection in alive if connection.theirs
            )  # this one, if no other
            min(waited, key=lambda connection: connection.since).transport.abort()
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
