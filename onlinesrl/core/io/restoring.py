"""What a checkpoint holds is checked where it is restored.

Its SHA-256 says that it is whole, not who wrote it; kernels take indexes from it, unchecked.
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
    """A part of a checkpoint that is not what is to be restored."""


class Expected(NamedTuple):
    """An array's dtype, its shape, in which a name stands for a length, and its numbers' range.

    The range broadcasts.
    """

    dtype: type[np.generic]
    shape: tuple[int | str, ...]
    least: Any = -LARGE
    most: Any = LARGE


def restored(
    arrays: Mapping[str, Any], expected: Mapping[str, Expected], **lengths: int
) -> dict[str, Any]:
    """Return the arrays that are expected. Raises Misfit.

    ``lengths`` are those known by name; others are the same wherever their name stands.
    """
    for name, (dtype, shape, least, most) in expected.items():
        array = arrays.get(name)
        if array is None:
            raise Misfit(f"the array {name} is missing")
        if array.ndim == len(shape):
            for dimension, length in zip(shape, array.shape, strict=True):
                lengths.setdefault(str(dimension), length)
        wanted = tuple(
            dimension if isinstance(dimension, int) else lengths.get(dimension, dimension)
            for dimension in shape
        )
        if array.dtype.newbyteorder("=") != dtype or array.shape != wanted:
            actual = f"{array.dtype.name}{[*array.shape]}"
            raise Misfit(f"the array {name} is {actual}, expected {np.dtype(dtype)}{[*wanted]}")
        if not np.all((array >= least) & (array <= most)):
            raise Misfit(f"the array {name} has a number out of its range")
    return {name: arrays[name] for name in expected}


def converted(value: Any, kind: type[T], **options: Any) -> T:
    """Return a value of a header as one of a type of msgspec's. Raises Misfit."""
    try:
        result: T = msgspec.convert(value, kind, **options)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Misfit(str(error)) from None
    return result


@contextmanager
def restoring(path: Path | str) -> Iterator[None]:
    """Name the file of what does not fit, as a damaged checkpoint."""
    try:
        yield
    except Misfit as error:
        reason = shortened(printable(str(error)))
        raise DamagedCheckpoint(f"{path}: cannot be restored: {reason}") from error
