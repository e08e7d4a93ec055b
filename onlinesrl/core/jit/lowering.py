"""What frames become in LLVM's language, through numba's interface for extensions.

A frame is the address of its table of words, which is constant: LLVM is told so, and moves reads of fields
out of loops.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import (
    NativeValue,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    unbox,
)

from onlinesrl.core.jit.frames import Column, FrameType

WORD = ir.IntType(64)


@infer_getattr
class _Fields(AttributeTemplate):
    """The types of a frame's fields."""

    key = FrameType

    def generic_resolve(self, frame: FrameType, name: str) -> Any:  # type: ignore[override]
        return frame.place[name][1] if name in frame.place else None


@register_model(FrameType)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: FrameType):
        super().__init__(manager, kind, WORD.as_pointer())


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
        return _array(
            context, builder, of, word(place), [word(place + 1 + d) for d in range(of.ndim)]
        )
    if isinstance(of, FrameType):
        return builder.inttoptr(word(place), WORD.as_pointer())
    if isinstance(of, types.Float):
        return builder.bitcast(word(place), ir.DoubleType())
    return builder.trunc(word(place), ir.IntType(1)) if of == types.boolean else word(place)


def _array(context: Any, builder: Any, kind: Any, address: Any, shape: list[Any]) -> Any:
    """Return a contiguous array of a data address and a shape."""
    array = context.make_array(kind)(context, builder)
    size = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))
    )
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    array.data = builder.inttoptr(address, array.data.type)
    array.nitems = reduce(builder.mul, shape)
    array.itemsize = size
    array.shape = cgutils.pack_array(builder, shape)
    array.strides = cgutils.pack_array(builder, strides)
    return array._getvalue()


# columns -----------------------------------------------------------------------------------------

register_model(Column)(models.ArrayModel)


def _unsigned(index: Any) -> Any:
    """Return the type that an index is cast to, so that it does not count from the end."""
    if isinstance(index, types.BaseTuple):
        parts: Any = index
        return types.Tuple(tuple(map(_unsigned, parts.types)))
    return types.uint64 if isinstance(index, types.Integer) else index


def _at_unsigned(operation: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        """Do what numba does for an array and unsigned indexes."""
        column, index, *rest = sig.args
        array = types.Array(column.dtype, column.ndim, "C")
        cast = _unsigned(index)
        plain = sig.replace(args=(array, cast, *rest))
        done = context.get_function(operation, plain)
        return done(builder, (args[0], context.cast(builder, args[1], index, cast), *args[2:]))

    return emit


for index in (types.Integer, types.BaseTuple):
    lower_builtin(operator.getitem, Column, index)(_at_unsigned(operator.getitem))
    lower_builtin(operator.setitem, Column, index, types.Any)(_at_unsigned(operator.setitem))
