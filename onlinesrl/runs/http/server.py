"""A server of HTTP on a thread of its own, and who may ask.

Runs that are served, metrics and the dashboard have it in common.
"""

from __future__ import annotations

import re
import socket
import time
import traceback
from collections.abc import Collection, Sequence
from ipaddress import ip_address
from threading import Thread
from typing import NamedTuple, Self

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from onlinesrl.core.errors import PortError
from onlinesrl.core.operating_system import limit_unreceived
from onlinesrl.core.parallel.starting import starting
from onlinesrl.runs.console import warn

CLIENTS = 256
"""The most connections; requests over more of them are refused with 503."""
CLIENT_SECONDS = 30.0
"""How long a client may take to receive what was sent to it."""
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
        opened.listen(CLIENTS)  # without it two processes could have the port
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


class Server:
    """Serves routes at a port, from ``start`` on, to clients that ask by a name of ``at``; a context manager.

    At the end clients have ``end_seconds`` to receive their last answers. Raises PortError if the port
    is not available.
    """

    def __init__(self, at: At, end_seconds: int = 0) -> None:
        self.at = at
        self.socket = listening(at)
        self.port: int = self.socket.getsockname()[1]
        self.address = at.address(self.port)
        if not ip_address(self.socket.getsockname()[0]).is_loopback:
            warn(
                f"{self.address}: open to other machines, without a password and without encryption"
            )
        self.end_seconds = end_seconds
        self.uvicorn: uvicorn.Server | None = None
        self.thread: Thread | None = None

    @property
    def unsent(self) -> int:
        """How many bytes of answers clients have not received yet."""
        connections = self.uvicorn.server_state.connections if self.uvicorn else ()
        transports = (connection.transport for connection in connections)
        return sum(connection.get_write_buffer_size() for connection in transports)

    def start(self, routes: Sequence[BaseRoute]) -> None:
        """Start to serve."""
        self.uvicorn = uvicorn.Server(
            uvicorn.Config(
                application(routes, self.at.names),
                http="h11",
                limit_concurrency=CLIENTS,
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=self.end_seconds,
            )
        )
        self.thread = Thread(target=self.uvicorn.run, args=[[self.socket]], daemon=True)
        with starting():
            self.thread.start()

    def wait(self) -> None:
        """Wait until the server ends, which a signal may interrupt at any time.

        ``Thread.join`` takes an interrupted thread for an ended one, before Python 3.13.
        """
        while self.thread is not None and self.thread.is_alive():
            time.sleep(WAIT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop serving, after the finished answers are sent."""
        if self.uvicorn is None or self.thread is None or self.thread.ident is None:
            self.socket.close()
            return
        self.uvicorn.should_exit = True
        self.uvicorn.force_exit = kind is KeyboardInterrupt
        self.thread.join(END_SECONDS + self.end_seconds)


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
    """Refuses requests for another host; ``TrustedHostMiddleware`` cannot allow every IP address."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self.app = app
        self.names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if may_ask(Headers(scope=scope).get("host", ""), self.names):
            await self.app(scope, receive, send)
            return
        reason = "the name in Host is not allowed here; the option --allow-host NAME allows it\n"
        await PlainTextResponse(reason, 400, {"Connection": "close"})(scope, receive, send)
