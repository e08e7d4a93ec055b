"""A port that the process listens on, and who may ask for it."""

from __future__ import annotations

import socket

from onlinesrl.core.errors import PortError

HERE = ("localhost", "127.0.0.1", "::1", "[::1]")


def listening(host: str, port: int, clients: int) -> socket.socket:
    """Return a socket that accepts ``clients`` waiting connections; port 0: a free one.

    Raises PortError if the port is not available.
    """
    opened = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(clients)
    except (OSError, OverflowError) as error:
        opened.close()
        raise PortError.of(f"--host {host} --port {port}", error) from error
    return opened


def address(host: str, opened: socket.socket) -> str:
    """Return the URL of a socket."""
    where = f"[{host}]" if ":" in host else host
    return f"http://{where}:{opened.getsockname()[1]}"


def hosts_of(host: str) -> list[str]:
    """Return the names by which browsers may ask; only those of this machine, against DNS rebinding."""
    return [*HERE, host] if host in HERE else ["*"]
