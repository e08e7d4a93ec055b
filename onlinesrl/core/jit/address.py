"""Calls of a kernel by its address, so that its callers are compiled without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

from onlinesrl.core.jit.decorators import address_of
from onlinesrl.core.jit.frames import Frame

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
