"""How kernels are compiled: cached on disk, numpy's division, and no reference counting.

Kernels get arrays, allocate none and return numbers, so the counting that numba would do for every
array of every argument at every call is switched off; with it the same code is about thirty times
slower. ``inlined`` is for what runs once for each atom, row or table cell: a call passes every array
of every argument by value, which costs more than most of these functions do.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])


def _compile(function: F, forceinline: bool) -> F:
    njit: Any = numba.njit  # its stubs do not know _nrt
    compiled: F = njit(cache=True, error_model="numpy", _nrt=False, forceinline=forceinline)(
        function
    )
    return compiled


def kernel(function: F) -> F:
    """Compile a function of arrays."""
    return _compile(function, forceinline=False)


class _Once(event.Listener):
    """Tells of the first compilation."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.told = False

    def on_start(self, event: Any) -> None:
        """Numba has found nothing in its cache and begins to compile."""
        if not self.told:
            self.told = True
            self.tell("compiling the kernels, once: about a minute ...")

    def on_end(self, event: Any) -> None:
        """Numba has compiled a function."""


@contextmanager
def told_of_compiling(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell, once, when a function is compiled here: not when it is loaded from the cache."""
    with event.install_listener("numba:compile", _Once(tell)):
        yield


def inlined(function: F) -> F:
    """Compile a function of arrays into its callers."""
    return _compile(function, forceinline=True)
