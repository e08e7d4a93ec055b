"""Waiting for what comes: for long, as other processes may keep the machine busy."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 300.0
"""Seconds; for what takes a few on a quiet machine."""


def until(done: Callable[[], T]) -> T:
    """Ask until the answer is yes, and return it; the longer it takes, the more seldom.

    Asking takes time, too, from what is waited for.
    """
    start = time.monotonic()
    while not (found := done()):
        waited = time.monotonic() - start
        assert waited < PATIENCE, f"not done within {PATIENCE} s"
        time.sleep(min(0.002 + waited / 20, 0.05))
    return found
