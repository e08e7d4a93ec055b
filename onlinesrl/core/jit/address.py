"""Calls of a kernel by its address, so that its callers are compiled without it, and frames by theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from onlinesrl.core.arrays import Ints
from onlinesrl.core.jit.decorators import address_of
from onlinesrl.core.jit.frames import WORD, Frame

PAIR: Any = numba.typeof((0.0, 0.0))


def pair_address(function: Callable[..., tuple[float, float]], frame: Frame) -> int:
    """Return the address of a kernel of a frame, an integer and three floats that returns two floats.

    Raises UsageError where it cannot be compiled as such.
    """
    return address_of(function, PAIR, frame, 0, 0.0, 0.0, 0.0)


def _pair_at(
    typing: Any, address: Any, frame: Any, number: Any, first: Any, second: Any, third: Any
) -> Any:
    """Return the type and the code of a call."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        convention, kinds = context.call_conv, sig.args[1:]
        pointer = convention.get_function_type(sig.return_type, kinds).as_pointer()
        function = builder.inttoptr(args[0], pointer)
        return convention.call_function(builder, function, sig.return_type, kinds, args[1:])[1]

    floats = (types.float64,) * 3
    return PAIR(types.int64, frame, types.int64, *floats), emit


pair_at: Any = intrinsic(_pair_at)
"""Calls the kernel at a ``pair_address`` with its arguments, from another kernel."""


def _frame_at(typing: Any, like: Any, address: Any) -> Any:
    """Return the type and the code of a frame."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[1], WORD.as_pointer())

    return like(like, types.int64), emit


frame_at: Any = intrinsic(_frame_at)
"""Returns the frame of an address, in a kernel; its fields have the types of the frame ``like``."""


def addresses(frames: Sequence[Frame]) -> Ints:
    """Return the addresses of frames whose fields have the same types, for ``frame_at``."""
    return np.array([frame._address for frame in frames], np.int64)
