"""A port that the process listens on, and who may ask for it."""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from onlinesrl.core.errors import PortError

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
        where = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{where}:{port}"


def listening(at: At) -> socket.socket:
    """Return a socket that listens; port 0: at a free one. Raises PortError if it is not available."""
    opened = socket.socket(socket.AF_INET6 if ":" in at.host else socket.AF_INET)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
