"""Files at addresses such as s3://bucket/name, read and written by fsspec."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import StorageError, UsageError, printable, shortened

OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {
        "config_kwargs": {
            "connect_timeout": 5,
            "read_timeout": 10,
            "retries": {"max_attempts": 0},  # s3fs itself tries five times
        }
    }
}
"""Options of file systems by their protocol: a service that is away is waited for not longer."""
NO_LOGIN = (
    "expected an address without a login; names and passwords come from the environment, such as "
    "FSSPEC_FTP_USERNAME and FSSPEC_FTP_PASSWORD"
)
_LOGIN = re.compile(r"(https?://)[^\s/?#]*@|(://[^\s/?#:@]*):[^\s/?#]*@")
_QUERY = re.compile(r"(https?://[^\s?#]*)\?[^\s'\"]*")


def is_address(text: str) -> bool:
    """Tell whether a text is an address and not the path of a file of this machine."""
    return "://" in text


def has_login(address: str) -> bool:
    """Tell whether an address has a password, or a name that a web server asks for."""
    return _LOGIN.search(address) is not None


def without_login(text: str) -> str:
    """Return a text without the logins in its addresses, and without queries, which may be signed."""
    return _QUERY.sub(r"\1", _LOGIN.sub(lambda match: match[1] or f"{match[2]}@", text))


def opened(address: str) -> tuple[Any, str]:
    """Return fsspec's file system of an address, and the path there. Raises UsageError, StorageError."""
    if has_login(address):
        raise UsageError(f"{without_login(address)}: {NO_LOGIN}")
    try:
        import fsspec
    except ImportError as error:
        raise UsageError(
            f"{without_login(address)} needs the extra cloud: pip install 'onlinesrl[cloud]'"
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
    copy = Path(folder, Path(without_login(address)).name)
    try:
        files.get_file(path, str(copy))
    except Exception as error:
        raise unreachable(address, "read", error) from error
    return copy


def unreachable(address: str, action: str, error: Exception) -> StorageError:
    """Return the error of a library of a file system, which may be of any kind."""
    reason = shortened(printable(without_login(str(error) or type(error).__name__)))
    return StorageError(f"{without_login(address)}: cannot {action}: {reason}")
