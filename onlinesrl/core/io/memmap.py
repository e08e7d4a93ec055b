"""Arrays in files: the system holds in memory what fits, and writes back the rest."""

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinesrl.core.io.atomic_write import storage_errors


def zeros(folder: Path, shape: int | tuple[int, int], dtype: Any) -> NDArray[Any]:
    """Return an array of zeros in a nameless file of a folder; the file ends with the array.

    Raises StorageError now if the folder has not enough space, not later when the array is written.
    """
    empty = np.zeros(0, dtype)
    size = int(np.prod(shape)) * empty.itemsize
    if not size:
        return np.zeros(shape, dtype)
    with storage_errors(folder, "keep arrays"), tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(size)
        if hasattr(os, "posix_fallocate"):  # elsewhere a full disk ends the process
            os.posix_fallocate(file.fileno(), 0, size)
        memory = mmap.mmap(file.fileno(), size)
    return np.frombuffer(memory, dtype).reshape(shape)
