"""Checks of a checkpoint's content when it is restored.

The SHA-256 of a checkpoint shows that it is whole, but not who wrote it. Kernels do not check its indexes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from onlinesrl.core.errors import StorageError, printable, shortened
from onlinesrl.core.io.checkpoint_file import DamagedCheckpoint, Natural

LARGE, MOST = 1e300, 2**53
"""The largest size of a number, so that a few can be added, and the largest count."""
T = TypeVar("T")
__all__ = ["LARGE", "MOST", "Expected", "Misfit", "Natural", "converted", "restored", "restoring"]


class Misfit(StorageError):
    """A part of a checkpoint that does not fit the state to be restored."""


class Expected(NamedTuple):
    """An array's dtype, its shape, in which a name stands for a length, and the range of its numbers.

    ``least`` and ``most`` broadcast against the array.
    """

    dtype: type[np.generic]
    shape: tuple[int | str, ...]
    least: Any = -LARGE
    most: Any = LARGE


def restored(
    arrays: Mapping[str, Any], expected: Mapping[str, Expected], **lengths: int
) -> dict[str, Any]:
    """Return the expected arrays. Raises Misfit.

    ``lengths`` are known by name; any other name stands for the same length everywhere.
    """
    for name, (dtype, shape, least, most) in expected.items():
        array = arrays.get(name)
        if array is None:
            raise Misfit(f"the array {name} is missing")
        if array.ndim == len(shape):
            for name_or_length, length in zip(shape, array.shape, strict=True):
                lengths.setdefault(str(name_or_length), length)
        right = tuple(n if isinstance(n, int) else lengths.get(n, n) for n in shape)
        if array.dtype.newbyteorder("=") != dtype or array.shape != right:
            actual = f"{array.dtype.name}{[*array.shape]}"
            raise Misfit(f"the array {name} is {actual}, expected {np.dtype(dtype)}{[*right]}")
        if not np.all((array >= least) & (array <= most)):
            raise Misfit(f"the array {name} has a number out of its range")
    return {name: arrays[name] for name in expected}


def converted(value: Any, kind: type[T], **options: Any) -> T:
    """Convert a value of a header to a type by msgspec. Raises Misfit."""
    try:
        result: T = msgspec.convert(value, kind, **options)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Misfit(str(error)) from None
    return result


@contextmanager
def restoring(path: Path | str) -> Iterator[None]:
    """Turn a Misfit into a DamagedCheckpoint that names the file."""
    try:
        yield
    except Misfit as error:
        reason = shortened(printable(str(error)))
        raise DamagedCheckpoint(f"{path}: cannot be restored: {reason}") from error
