"""How kernels are compiled: by what they need of numba, each with its parts as a whole.

A kernel has no closures, exceptions, generators or objects, and its arrays are not counted. So most of
numba's passes have nothing to do in it. The functions that it calls are linked into it before it is
optimised, once.
Imported only for compiling; this file is what leans on the inside of numba.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite.binding import Linkage
from numba import types
from numba.core.cgutils import if_unlikely
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.imputils import builtin_registry
from numba.core.postproc import PostProcessor
from numba.core.runtime.nrt import rtsys
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import (
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.typing import mathdecl, npydecl
from numba.core.typing.context import Context
from numba.core.typing.templates import _TemplateTargetHelperMixin
from numba.core.untyped_passes import (
    FixupArgs,
    GenericRewrites,
    ReconstructSSA,
    TranslateByteCode,
)
from numba.cpython import builtins, mathimpl, numbers, rangeobj, tupleobj  # noqa: F401
from numba.np import arrayobj, npyimpl

from onlinesrl.core.kernels import lowering

# code --------------------------------------------------------------------------------------------


class _Kernel(JITCodeLibrary):
    """The code of a kernel and of its parts, optimised once, when it is whole."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _Part(_Kernel):
    """The code of a function for linking into kernels, without the functions that it calls."""

    def finalize(self) -> None:
        for function in self.get_defined_functions():
            if function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        self._ensure_finalized()
        return self._final_module


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerKernel(NativeLowering):
    """Lower to a ``_Kernel``."""

    _name = "onlinesrl_kernel"

    def run_pass(self, state: Any) -> bool:
        state.library = _Kernel(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPart(NativeLowering):
    """Lower to a ``_Part``, which is not optimised and gets no machine code by itself."""

    _name = "onlinesrl_part"

    def run_pass(self, state: Any) -> bool:
        part = state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        key = part.__format__  # numba uses it, for a builtin, as the function's name
        call = _call(lowered.fndesc, list(dict.fromkeys([part, *part._linking_libraries])))
        state.targetctx._defns[key].append(call, call.signature)
        state["cr"] = lowered._replace(cfunc=key)
        return True


def _call(part: Any, linked: list[Any]) -> Any:
    """Return how a part is called: without a look at its status, since only indexes that are checked fail."""

    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        of, convention = context.declare_function(builder.module, part), context.call_conv
        status, value = convention.call_function(builder, of, part.restype, part.argtypes, args)
        if context.enable_boundscheck:
            with if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
        return value

    made: Any = call
    made.signature, made.libs = part.argtypes, tuple(linked)
    return made


# passes ------------------------------------------------------------------------------------------


class _Passes:
    """What of numba's passes kernels need, one after the other."""

    pipeline_name = "onlinesrl"

    def __init__(self, lower: type, *more: type) -> None:
        self.exec_times: dict[str, Any] = {}
        self.steps = (
            TranslateByteCode,
            FixupArgs,
            *more,
            ReconstructSSA,
            NopythonTypeInference,
            PreLowerStripPhis,
            lower,
            NoPythonBackend,
        )

    def run(self, state: Any) -> None:
        """Compile a function."""
        for step in self.steps:
            step().run_pass(state)


class PartCompiler(CompilerBase):
    """Compiles functions that only kernels call."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        return [_Passes(_LowerPart)]


class _BuiltinCompiler(CompilerBase):
    """Compiles what numba has written in Python, with exceptions."""

    def define_pipelines(self) -> list[Any]:
        return [_Passes(_LowerPart, GenericRewrites)]


class KernelCompiler(CompilerBase):
    """Compiles functions called from Python, with their parts."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        return [_Passes(_LowerKernel)]


# numba in our way --------------------------------------------------------------------------------

_KNOWN: dict[tuple[Any, ...], Any] = {}
_resolve = types.functions.BaseFunction.get_call_type


def _resolve_once(function: Any, context: Any, args: Any, named: Any) -> Any:
    """Return the type of a call, as numba does, which looks it up each time."""
    flags = ConfigStack.top_or_none()
    how = flags.nrt, flags.error_model, frozenset(flags.fastmath.flags)
    asked = function, tuple(args), *dict(named).items(), how
    if asked not in _KNOWN:
        _KNOWN[asked] = _resolve(function, context, args, named)
    return _KNOWN[asked]


def _declarations(context: Context) -> None:
    """Load the types of functions of arrays and numbers."""
    context.install_registry(mathdecl.registry)
    context.install_registry(npydecl.registry)


def _implementations(context: CPUContext) -> None:
    """Load the code of these functions; what numba loads besides takes as long as many kernels."""
    rtsys.initialize(context)
    context.install_registry(mathimpl.registry)
    context.install_registry(npyimpl.registry)


def _no_lifetimes(of: PostProcessor, *_: Any, **__: Any) -> None:
    """Numba asks for the lifetimes of variables after many passes; only counted ones need them."""
    of.func_ir.generator_info = None


OURS: tuple[tuple[Any, str, Any], ...] = (
    (types.functions.BaseFunction, "get_call_type", _resolve_once),
    (arrayobj, "fix_integer_index", lowering.plain_index),
    (PostProcessor, "run", _no_lifetimes),
    (Compiler, "define_pipelines", _BuiltinCompiler.define_pipelines),
    (_TemplateTargetHelperMixin, "_get_target_registry", lambda template, reason: builtin_registry),
    (Context, "load_additional_registries", _declarations),
    (CPUContext, "load_additional_registries", _implementations),
    (lowering, "in_kernel", True),
)
"""What numba does otherwise while it compiles a kernel."""


@contextmanager
def in_our_way() -> Iterator[None]:
    """Compile a kernel; a garbage collection among its millions of objects would find nothing."""
    numbas = [getattr(of, name) for of, name, _ in OURS]
    collecting = gc.isenabled()
    gc.disable()
    for of, name, ours in OURS:
        setattr(of, name, ours)
    try:
        yield
    finally:
        for (of, name, _), its in zip(OURS, numbas, strict=True):
            setattr(of, name, its)
        if collecting:
            gc.enable()
