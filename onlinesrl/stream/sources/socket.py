"""A source that is a program which sends lines: a run connects to it, and notes what it receives.

A run is the client, and has one connection at a time, so that what is received has one order; several
programs that send have `onlinesrl serve`. What has been received is in a journal, `received.jsonl` in the
run folder, before it is learned from.
"""

from __future__ import annotations

import math
import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator

from onlinesrl.core.errors import UnavailableError, UsageError
from onlinesrl.core.values import Name
from onlinesrl.stream.protocols import Setting, Source
from onlinesrl.stream.sources.common import SourceSection

if TYPE_CHECKING:
    from concurrent.futures import Future

    from onlinesrl.stream.folder import OutputFile

RECEIVED = "received.jsonl"
"""In the run folder: what was received; it is what the run reads, and stays."""
RECEIVE_BYTES = 1 << 18
CONNECT_SECONDS = 10.0
PAUSE_SECONDS = 0.5
"""How long after a connection, or an attempt at one, comes the next."""
WAIT_SECONDS = 0.1
_LONGEST_PATH = 107


def place_of(address: str) -> tuple[str, int] | str:
    """Return the host and port, or the path, of an address. Raises ValueError."""
    scheme, _, rest = address.partition(":")
    if scheme == "unix" and rest and "\0" not in rest:
        path = rest.removeprefix("//")
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise ValueError(f"expected a path of at most {_LONGEST_PATH} bytes")
        return path
    with suppress(ValueError):  # of a port that is none, and of a name that can be none
        parts = urlsplit(address)
        plain = address == f"tcp://{parts.netloc}" and "@" not in address
        if plain and parts.hostname and parts.port:
            parts.hostname.encode("idna")
            return parts.hostname, parts.port
    raise ValueError("expected tcp://host:port or unix:/path")


def _valid(address: str) -> str:
    place_of(address)
    return address


class SocketSection(SourceSection):
    """What a program sends, an example a line, to who connects to it."""

    replaceable: ClassVar[frozenset[str]] = SourceSection.replaceable | {"address"}

    kind: Literal["socket"] = "socket"
    address: Annotated[Name, AfterValidator(_valid)]
    """where the program that sends listens: tcp://host:port or unix:/path."""

    def make(self, setting: Setting) -> Source:
        """Return the journal of what is received. Raises UsageError where there is no run to keep it."""
        from onlinesrl.stream.received import Received

        if setting.folder is None:
            raise UsageError(
                f"{self.address}: only `run` reads a socket, which nobody can read again; choose a "
                "configuration with another source, or check it with --examples 0"
            )
        connection = Connection(
            self.address, self.max_bytes, self.patience_seconds, setting.until == "end", setting.say
        )
        return Received(connection, setting.folder.path / RECEIVED, self.address, setting)


class Connection:
    """The connection to a program that sends lines, which is made again where it is lost.

    The end of what is sent ends it, with ``to_end``, for good. Raises UnavailableError where nobody is
    to be reached for more than ``patience`` seconds. Of a line longer than ``max_bytes`` it keeps the
    beginning, one byte too many.
    """

    def __init__(
        self,
        address: str,
        max_bytes: int,
        patience: float,
        to_end: bool,
        say: Callable[[str], None],
    ) -> None:
        self.address = address
        self.max_bytes = max_bytes
        self.patience = patience
        self.to_end = to_end
        self.say = say
        self.ended = False
        self.socket: socket.socket | None = None
        self._coming: Future[socket.socket] | None = None
        self._part = bytearray()
        self._away: float | None = None
        self._lost = -math.inf
        self._said = False

    def take(self, journal: OutputFile, line: int) -> None:
        """Wait, not for long, for what is sent, and write the lines that are whole to the journal."""
        if self.socket is None:
            self._connect()
            return
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if not poll.poll(1000 * WAIT_SECONDS):
            return
        try:
            data = self.socket.recv(RECEIVE_BYTES)
            self.ended = self.to_end and not data
        except BlockingIOError:
            return
        except OSError:  # reset, or nobody there any more: not the end of what is sent
            data = b""
        lines = self._lines(data) if data else self._hang_up()
        if lines:
            journal.write(lines)
            journal.flush()

    def _lines(self, data: bytes) -> bytes:
        """Return the lines that end in what was received; the rest begins the next."""
        *whole, rest = data.split(b"\n")
        lines = bytearray()
        for piece in whole:
            lines += (self._part + piece)[: self.max_bytes + 1] + b"\n"
            self._part.clear()
        self._part += rest[: self.max_bytes + 1 - len(self._part)]
        return bytes(lines)

    def _hang_up(self) -> bytes:
        """Leave the connection; what there is of a line is one: an example, or bad."""
        self._disconnect()
        self._lost = time.monotonic()
        return self._lines(b"\n") if self._part else b""

    def _connect(self) -> None:
        """Go on connecting, not for long."""
        from concurrent.futures import wait

        from onlinesrl.stream.aside import aside

        now = time.monotonic()
        self._away = now if self._away is None else self._away
        if self._coming is None:
            if now - self._lost < PAUSE_SECONDS:
                time.sleep(WAIT_SECONDS)
                return
            self._coming = aside(lambda: _connected(self.address))
        if not wait([self._coming], WAIT_SECONDS).done:
            return
        coming, self._coming = self._coming, None
        try:
            self.socket = coming.result()
        except OSError as error:
            self._lost = time.monotonic()
            self._wait_for(error.strerror or str(error), self._lost - self._away)
            return
        self._away = None
        if self._said:
            self.say(f"{self.address}: connected")
            self._said = False

    def _wait_for(self, reason: str, seconds: float) -> None:
        """Say once that nobody is to be reached; after too many seconds raise it."""
        if seconds >= self.patience:
            raise UnavailableError(
                f"{self.address}: cannot be reached for {seconds:.0f} s (source.patience): {reason}; "
                "start the program that sends, or set source.address to where it listens"
            )
        if not self._said:
            left = self.patience - seconds
            self.say(
                f"{self.address}: cannot be reached: {reason}; waiting for it, {left:.0f} s at most"
            )
            self._said = True

    def _disconnect(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def close(self) -> None:
        """Leave the connection, and one that may still come."""
        self._disconnect()
        if self._coming is not None:
            self._coming.add_done_callback(_leave)


def _connected(address: str) -> socket.socket:
    """Connect. Raises OSError."""
    place = place_of(address)
    if isinstance(place, str):
        found = socket.socket(socket.AF_UNIX)
        try:
            found.settimeout(CONNECT_SECONDS)
            found.connect(place)
        except OSError:
            found.close()
            raise
    else:
        found = socket.create_connection(place, CONNECT_SECONDS)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    found.setblocking(False)
    return found


def _leave(late: Future[socket.socket]) -> None:
    if late.exception() is None:
        late.result().close()
