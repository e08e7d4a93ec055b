"""Compilation of kernels: cached on disk, with numpy's division and without reference counting.

An index below 0 is out of bounds in them (``NUMBA_BOUNDSCHECK=1`` says where one is used).
Kernels take frames, arrays and numbers, allocate nothing and return numbers. Reference counting of
arrays is therefore switched off; it makes the same code about thirty times slower. A kernel called from
Python is optimised as a whole and cached. Kernels called by it are linked into it before optimisation,
and get no machine code of their own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numba
from numba import types
from numba.core import event
from numba.core.registry import CPUDispatcher

from onlinesrl.core.jit.cache import KernelCache, lasting
from onlinesrl.core.jit.frames import Column
from onlinesrl.core.jit.pipeline import KernelCompiler, PartCompiler

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS = {"nopython": True, "error_model": "numpy", "_nrt": False}


def _wide(kind: Any) -> Any:
    """Return the type that an argument is compiled for: literals and short integers become int64."""
    kind = types.unliteral(kind)
    if isinstance(kind, types.Integer) and kind is not types.uint64:
        return types.int64
    if isinstance(kind, types.Float):
        return types.float64
    if isinstance(kind, types.Array) and kind.layout == "C":
        return Column(kind.dtype, kind.ndim)
    return kind


class _Dispatcher(CPUDispatcher):
    """A function that is compiled once for all widths of its arguments."""

    def compile(self, sig: Any) -> Any:
        """Compile for argument types, or load from the cache."""
        return super().compile(tuple(map(_wide, sig)))


class _Part(_Dispatcher):
    """A function that only kernels call, of which there is no machine code to call."""

    def add_overload(self, cres: Any) -> None:
        """Keep what was compiled for kernels, without a place where Python looks for code."""
        self.overloads[tuple(cres.signature.args)] = cres


class _Kernel(_Dispatcher):
    """A function that Python calls, and that is linked into kernels that call it."""

    part_of: Callable[[Any], _Part]

    def enable_caching(self) -> None:
        """Cache what is compiled in files that are believed; see ``cache``."""
        self._cache = KernelCache(self.py_func, _sources)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the type of a call by another kernel."""
        return self.part_of(args).get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return what another kernel links."""
        return self.part_of(sig).get_overload(sig)


@cache
def _sources() -> tuple[tuple[str, int, int], ...]:
    """Return name, time and size of all kernel files; a cached kernel may depend on any of them."""
    package = Path(__file__).parents[2]
    folders = "core/jit", "core/online", "core/online/update_rules", "*/kernels"
    files = sorted(file for folder in folders for file in package.glob(f"{folder}/*.py"))
    return tuple((str(file), (at := file.stat()).st_mtime_ns, at.st_size) for file in files)


def kernel(function: F) -> F:
    """Compile a function of frames, arrays and numbers."""
    return _kernel(function, "", None)


def inlined(function: F) -> F:
    """Compile a kernel that becomes a part of each kernel that calls it: a few steps of a hot loop."""
    return _kernel(function, "", None, inside=True)


def threaded(function: F) -> F:
    """Compile a kernel that other threads may run beside: it does not hold Python's lock."""
    return _kernel(function, "", None, nogil=True)


def plain(function: F) -> F:
    """Return the Python function of a kernel that calls no other: nothing is compiled for it."""
    dispatcher: Any = function
    result: F = dispatcher.py_func
    return result


def kernel_of(feature: str, otherwise: Any) -> Callable[[F], F]:
    """Compile a function for frames that have a ``feature``.

    For frames without, for which it is never called, kernels get a function that returns
    ``otherwise``, so that nothing is compiled without need.
    """
    return lambda function: _kernel(function, feature, otherwise)


def _kernel(function: F, feature: str, otherwise: Any, inside: bool = False, **options: Any) -> F:
    @cache
    def part(needed: bool) -> _Part:
        flags = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": inside}
        source = function if needed else _returning(otherwise, function)
        return _Part(source, {}, OPTIONS | flags, PartCompiler)

    compiled = _Kernel(function, {}, OPTIONS | options | {"no_cfunc_wrapper": True}, KernelCompiler)
    compiled.enable_caching()
    compiled.part_of = lambda kinds: part(
        not any(feature in getattr(kind, "without", ()) for kind in kinds)
    )
    result: Any = compiled
    return result


def ready(function: Callable[..., Any], *arguments: Any) -> None:
    """Compile a kernel for arguments of these types, or load it from the cache, without calling it."""
    dispatcher: Any = function
    dispatcher.compile(tuple(map(numba.typeof, arguments)))


def _returning(value: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the parameters of another that returns a value."""

    def returning() -> Any:
        return VALUE  # type: ignore[name-defined]  # noqa: F821 - below

    model = function.__code__
    names, count = model.co_varnames[: model.co_argcount], model.co_argcount
    code = returning.__code__.replace(co_argcount=count, co_nlocals=count, co_varnames=names)
    return FunctionType(code, {"VALUE": value, "__name__": function.__module__}, function.__name__)


class _Once(event.Listener):
    """Reports the first compilation."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self.tell = tell
        self.told = False

    def on_start(self, event: Any) -> None:
        """Report, once, that a function is not in the cache and is compiled."""
        if not self.told:
            self.told = True
            once = ", once" if lasting() else ""
            self.tell(f"compiling the kernels{once}: up to half a minute ...")

    def on_end(self, event: Any) -> None:
        """Ignore the end of a compilation."""


@contextmanager
def told_of_compiling(tell: Callable[[str], object]) -> Iterator[None]:
    """Call ``tell``, once, when a function is compiled, not when it is loaded from the cache."""
    with event.install_listener("numba:compile", _Once(tell)):
        yield
