"""Waiting for what comes: for long, as other processes may keep the machine busy."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 300.0
"""Seconds; for what takes a few on a quiet machine."""


def until(done: Callable[[], T]) -> T:
    """Ask until the answer is yes, and return it."""
    limit = time.monotonic() + PATIENCE
    while not (found := done()):
        assert time.monotonic() < limit, f"not done within {PATIENCE} s"
        time.sleep(0.002)
    return found
