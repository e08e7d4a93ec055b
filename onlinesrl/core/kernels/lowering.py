"""How frames, and arrays without gaps, become LLVM's language: in few instructions.

What numba makes of arrays is correct for more than kernels have (gaps, negative indexes, reference counts).
Imported only for compiling.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import unpack_tuple
from numba.core.datamodel import models
from numba.extending import NativeValue, lower_getattr_generic, register_model, unbox
from numba.np import arrayobj
from numba.np.numpy_support import as_dtype

from onlinesrl.core.kernels.frames import FrameType

WORD = ir.IntType(64)


def unknown(kind: ir.Type) -> ir.Constant:
    """Return a value of which nothing is known."""
    return ir.Constant(kind, ir.Undefined)


def memory(builder: Any, kind: ir.Type, name: str = "") -> Any:
    """Return memory of the function at hand for a value, which is to be written before it is read."""
    with builder.goto_entry_block():
        return builder.alloca(kind, name=name)


# frames ------------------------------------------------------------------------------------------


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
        whole = context.get_value_type(of)
        data = builder.inttoptr(word(place), whole.elements[4])
        return _Array(builder, of, whole, data, [word(place + 1 + d) for d in range(of.ndim)])
    if isinstance(of, FrameType):
        return builder.inttoptr(word(place), WORD.as_pointer())
    if isinstance(of, types.Float):
        return builder.bitcast(word(place), ir.DoubleType())
    return builder.trunc(word(place), ir.IntType(1)) if of == types.boolean else word(place)


# arrays ------------------------------------------------------------------------------------------


class _Array(ir.Instruction):  # type: ignore[misc]
    """Numba's structure of an array; written only where its type was asked for, to use it as a whole."""

    def __init__(self, builder: Any, kind: types.Array, whole: Any, data: Any, lengths: list[Any]):
        super().__init__(builder.block, whole, "insertvalue", ())
        self.data, self.lengths, self._items = data, lengths, as_dtype(kind.dtype).itemsize
        self._used = False
        builder._insert(self)

    @property
    def type(self) -> Any:
        """LLVM's type."""
        self._used = True
        return self._whole

    @type.setter
    def type(self, whole: Any) -> None:
        self._whole = whole

    def __str__(self) -> str:
        if not self._used:
            return ""
        words = [length.get_reference() for length in self.lengths]
        lines: list[str] = []

        def product(word: str, other: str) -> str:
            lines.append(f'%"{self.name}.{len(lines)}" = mul i64 {word}, {other}')
            return f'%"{self.name}.{len(lines) - 1}"'

        strides = [str(self._items)]
        for word in words[:0:-1]:
            strides.insert(0, product(strides[0], word))
        parts = [
            f"i64 {reduce(product, words)}, 2",
            f"i64 {self._items}, 3",
            f"{self.data.type} {self.data.get_reference()}, 4",
            *(f"i64 {word}, 5, {d}" for d, word in enumerate(words)),
            *(f"i64 {stride}, 6, {d}" for d, stride in enumerate(strides)),
        ]
        made = "zeroinitializer"
        for part in parts:
            name = self.get_reference() if part is parts[-1] else f'%"{self.name}.{len(lines)}"'
            lines.append(f"{name} = insertvalue {self._whole} {made}, {part}")
            made = name
        return "\n  ".join(lines)


def _known(builder: Any, kind: types.Array, value: Any) -> tuple[Any, list[Any]]:
    """Return data and lengths of an array."""
    if isinstance(value, _Array):
        return value.data, value.lengths
    lengths = [builder.extract_value(value, [5, d]) for d in range(kind.ndim)]
    return builder.extract_value(value, 4), lengths


_taken_apart, _put_together = models.ArrayModel.as_argument, models.ArrayModel.from_argument


def as_argument(model: models.ArrayModel, builder: Any, value: Any) -> Any:
    """Take an array apart for a call; of one without gaps only data and lengths are passed."""
    if model._fe_type.layout != "C":
        return _taken_apart(model, builder, value)
    data, lengths = _known(builder, model._fe_type, value)
    rest = [unknown(kind) for kind in model.get_value_type().elements[:4]]
    return (*rest, data, tuple(lengths), tuple(unknown(WORD) for _ in lengths))


def from_argument(model: models.ArrayModel, builder: Any, value: Any) -> Any:
    """Put an array together that was passed."""
    if model._fe_type.layout != "C":
        return _put_together(model, builder, value)
    return _Array(builder, model._fe_type, model.get_value_type(), value[4], [*value[5]])


def plain_index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """Return an index as a word; numba's would count negative ones from the end, which takes time."""
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


def is_array(context: Any, sig: Any) -> bool:
    """Tell whether the first argument is an array without gaps."""
    return isinstance(sig.args[0], types.Array) and sig.args[0].layout == "C"


def is_item(context: Any, sig: Any) -> bool:
    """Tell whether all indexes of an array without gaps are given."""
    if not is_array(context, sig) or context.enable_boundscheck:
        return False
    kind, of = sig.args[:2]
    kinds = getattr(of, "types", (of,))
    return len(kinds) == kind.ndim and all(isinstance(each, types.Integer) for each in kinds)


def length(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return ``len(array)``."""
    return _known(builder, sig.args[0], args[0])[1][0]


def item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return ``array[index]``."""
    return arrayobj.load_item(context, builder, sig.args[0], _place(context, builder, sig, args))


def set_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Set ``array[index]``."""
    place = _place(context, builder, sig, args)
    value = context.cast(builder, args[2], sig.args[2], sig.args[0].dtype)
    return arrayobj.store_item(context, builder, sig.args[0], value, place)


def _place(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return where an item is."""
    kind, of = sig.args[:2]
    kinds, indexes = getattr(of, "types", (of,)), [args[1]]
    if isinstance(of, types.BaseTuple):
        indexes = unpack_tuple(builder, args[1], kind.ndim)
    data, lengths = _known(builder, kind, args[0])
    place: Any = None
    for each, index, size in zip(kinds, indexes, lengths, strict=True):
        at = plain_index(context, builder, each, index, None)
        place = at if place is None else builder.add(builder.mul(place, size), at)
    return builder.gep(data, [place])
