"""Compiled kernels on disk: where, and which files are believed.

A compiled kernel is a pickle, and loading one runs what is in it. So a folder or file is used only where no
other user but root can write it, and a file is loaded only where it has the hash that stands at its start.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
import uuid
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import serialize
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult

from onlinesrl.core.errors import OnlinesrlWarning

PACKAGE = Path(__file__).parents[2]
ADVICE = "set NUMBA_CACHE_DIR to a folder that you, and no other user, can write"
OTHERS = "another user can write there"
_HASH = sha256().digest_size


class KernelCache(_Cache):
    """Numba's interface to the cache of one kernel.

    ``sources`` returns what besides the kernel's own file its code depends on. A kernel has a file for each
    type of its arguments and each kind of machine.
    """

    def __init__(self, function: Callable[..., Any], sources: Callable[[], object]) -> None:
        self.function = function
        self.sources = sources
        self.enabled = True

    @property
    def cache_path(self) -> str | None:
        """The folder, as numba shows it."""
        folder = kernel_folder()
        return None if folder is None else str(folder)

    def enable(self) -> None:
        """Use the cache."""
        self.enabled = True

    def disable(self) -> None:
        """Compile anew, and keep nothing."""
        self.enabled = False

    def flush(self) -> None:
        """Remove the kernel's files."""
        folder = kernel_folder()
        for path in () if folder is None else folder.glob(f"{self.function.__name__}-*"):
            path.unlink(missing_ok=True)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for these types; None where no sound file of this version has it."""
        path = self._path(sig, target_context)
        content = None if path is None else _trusted(path)
        if path is None or content is None:
            return None
        digest, stamp = content[:_HASH], content[_HASH : 2 * _HASH]
        if digest != _hash(path, content[_HASH:]) or stamp != self._stamp():
            return None
        return CompileResult._rebuild(target_context, *serialize.loads(content[2 * _HASH :]))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write what was compiled; where that fails, warn, and go on without."""
        path = self._path(sig, data.target_context)
        if path is None or data.library.has_dynamic_globals:
            return
        content = self._stamp() + serialize.dumps(data._reduce())
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}")
        try:
            temporary.touch(mode=0o600, exist_ok=False)
            temporary.write_bytes(_hash(path, content) + content)
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            _warn(f"compiled kernels cannot be cached in {path.parent} ({error.strerror})")

    def _path(self, sig: Any, target_context: Any) -> Path | None:
        folder = kernel_folder() if self.enabled else None
        if folder is None:
            return None
        code, machine = self.function.__code__, target_context.codegen().magic_tuple()
        named = (code.co_filename, code.co_firstlineno, self.function.__qualname__)
        key = repr((*named, str(sig), machine, sys.implementation.cache_tag)).encode()
        return folder / f"{self.function.__name__}-{sha256(key).hexdigest()[:32]}"

    def _stamp(self) -> bytes:
        """Return a hash of all that the code depends on."""
        function = self.function
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        versions = (numba.__version__, llvmlite.__version__, sys.version)
        code = (function.__code__.co_code, serialize.dumps(cells) if cells else b"")
        source_stamp = _file_stamp(function.__code__.co_filename)
        return sha256(repr((versions, self.sources(), source_stamp, code)).encode()).digest()


@cache
def _file_stamp(file: str) -> tuple[int, int] | None:
    with suppress(OSError):
        status = Path(file).stat()
        return status.st_mtime_ns, status.st_size
    return None


def _hash(path: Path, content: bytes) -> bytes:
    """Return the hash of a file: one that was renamed to stand for another does not have it."""
    return sha256(path.name.encode() + content).digest()


def _own(status: os.stat_result, sticky: bool = False) -> bool:
    """Tell whether no other user but root can write this, or, where ``sticky`` will do, rename in it."""
    closed = not status.st_mode & 0o022 or (sticky and status.st_mode & stat.S_ISVTX)
    return status.st_uid in {0, os.geteuid()} and bool(closed)


def _trusted(path: Path) -> bytes | None:
    """Return what is in a file that no other user can have written; None: there is none."""
    try:
        with path.open("rb") as file:
            return file.read() if _own(os.fstat(file.fileno())) else None
    except OSError:
        return None


# the folder --------------------------------------------------------------------------------------


@cache
def kernel_folder() -> Path | None:
    """Return the first folder that can be used, at last a temporary one; None: there is none."""
    refused: list[str] = []
    for folder in _folders():
        reason = _unusable(folder)
        if reason is None:
            if refused and _given():
                _warn(f"compiled kernels are cached in {folder}; {refused[0]}")
            return folder
        refused.append(f"{folder}: {reason}")
    return _temporary("; ".join(refused))


def _given() -> str:
    """Return the folder that NUMBA_CACHE_DIR names, as numba has read it; empty: none."""
    settings: Any = numba.config
    return str(settings.CACHE_DIR)


def lasting() -> bool:
    """Tell whether the next process finds what this one has compiled."""
    return kernel_folder() in {*_folders()}


def _folders() -> list[Path]:
    """Return where kernels may be cached, the best place first: as told, in the package, in the home."""
    setting, home = _given(), os.environ.get("XDG_CACHE_HOME", "")
    folders = [Path(setting).absolute() / "onlinesrl"] if setting else []
    folders.append(PACKAGE / "__pycache__" / "kernels")
    of_user = Path(home if os.path.isabs(home) else os.path.expanduser("~/.cache"))  # noqa: PTH111, PTH117
    return [*folders, of_user / "onlinesrl"] if of_user.is_absolute() else folders


def _unusable(folder: Path) -> str | None:
    """Make a folder if need be; return why it cannot be used, if so."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        above = folder.parent
        chosen = _given() and above == Path(_given()).absolute()
        if not _own(folder.stat()) or (chosen and not _own(above.stat(), sticky=True)):
            return OTHERS
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _temporary(refused: str) -> Path | None:
    """Return a new folder that no other user can look into, and that is removed when the process ends."""
    _warn(f"compiled kernels cannot be cached ({refused}), and each start compiles them anew")
    try:
        folder = Path(tempfile.mkdtemp(prefix="onlinesrl-kernels-"))
    except OSError:
        return None
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, process: int) -> None:
    """Remove the temporary folder, but not at the end of a fork."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _warn(message: str) -> None:
    warnings.warn(f"{message}; {ADVICE}", OnlinesrlWarning, stacklevel=2)
