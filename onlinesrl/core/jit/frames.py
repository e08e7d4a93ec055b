"""Frames: records of arrays and numbers, passed to kernels by one address.

Numba passes an array as seven arguments, and a tuple of arrays as the arguments of all. A world would be a
thousand arguments per call, which LLVM tracks through every function. A frame is passed as the address of a
table of 64-bit words, and fields are read where they are used. An array is the words of its data and shape,
a number one word, a frame its address. LLVM knows that the table is constant (see ``_read``), so it moves
reads out of loops.
"""

from __future__ import annotations

import operator
import struct
from array import array
from collections.abc import Mapping
from ctypes import addressof, c_char
from dataclasses import dataclass, fields
from functools import cache, reduce
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform, get_args, get_type_hints

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
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
from numpy import ndarray

_NOTHING = c_char * 0


def _address(array: Any) -> int:
    """Return the address of an array's data; numpy's own way takes four times as long."""
    return (
        addressof(_NOTHING.from_buffer(array)) if array.flags.writeable else int(array.ctypes.data)
    )


class Column(types.Array):
    """The numba type of a contiguous array whose indexes are never negative.

    Numba would check every index for counting from the end.
    """

    def __init__(self, dtype: Any, ndim: int, readonly: bool = False):
        super().__init__(dtype, ndim, "C", readonly, f"column({dtype}, {ndim}d, {readonly})")

    def copy(
        self, dtype: Any = None, ndim: Any = None, layout: Any = None, readonly: Any = None
    ) -> Any:
        """Return the type of a part of the array; a row is a column, too."""
        other = super().copy(dtype, ndim, layout, readonly)
        return Column(other.dtype, other.ndim) if other.layout == "C" else other


class FrameType(types.Type):
    """The numba type of a frame; ``place`` gives the word and type of each field.

    ``without`` names the features that the frame does not have: see ``decorators.kernel_of``.
    """

    def __init__(
        self, name: str, members: tuple[tuple[str, Any], ...], without: tuple[str, ...] = ()
    ):
        self.place: dict[str, tuple[int, Any]] = {}
        at = 0
        for member, kind in members:
            self.place[member] = at, kind
            at += 1 + (kind.ndim if isinstance(kind, types.Array) else 0)
        inner = (kind.without for _, kind in members if isinstance(kind, FrameType))
        self.without: frozenset[str] = frozenset(without).union(*inner)
        digest = blake2b(f"{members}{without}".encode(), digest_size=8).hexdigest()
        super().__init__(f"{name}_{digest}")  # short, since it is part of the names of functions


@dataclass_transform(frozen_default=True)
class Frame:
    """A frozen dataclass of C-contiguous arrays, numbers and other frames.

    An array may be annotated with its lengths, which are sums of products of names and numbers:
    ``start: Annotated[Ints, "row + 1"]`` has one dimension, ``Annotated[Floats, "row, 2 * column"]`` two.
    Raises TypeError for a field that is something else.
    """

    if TYPE_CHECKING:
        _table: ClassVar[array[int]]  # of instances, like the next two; no fields
        _address: ClassVar[int]
        _numba_type_: ClassVar[FrameType]
    _names: ClassVar[tuple[str, ...]]
    _types: ClassVar[dict[tuple[Any, ...], FrameType]]

    def __init_subclass__(cls) -> None:
        dataclass(init=False, frozen=True, eq=False)(cls)
        cls._names = tuple(field.name for field in fields(cls))  # type: ignore[arg-type]
        cls._types = {}

    def __init__(self, *values: Any, **named: Any) -> None:
        names = self._names
        if named:
            values += tuple([named.pop(name) for name in names[len(values) :] if name in named])
        if named or len(values) != len(names):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(names)}")
        kinds: list[Any] = []  # what the type of the frame depends on
        words: list[int] = []
        for name, value in zip(names, values, strict=True):
            if isinstance(value, ndarray) and value.flags.c_contiguous:
                kinds.append(value.dtype)
                kinds.append(value.ndim)
                words.append(_address(value))
                words += value.shape
            elif isinstance(value, Frame):
                kinds.append(id(value._numba_type_))
                words.append(value._address)
            else:
                kinds.append(type(value))
                words.append(self._word(name, value))
        state = self.__dict__
        state.update(zip(names, values, strict=True))
        without = self._without(state)
        kinds += without
        frame_type = self._types.get(tuple(kinds)) or self._learn(tuple(kinds), without)
        table = array("q", words)
        state.update(_table=table, _address=table.buffer_info()[0], _numba_type_=frame_type)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        """Return how to make a copy, whose table is its own."""
        return type(self), tuple([self.__dict__[name] for name in self._names])

    @classmethod
    def zeros(cls, fields: Mapping[str, Any] = {}, **sizes: int) -> Self:
        """Return a frame of these fields, all others of which are arrays of zeros.

        ``sizes`` has the number of each name in the lengths of these.
        """
        lengths, arrays = _annotated(cls)  # type: ignore[arg-type]  # a class can be hashed
        at = {text: _length(text, sizes) for text in lengths}.__getitem__
        values = dict(fields)
        for name, shape, kind in arrays:
            if name not in fields:
                values[name] = np.zeros(tuple(map(at, shape)), kind)
        return cls(*map(values.__getitem__, cls._names))

    @classmethod
    def _without(cls, values: dict[str, Any]) -> tuple[str, ...]:
        """Return the features that a frame lacks; their functions are not compiled."""
        return ()

    def _word(self, name: str, value: Any) -> int:
        """Return the word of a field that is a number."""
        if isinstance(value, int | np.integer | np.bool_):
            return int(value)
        if isinstance(value, float):
            return int(struct.unpack("q", struct.pack("d", value))[0])
        raise TypeError(f"{type(self).__name__}.{name}: no contiguous array or number")

    def _learn(self, kinds: tuple[Any, ...], without: tuple[str, ...]) -> FrameType:
        """Create the type of frames whose fields have the kinds of this frame's fields."""
        members = tuple((name, _type_of(getattr(self, name))) for name in self._names)
        kind = self._types[kinds] = FrameType(type(self).__name__, members, without)
        return kind


