"""The types of arrays, a check of what a caller gives, and growth."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def check_rows(rows: object, expected: Mapping[str, tuple[type[np.generic], int]]) -> None:
    """Check the arrays of compressed rows: types and lengths by name, and that ``start`` rises from 0.

    Raises ValueError.
    """
    for name, (kind, length) in expected.items():
        array: npt.NDArray[np.generic] = getattr(rows, name)
        if array.dtype != kind or array.shape != (length,):
            actual = f"{array.dtype}{list(array.shape)}"
            raise ValueError(f"{name} is {actual}, expected {np.dtype(kind)}[{length}]")
    start: Ints = rows.start  # type: ignore[attr-defined]
    if start[0] != 0 or np.any(np.diff(start) < 0):
        raise ValueError("start must rise from 0")


def enlarged(array: Any, size: int) -> Any:
    """Return a copy of ``size`` entries, which are 0 behind those of ``array``.

    The new ones take memory where they are written to.
    """
    grown = np.zeros((size, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def extended(array: Any, size: int) -> Any:
    """Return an array of at least so many entries: itself, or a copy of twice as many, see ``enlarged``."""
    return array if size <= len(array) else enlarged(array, 2 * size)


def gathered(start: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Put some compressed rows one after another: where each starts, and the place of each entry in all."""
    lengths = start[rows + 1] - start[rows]
    begin = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    places = np.repeat(start[rows] - begin[:-1], lengths) + np.arange(begin[-1])
    return begin, places
