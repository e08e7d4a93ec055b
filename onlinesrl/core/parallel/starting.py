"""The start of threads and processes, which the system may refuse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onlinesrl.core.errors import UnavailableError

REFUSED = "can't start new thread"
"""What Python says of a thread, in a RuntimeError."""


@contextmanager
def starting() -> Iterator[None]:
    """Start a thread or a process in this context. Raises UnavailableError if the system refuses."""
    try:
        yield
    except (RuntimeError, BlockingIOError) as error:
        if isinstance(error, RuntimeError) and str(error) != REFUSED:
            raise
        raise UnavailableError(
            "the system lets no more threads or processes start: the user's limit (ulimit -u) or the "
            "container's is reached; raise it, or use fewer threads and workers"
        ) from error
