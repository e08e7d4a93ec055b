"""What a search is doing, for whoever shows it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL_SECONDS = 0.05
"""Seconds between two calls of ``poll`` while waiting for another thread or process."""

left_behind: list[object] = []
"""Abandoned solvers that still run: the process must exit without waiting for them."""


class _Now:
    """Who shows what is being done, and what that is."""

    observer: Callable[[], object] = staticmethod(lambda: None)
    description: Callable[[], str] = staticmethod(lambda: "searching")


def poll() -> None:
    """Call the observer; searches do so now and then."""
    _Now.observer()


@contextmanager
def observed(observer: Callable[[], object]) -> Iterator[None]:
    """Have ``poll`` call a function."""
    before, _Now.observer = _Now.observer, staticmethod(observer)
    try:
        yield
    finally:
        _Now.observer = staticmethod(before)


@contextmanager
def doing(description: Callable[[], str]) -> Iterator[None]:
    """Have ``description`` return what a function says."""
    before, _Now.description = _Now.description, staticmethod(description)
    try:
        yield
    finally:
        _Now.description = staticmethod(before)


def description() -> str:
    """Return what is being done, in words."""
    return _Now.description()
