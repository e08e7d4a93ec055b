"""Numba extensions: fields of frames, and items of arrays, in few instructions.

Imported only for compiling, since it imports half of numba, which loading from the cache does not need.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import unpack_tuple
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
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

from onlinesrl.core.kernels.frames import FrameType

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


# items of arrays -----------------------------------------------------------------------------------

in_kernel = False
"""Whether a kernel is compiled, or something else of this process by numba."""


def plain_index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """Return an index as a word; numba's would count negative ones from the end, which takes time."""
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


def _place(context: Any, builder: Any, kind: Any, array: Any, of: Any, index: Any) -> Any:
    """Return where an item of an array without gaps is, given all its indexes; None for other arrays."""
    kinds = getattr(of, "types", (of,))
    plain = kind.layout == "C" and len(kinds) == kind.ndim and not context.enable_boundscheck
    if not (in_kernel and plain and all(isinstance(each, types.Integer) for each in kinds)):
        return None
    indexes = unpack_tuple(builder, index, len(kinds)) if of not in kinds else [index]
    place = None
    for d, (each, own) in enumerate(zip(kinds, indexes, strict=True)):
        at = plain_index(context, builder, each, own, None)
        before = place and builder.mul(place, builder.extract_value(array, [5, d]))
        place = builder.add(before, at) if before else at
    return builder.gep(builder.extract_value(array, 4), [place])


@lower_builtin(operator.getitem, types.Array, types.Integer)
@lower_builtin(operator.getitem, types.Array, types.BaseTuple)
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    (kind, of), (array, index) = sig.args, args
    if place := _place(context, builder, kind, array, of, index):
        return arrayobj.load_item(context, builder, kind, place)
    if isinstance(of, types.BaseTuple):
        return arrayobj.getitem_array_tuple(context, builder, sig, args)
    return arrayobj.getitem_arraynd_intp(context, builder, sig, args)


@lower_builtin(operator.setitem, types.Array, types.Integer, types.Any)
@lower_builtin(operator.setitem, types.Array, types.BaseTuple, types.Any)
def _set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    (kind, of, given), (array, index, value) = sig.args, args
    if place := _place(context, builder, kind, array, of, index):
        value = context.cast(builder, value, given, kind.dtype)
        return arrayobj.store_item(context, builder, kind, value, place)
    return arrayobj.setitem_array(context, builder, sig, args)