@cache
def _annotated(cls: Any) -> tuple[set[str], list[tuple[str, list[str], Any]]]:
    """Return the lengths in the annotations of a frame; and name, lengths and type of its arrays."""
    arrays = []
    for name, hint in get_type_hints(cls, include_extras=True).items():
        for shape in getattr(hint, "__metadata__", ()):
            (kind,) = get_args(get_args(hint.__origin__)[1])
            arrays.append((name, shape.split(", "), np.dtype(kind)))
    return {text for _, shape, _ in arrays for text in shape}, arrays


def _length(text: str, sizes: Mapping[str, int]) -> int:
    """Return a length: a sum of products of names and numbers."""
    products = (product.split(" * ") for product in text.split(" + "))
    return sum(prod(sizes[x] if x in sizes else int(x) for x in product) for product in products)


def _type_of(value: Any) -> Any:
    """Return the numba type of a field."""
    if isinstance(value, ndarray):
        return Column(from_dtype(value.dtype), value.ndim)
    if isinstance(value, Frame):
        return value._numba_type_
    if isinstance(value, bool | np.bool_):
        return types.boolean
    return types.float64 if isinstance(value, float) else types.int64


# what frames become in LLVM's language -------------------------------------------------------------

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
    place, field_type = kind.place[name]

    def word(at: int) -> Any:
        loaded = builder.load(builder.gep(table, [WORD(at)]))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    first = word(place)
    if isinstance(field_type, types.Array):
        shape = [word(place + 1 + d) for d in range(field_type.ndim)]
        return _array(context, builder, field_type, first, shape)
    if isinstance(field_type, FrameType):
        return builder.inttoptr(first, WORD.as_pointer())
    if isinstance(field_type, types.Float):
        return builder.bitcast(first, ir.DoubleType())
    return builder.trunc(first, ir.IntType(1)) if field_type == types.boolean else first


def _array(context: Any, builder: Any, kind: Any, address: Any, shape: list[Any]) -> Any:
    """Return a contiguous array with this data address and shape."""
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
        """Emit numba's code for an array and unsigned indexes."""
        column, index, *rest = sig.args
        array = types.Array(column.dtype, column.ndim, "C")
        cast = _unsigned(index)
        implementation = context.get_function(operation, sig.replace(args=(array, cast, *rest)))
        position = context.cast(builder, args[1], index, cast)
        return implementation(builder, (args[0], position, *args[2:]))

    return emit


for index in (types.Integer, types.BaseTuple):
    lower_builtin(operator.getitem, Column, index)(_at_unsigned(operator.getitem))
    lower_builtin(operator.setitem, Column, index, types.Any)(_at_unsigned(operator.setitem))
