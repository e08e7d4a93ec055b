"""Numba extensions: reading the fields of frames, plain indexes, and linking kernels into their callers.

Imported only for compiling, since it imports half of numba, which loading from the cache does not need.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from llvmlite.binding import Linkage
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import models
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.core.untyped_passes import InlineClosureLikes
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    register_model,
    unbox,
)
from numba.np import arrayobj
from numba.np.numpy_support import as_dtype

from onlinesrl.core.kernels.frames import FrameType, pick

WORD = ir.IntType(64)


# frames ------------------------------------------------------------------------------------------


@register_model(FrameType)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: FrameType):
        super().__init__(manager, kind, WORD.as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    key = FrameType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        return kind.place[name][1] if name in kind.place else None


@unbox(FrameType)
def _unbox(kind: FrameType, frame: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(frame, "_address")
    word = c.pyapi.long_as_longlong(address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.inttoptr(word, WORD.as_pointer()))


@lower_getattr_generic(FrameType)
def _read(context: Any, builder: Any, kind: FrameType, table: Any, name: str) -> Any:
    place, of = kind.place[name]

    def word(at: int) -> Any:
        loaded = builder.load(builder.gep(table, [WORD(at)]))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if isinstance(of, types.Array):
        return _array(context, builder, of, [word(place + d) for d in range(1 + of.ndim)])
    if isinstance(of, FrameType):
        return builder.inttoptr(word(place), WORD.as_pointer())
    if isinstance(of, types.Float):
        return builder.bitcast(word(place), ir.DoubleType())
    return builder.trunc(word(place), ir.IntType(1)) if of == types.boolean else word(place)


def _array(context: Any, builder: Any, kind: types.Array, words: list[Any]) -> Any:
    """Return numba's array structure for given data and lengths."""
    items = as_dtype(kind.dtype).itemsize
    data, *lengths = words
    strides, count = [WORD(items)], lengths[0]
    for length in lengths[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    for length in lengths[1:]:
        count = builder.mul(count, length)
    made = ir.Constant(context.get_value_type(kind), ir.Undefined)
    fields = made.type.elements
    null = [ir.Constant(fields[0], None), ir.Constant(fields[1], None)]
    values = [*null, count, WORD(items), builder.inttoptr(data, fields[4])]
    for place, value in enumerate(values):
        made = builder.insert_value(made, value, place)
    for d, (length, stride) in enumerate(zip(lengths, strides, strict=True)):
        made = builder.insert_value(made, length, [5, d])
        made = builder.insert_value(made, stride, [6, d])
    return made


def _index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """Return an index as a word; numba's would count negative ones from the end, which takes time."""
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


@infer_global(pick)
class _Pick(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(args[2], *args)


@lower_builtin(pick, types.Array, types.Integer, FrameType)
def _picked(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Read the address of a frame from an array of int64."""
    addresses, place, _ = args
    data = builder.extract_value(addresses, 4)  # of numba's array structure
    word = builder.load(builder.gep(data, [place]))
    return builder.inttoptr(word, WORD.as_pointer())


# parts of kernels --------------------------------------------------------------------------------


class _Part(JITCodeLibrary):
    """The code of a function for linking into kernels, without the functions that it calls."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

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
class _Lower(NativeLowering):
    """Lower to a ``_Part``, which is not optimised and gets no machine code by itself."""

    _name = "onlinesrl_part"

    def run_pass(self, state: Any) -> bool:
        part = state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        key = part.__format__  # numba uses it, for a builtin, as the function's name
        linked = list(dict.fromkeys([part, *part._linking_libraries]))
        state.targetctx.insert_user_function(key, lowered.fndesc, linked)
        state["cr"] = lowered._replace(cfunc=key)
        return True


class PartCompiler(CompilerBase):
    """Compiles functions that only kernels call."""

    lower: type = _Lower

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes without those for closures, array expressions and inlining."""
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.passes = [
            (self.lower if step is NativeLowering else step, what)
            for step, what in manager.passes
            if step not in (InlineClosureLikes, InlineOverloads, NopythonRewrites)
        ]
        manager.finalize()
        return [manager]


class KernelCompiler(PartCompiler):
    """Compiles functions called from Python, with their parts."""

    lower = NativeLowering

    def compile_extra(self, function: Any) -> Any:
        """Compile a function."""
        with _ours():
            return super().compile_extra(function)


_KNOWN: dict[tuple[Any, ...], Any] = {}


@contextmanager
def _ours() -> Iterator[None]:
    """Compile in our way: plain indexes; no garbage collection, and return types of builtins cached.

    A kernel is many similar functions, whose compilation makes millions of objects.
    """
    builtin: Any = types.functions.BaseFunction
    resolve, index = builtin.get_call_type, arrayobj.fix_integer_index

    def resolve_once(function: Any, context: Any, args: Any, named: Any) -> Any:
        flags = ConfigStack.top_or_none()
        how = flags.nrt, flags.error_model, frozenset(flags.fastmath.flags)
        asked = function, tuple(args), *dict(named).items(), how
        if asked not in _KNOWN:
            _KNOWN[asked] = resolve(function, context, args, named)
        return _KNOWN[asked]

    collecting = gc.isenabled()
    gc.disable()
    builtin.get_call_type, arrayobj.fix_integer_index = resolve_once, _index
    try:
        yield
    finally:
        builtin.get_call_type, arrayobj.fix_integer_index = resolve, index
        if collecting:
            gc.enable()
