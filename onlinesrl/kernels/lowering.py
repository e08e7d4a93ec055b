"""How numba compiles what reads a frame, and what one kernel gives to another.

Imported where something is compiled: it takes half of numba with it, which loading from the cache does
not need.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import models
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    register_model,
    unbox,
)
from numba.np.arrayobj import populate_array

from onlinesrl.kernels.frames import FrameType

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
        value = context.make_array(of)(context, builder)
        shape = [word(place + 1 + d) for d in range(of.ndim)]
        strides = [WORD(context.get_abi_sizeof(context.get_data_type(of.dtype)))]
        for length in shape[:0:-1]:
            strides.insert(0, builder.mul(strides[0], length))
        data = builder.inttoptr(word(place), value.data.type)
        populate_array(value, data, shape, strides, strides[-1], meminfo=None)
        return value._getvalue()
    if isinstance(of, FrameType):
        return builder.inttoptr(word(place), WORD.as_pointer())
    if isinstance(of, types.Float):
        return builder.bitcast(word(place), ir.DoubleType())
    return builder.trunc(word(place), ir.IntType(1)) if of == types.boolean else word(place)


# parts of kernels --------------------------------------------------------------------------------


class _Part(JITCodeLibrary):
    """The code of a function as it is to be linked into kernels."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lower(NativeLowering):
    """Lower to a ``_Part``, which is neither optimised nor turned to machine code by itself."""

    _name = "onlinesrl_part"

    def run_pass(self, state: Any) -> bool:
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        key = state.library.__format__  # numba asks for a builtin, as a name for the function
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=key)
        return True


class PartCompiler(CompilerBase):
    """Compiles functions for other kernels only."""

    def define_pipelines(self) -> list[Any]:
        """Return the usual passes with ``_Lower`` in the place of the last but one."""
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.passes = [
            (_Lower if step is NativeLowering else step, what) for step, what in manager.passes
        ]
        manager.finalize()
        return [manager]
