"""Frames: records of arrays and numbers, passed to kernels by one address.

Numba passes an array as seven arguments and a tuple of arrays as those of all; a world would be a
thousand arguments per call, which LLVM tracks through every function. A frame is passed as the address
of a table of 64-bit words, and fields are read where they are used: an array as the words of its data
and shape, a number as one word, a frame as its address. The table is constant, which LLVM is told
(``kernels/lowering.py``), so that reads are moved out of loops.
"""

from __future__ import annotations

import struct
from array import array
from ctypes import c_ssize_t
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

import numpy as np
from numba import from_dtype, types

_HEAD = object.__basicsize__


def _data(value: np.ndarray[Any, Any]) -> int:
    """Return the address of an array's data: the first word after the object header."""
    return c_ssize_t.from_address(id(value) + _HEAD).value


def _data_told(value: np.ndarray[Any, Any]) -> int:
    return value.ctypes.data


_PROBE = np.empty(1)
if _data(_PROBE) != _data_told(_PROBE):  # another Python or numpy; asking numpy is slower
    _data = _data_told


class FrameType(types.Type):
    """The numba type of a frame; ``place`` gives the word and type of each field.

    ``without`` names the features that the frame does not have: see ``jit.kernel_of``.
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
        what = blake2b(f"{members}{without}".encode(), digest_size=8).hexdigest()
        super().__init__(f"{name}_{what}")  # short, since it is part of the names of functions


@dataclass_transform(frozen_default=True)
class Frame:
    """A frozen dataclass of C-contiguous arrays, numbers and other frames.

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
        given = {**dict(zip(self._names, values, strict=False)), **named}
        if len(values) + len(named) != len(given) or len(given) != len(self._names):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(self._names)}")
        kinds: list[Any] = []
        words: list[int] = []
        for name in self._names:
            value = given[name]
            if isinstance(value, np.ndarray) and value.flags.c_contiguous:
                kinds += value.dtype, value.ndim
                words.append(_data(value))
                words += value.shape
            else:
                kind, word = self._number(name, value)
                kinds += kind, -1
                words.append(word)
        kinds += self._without(given)
        table = array("q", words)
        known = self._types.get(tuple(kinds)) or self._learn(kinds)
        given.update(_table=table, _address=table.buffer_info()[0], _numba_type_=known)
        self.__dict__.update(given)

    @classmethod
    def _without(cls, values: dict[str, Any]) -> tuple[str, ...]:
        """Return the features that a frame does not have, whose functions are then not compiled."""
        return ()

    def _number(self, name: str, value: Any) -> tuple[Any, int]:
        """Return the type and the word of a field that is not an array."""
        if isinstance(value, Frame):
            return value._numba_type_, value._address
        if isinstance(value, bool | np.bool_):
            return types.boolean, int(value)
        if isinstance(value, int | np.integer):
            return types.int64, int(value)
        if isinstance(value, float):
            return types.float64, int(struct.unpack("q", struct.pack("d", value))[0])
        raise TypeError(f"{type(self).__name__}.{name}: no contiguous array or number")

    def _learn(self, kinds: list[Any]) -> FrameType:
        """Create the type of frames with these fields: by field a type, or dtype and dimensions."""
        members = tuple(
            (name, kind if dimensions < 0 else types.Array(from_dtype(kind), dimensions, "C"))
            for name, kind, dimensions in zip(self._names, kinds[::2], kinds[1::2], strict=False)
        )
        cls, without = type(self), tuple(kinds[2 * len(members) :])
        made = self._types[tuple(kinds)] = FrameType(cls.__name__, members, without)
        return made
