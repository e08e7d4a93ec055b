"""Compilation of kernels: cached on disk, with numpy's division and without reference counting.

Kernels take frames, arrays and numbers, allocate nothing and return numbers. So they need no reference
counting of arrays, which would make the same code about thirty times slower. An index below 0 is out of
bounds (``NUMBA_BOUNDSCHECK=1`` shows where one is used). A kernel called from Python is optimised as a whole
and cached. Kernels called by it are linked into it before optimisation, without machine code of their own.
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
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher

from onlinesrl.core.errors import UsageError
from onlinesrl.core.interrupt import whole
from onlinesrl.core.jit.cache import KernelCache, file_stamp, lasting
from onlinesrl.core.jit.frames import Column
from onlinesrl.core.jit.pipeline import KernelCompiler, PartCompiler

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS = {"nopython": True, "error_model": "numpy", "_nrt": False}


def _wide(kind: Any) -> Any:
    """Return the type for which an argument is compiled: literals and short integers become int64."""
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
    """A function that only kernels call; it has no machine code of its own."""

    def add_overload(self, cres: Any) -> None:
        """Store code compiled for kernels, which Python cannot call."""
        self.overloads[tuple(cres.signature.args)] = cres


class _Kernel(_Dispatcher):
    """A function that Python calls; kernels that call it link it."""

    part_of: Callable[[Any], _Part]
    called: set[tuple[int, ...]]

    def compile(self, sig: Any) -> Any:
        """Compile for argument types, or load from the cache; later calls with these types are quick.

        Numba looks for the very types of the arguments, and would ask here at each call. A compilation that
        Ctrl-C cuts short would leave half a kernel, which no later call can use.
        """
        with global_compiler_lock, whole():
            entry, codes = super().compile(sig), tuple([kind._code for kind in sig])
            if codes not in self.called and sig not in self.overloads:
                self.called.add(codes)
                self._insert([*codes], entry, False)  # type: ignore[attr-defined]
            return entry

    def enable_caching(self) -> None:
        """Cache compiled code in trusted files; see ``cache``."""
        self._cache = KernelCache(self.py_func, _sources)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the type of a call by another kernel."""
        return self.part_of(args).get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the code that another kernel links."""
        return self.part_of(sig).get_overload(sig)


@cache
def _sources() -> tuple[tuple[str, str | None], ...]:
    """Return the names and hashes of all kernel files, because a kernel may depend on any of them."""
    package = Path(__file__).parents[2]
    folders = "core/jit", "core/online", "core/online/update_rules", "*/kernels"
    files = sorted(file for folder in folders for file in package.glob(f"{folder}/*.py"))
    return tuple((str(file), file_stamp(file)) for file in files)


def kernel(function: F) -> F:
    """Compile a function of frames, arrays and numbers."""
    return _kernel(function, "", None)


def inlined(function: F) -> F:
    """Compile a short kernel of hot loops, which is inlined into each kernel that calls it."""
    return _kernel(function, "", None, inline=True)


def threaded(function: F) -> F:
    """Compile a kernel that releases Python's lock, so that other threads run in parallel."""
    return _kernel(function, "", None, nogil=True)


def plain(function: F) -> F:
    """Return the Python function of a kernel that calls no other kernel, without compiling it."""
    result: F = _dispatcher(function).py_func
    return result


def kernel_of(feature: str, otherwise: Any) -> Callable[[F], F]:
    """Compile a function for frames that have a feature.

    For frames without the feature it is never called. Their kernels link a function that returns
    ``otherwise`` instead, so that nothing is compiled without need.
    """
    return lambda function: _kernel(function, feature, otherwise)


def _kernel(function: F, feature: str, otherwise: Any, inline: bool = False, **options: Any) -> F:
    @cache
    def part(needed: bool) -> _Part:
        flags = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": inline}
        body = function if needed else _returning(otherwise, function)
        return _Part(body, {}, OPTIONS | flags, PartCompiler)

    compiled = _Kernel(function, {}, OPTIONS | options | {"no_cfunc_wrapper": True}, KernelCompiler)
    compiled.enable_caching()
    compiled.called = set()
    compiled.part_of = lambda kinds: part(
        not any(feature in getattr(kind, "without", ()) for kind in kinds)
    )
    result: Any = compiled
    return result


def ready(function: Callable[..., Any], *arguments: Any) -> None:
    """Compile a kernel for arguments of these types, or load it from the cache, without calling it."""
    _dispatcher(function).compile(tuple(map(numba.typeof, arguments)))


def address_of(function: Callable[..., Any], returns: Any, *arguments: Any) -> int:
    """Return the address of a kernel's code for arguments of these types; the kernel must live on.

    Raises UsageError where it cannot be compiled, or does not return what numba's type ``returns`` is.
    """
    dispatcher, kinds = _dispatcher(function), tuple(map(numba.typeof, arguments))
    name = f"{function.__module__}:{function.__qualname__}"
    try:
        dispatcher.compile(kinds)
    except NumbaError as error:
        raise UsageError(f"{name} cannot be compiled: {error}") from error
    code = dispatcher.overloads[tuple(map(_wide, kinds))]
    if code.signature.return_type != returns:
        raise UsageError(f"{name} returns {code.signature.return_type}, expected {returns}")
    address: int = code.library.get_pointer_to_function(code.fndesc.mangled_name)
    return address


def _dispatcher(function: Any) -> Any:
    """Return a kernel as what compiles it. Raises UsageError for a function that is none."""
    if not isinstance(function, _Kernel):
        raise UsageError(
            f"{function.__module__}:{function.__qualname__} is no kernel: write @kernel above it"
        )
    return function


def _returning(value: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that has the parameters of another one and returns ``value``."""

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
    """Call ``tell`` once if a function is compiled, not if it is loaded from the cache."""
    with event.install_listener("numba:compile", _Once(tell)):
        yield
