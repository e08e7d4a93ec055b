"""Arrays and numbers that go together, passed to kernels by one address.

Numba passes an array as seven numbers, and a tuple of arrays as those of all: what is said of a world
would be a thousand arguments a call, each of which LLVM follows through every function. A frame is
passed as the address of a table of 64-bit words, and a field is read where it is used: an array as the
words of its data and shape, a number as its own, a frame as its address. The table never changes, which
LLVM is told (``kernels/lowering.py``), so that reading is moved out of loops.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

import numpy as np
from numba import from_dtype, types


class FrameType(types.Type):
    """What numba knows of a frame; ``place`` says by field at which word it stands, and its type."""

    def __init__(self, name: str, members: tuple[tuple[str, Any], ...]):
        self.place: dict[str, tuple[int, Any]] = {}
        at = 0
        for member, kind in members:
            self.place[member] = at, kind
            at += 1 + (kind.ndim if isinstance(kind, types.Array) else 0)
        super().__init__(f"{name}{members}")


@dataclass_transform(frozen_default=True)
class Frame:
    """A frozen dataclass of C-contiguous arrays, numbers and other frames.

    Raises TypeError for a field that is something else.
    """

    if TYPE_CHECKING:
        _table: ClassVar[array[int]]  # of each frame, as are the next two; no fields
        _address: ClassVar[int]
        _numba_type_: ClassVar[FrameType]
    _names: ClassVar[tuple[str, ...]]
    _types: ClassVar[dict[Hashable, FrameType]]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False)(cls)
        cls._names = tuple(field.name for field in fields(cls))  # type: ignore[arg-type]
        cls._types = {}

    def __post_init__(self) -> None:
        kinds: list[Any] = []
        words: list[int] = []
        for name in self._names:
            value = getattr(self, name)
            if isinstance(value, np.ndarray) and value.flags.c_contiguous:
                kinds.append((value.dtype, value.ndim))
                words += value.ctypes.data, *value.shape
            elif isinstance(value, Frame):
                kinds.append(value._numba_type_)
                words.append(value._address)
            elif isinstance(value, bool | np.bool_ | int | np.integer):
                kinds.append(types.boolean if isinstance(value, bool | np.bool_) else types.int64)
                words.append(int(value))
            elif isinstance(value, float):
                kinds.append(types.float64)
                words += struct.unpack("q", struct.pack("d", value))
            else:
                raise TypeError(f"{type(self).__name__}.{name}: no contiguous array or number")
        table = array("q", words)
        known = self._types.get(tuple(kinds)) or self._learn(kinds)
        self.__dict__.update(_table=table, _address=table.buffer_info()[0], _numba_type_=known)

    def _learn(self, kinds: list[Any]) -> FrameType:
        """Make the type of frames with such fields."""
        members = tuple(
            (name, types.Array(from_dtype(kind[0]), kind[1], "C") if type(kind) is tuple else kind)
            for name, kind in zip(self._names, kinds, strict=True)
        )
        cls = type(self)
        made = self._types[tuple(kinds)] = FrameType(f"{cls.__module__}.{cls.__name__}", members)
        return made
