"""How kernels are compiled: by what they need of numba, each with its parts as a whole.

A kernel has no closures, exceptions, generators or objects, and its arrays are not counted. So most of
numba's passes have nothing to do in it, and much of what the others ask is known beforehand. The functions
that it calls are linked into it before it is optimised, once.
Imported only for compiling; this file and those it imports are what leans on the inside of numba.
"""

from __future__ import annotations

import gc
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from llvmlite.binding import Linkage, create_pass_builder, create_pipeline_tuning_options
from numba import types
from numba.core import base, event, ir
from numba.core.analysis import compute_cfg_from_blocks, compute_use_defs
from numba.core.base import BaseContext
from numba.core.cgutils import if_unlikely
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.datamodel import models
from numba.core.errors import NumbaError
from numba.core.imputils import builtin_registry
from numba.core.interpreter import Interpreter
from numba.core.lowering import Lower
from numba.core.postproc import PostProcessor
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import (
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.typeinfer import ConstraintNetwork
from numba.core.typing import mathdecl, npydecl
from numba.core.typing.context import Context
from numba.core.typing.templates import _OverloadFunctionTemplate, _TemplateTargetHelperMixin
from numba.core.untyped_passes import (
    FixupArgs,
    GenericRewrites,
    ReconstructSSA,
    TranslateByteCode,
)
from numba.cpython import builtins, mathimpl, numbers, rangeobj, tupleobj  # noqa: F401
from numba.np import arrayobj, npyimpl

from onlinesrl.core.kernels import lowering, operations
from onlinesrl.core.kernels.frames import FrameType

# code --------------------------------------------------------------------------------------------


class _Kernel(JITCodeLibrary):
    """The code of a kernel and of its parts, optimised once, when it is whole."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        how = create_pipeline_tuning_options(speed_level=3)
        how.loop_vectorization = how.slp_vectorization = True
        how.loop_unrolling = how.loop_interleaving = False  # takes long, and makes no kernel faster
        builder = create_pass_builder(self._codegen._tm, how)
        builder.getModulePassManager().run(self._final_module, builder)


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
        state.flags.no_compile = state.flags.no_cfunc_wrapper = True
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
        own = operations.signature(context, function.typing_key, tuple(args))
        _KNOWN[asked] = own or _resolve(function, context, args, named)
    return _KNOWN[asked]


_type = Context.resolve_value_type
_getattr = Context.resolve_getattr
_overload = _OverloadFunctionTemplate.generic


@cache
def _type_of_function(context: Context, value: Any) -> Any:
    """Return the type of a function, class or module; numba would import what else it might be."""
    found = getattr(value, "_numba_type_", None) or context._get_global_type(value)
    return found or _type(context, value)


def _type_of_global(context: Context, value: Any) -> Any:
    """Return the type of a global or constant."""
    named = callable(value) or isinstance(value, ModuleType)
    return (_type_of_function if named else _type)(context, value)


def _type_of_field(context: Context, kind: Any, name: str) -> Any:
    """Return the type of an attribute."""
    if isinstance(kind, FrameType) and name in kind.place:
        return kind.place[name][1]
    if name == "__call__" and isinstance(kind, types.Function | types.Dispatcher):
        return None
    return _getattr(context, kind, name)


def _of_others(template: Any, args: Any, named: Any) -> Any:
    """Numba tries what it has in Python for strings and lists before what numbers and arrays need."""
    plain = types.Array | types.Number | types.Boolean
    tried = operator.getitem, operator.eq, operator.ne, bool
    if template.key in tried and isinstance(args[0], plain):
        return None
    return _overload(template, args, named)


def _propagate(network: ConstraintNetwork, infer: Any) -> list[Exception]:
    """Apply all constraints, without a catcher of warnings for each."""
    errors: list[Exception] = []
    for constraint in network.constraints:
        try:
            constraint(infer)
        except NumbaError as error:
            errors.append(error)
    return errors


def _find_values(lower: Any) -> None:
    """Find the variables that need no memory: one statement defines each, before all of its uses."""
    blocks = lower.func_ir.blocks
    defined: dict[str, int] = {}
    several: set[str] = set()
    for place, block in blocks.items():
        for statement in block.find_insts(ir.Assign):
            name = statement.target.name
            if name in defined:
                several.add(name)
            defined[name] = place
    above = compute_cfg_from_blocks(blocks).dominators()
    for place, used in compute_use_defs(blocks).usemap.items():
        for name in used:
            if not (defined[name] < place and defined[name] in above[place]):
                several.add(name)
    lower._singly_assigned_vars = defined.keys() - several
    lower._blk_local_varmap = {}


def _variable(lower: Any, name: str, kind: Any, datamodel: Any = None) -> Any:
    """Return memory for a variable; numba would set it to 0, and ask its size for a debugger."""
    return lowering.memory(lower.builder, kind, name)


def _declarations(context: Context) -> None:
    """Load the types of functions of arrays and numbers."""
    context.install_registry(mathdecl.registry)
    context.install_registry(npydecl.registry)


def _implementations(context: CPUContext) -> None:
    """Load the code of these functions; what numba loads besides takes as long as many kernels."""
    context.install_registry(mathimpl.registry)
    context.install_registry(npyimpl.registry)


def _nothing(*_: Any, **__: Any) -> None:
    """Numba tells how long its locks are held, and links what counts references."""


def _no_lifetimes(of: PostProcessor, *_: Any, **__: Any) -> None:
    """Numba asks for the lifetimes of variables after many passes; only counted ones need them."""
    of.func_ir.generator_info = None


OURS: tuple[tuple[Any, str, Any], ...] = (
    (types.functions.BaseFunction, "get_call_type", _resolve_once),
    (_OverloadFunctionTemplate, "generic", _of_others),
    (Context, "resolve_value_type", _type_of_global),
    (Context, "resolve_getattr", _type_of_field),
    (ConstraintNetwork, "propagate", _propagate),
    (BaseContext, "get_function", operations.function),
    (BaseContext, "pair_first", operations.first),
    (BaseContext, "pair_second", operations.second),
    (models.ArrayModel, "as_argument", lowering.as_argument),
    (models.ArrayModel, "from_argument", lowering.from_argument),
    (arrayobj, "fix_integer_index", lowering.plain_index),
    (Lower, "_find_singly_assigned_variable", _find_values),
    (Lower, "alloca_lltype", _variable),
    (base, "_has_loc", cache(base._has_loc)),
    (event, "start_event", _nothing),
    (event, "end_event", _nothing),
    (CPUContext, "post_lowering", _nothing),
    (Interpreter, "post_process", lambda interpreter, peepholes, found: found),
    (PostProcessor, "run", _no_lifetimes),
    (Compiler, "define_pipelines", _BuiltinCompiler.define_pipelines),
    (_TemplateTargetHelperMixin, "_get_target_registry", lambda template, reason: builtin_registry),
    (Context, "load_additional_registries", _declarations),
    (CPUContext, "load_additional_registries", _implementations),
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
