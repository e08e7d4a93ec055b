"""Files at addresses such as s3://bucket/name, read and written by fsspec."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import StorageError, UsageError

OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {"config_kwargs": {"connect_timeout": 10, "retries": {"max_attempts": 2}}}
}
"""Options of file systems by their protocol: a service that is away is waited for not longer."""


def is_address(text: str) -> bool:
    """Tell whether a text is an address and not the path of a file of this machine."""
    return "://" in text


def opened(address: str) -> tuple[Any, str]:
    """Return fsspec's file system of an address, and the path there. Raises UsageError, StorageError."""
    try:
        import fsspec
    except ImportError as error:
        raise UsageError(
            f"{address} needs the extra cloud: pip install 'onlinesrl[cloud]'"
        ) from error
    protocol = address.partition("://")[0]
    try:
        return fsspec.url_to_fs(address, **OPTIONS.get(protocol, {}))  # type: ignore[no-any-return]
    except Exception as error:
        raise unreachable(address, "read", error) from error


def local_copy(address: str) -> Path:
    """Return a copy of a file, which ends with this process. Raises UsageError, StorageError."""
    files, path = opened(address)
    folder = tempfile.mkdtemp(prefix="onlinesrl-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = Path(folder, Path(path).name)
    try:
        files.get_file(path, str(copy))
    except Exception as error:
        raise unreachable(address, "read", error) from error
    return copy


def unreachable(address: str, action: str, error: Exception) -> StorageError:
    """Return the error of a library of a file system, which may be of any kind."""
    return StorageError(f"{address}: cannot {action}: {error or type(error).__name__}")
