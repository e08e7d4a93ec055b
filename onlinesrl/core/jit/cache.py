"""The cache of compiled kernels on disk: its folder, and the files that are trusted.

A compiled kernel is a pickle, and loading a pickle runs code. So a folder or file is used only if no user but
this one and root can write it. A file is loaded only if its content has the hash at its start. Kernels are
loaded also from such folders as this process cannot write, those of an image.
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
from collections.abc import Callable, Iterator
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
from onlinesrl.core.operating_system import USER

PACKAGE = Path(__file__).parents[2]
ADVICE = "set NUMBA_CACHE_DIR to a folder that you, and no other user, can write"
OTHERS = "another user can write there"
_HASH = sha256().digest_size


class KernelCache(_Cache):
    """Numba's interface to the cache of one kernel.

    ``sources`` returns the state of all files that the kernel's code depends on. There is a cache file for
    each kernel, type of its arguments and kind of machine.
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
        """Return the code compiled for these types; None if no sound file of this version has it."""
        if not self.enabled:
            return None
        name = self._name(sig, target_context)
        for folder in _sound_folders():
            content = _trusted(folder / name)
            if content is None or content[:_HASH] != _hash(name, content[_HASH:]):
                continue
            if content[_HASH : 2 * _HASH] == self._stamp():
                parts = serialize.loads(content[2 * _HASH :])
                return CompileResult._rebuild(target_context, *parts)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write compiled code; if that fails, warn and go on without a cache."""
        folder = kernel_folder() if self.enabled else None
        if folder is None or data.library.has_dynamic_globals:
            return
        path = folder / self._name(sig, data.target_context)
        content = self._stamp() + serialize.dumps(data._reduce())
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}")
        try:
            temporary.touch(mode=0o644, exist_ok=False)
            temporary.write_bytes(_hash(path.name, content) + content)
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            _warn(f"compiled kernels cannot be cached in {path.parent} ({error.strerror})")

    def _name(self, sig: Any, target_context: Any) -> str:
        code, machine = self.function.__code__, target_context.codegen().magic_tuple()
        identity = (code.co_filename, code.co_firstlineno, self.function.__qualname__)
        key = repr((*identity, str(sig), machine, sys.implementation.cache_tag)).encode()
        return f"{self.function.__name__}-{sha256(key).hexdigest()[:32]}"

    def _stamp(self) -> bytes:
        """Return a hash of everything that the compiled code depends on."""
        function = self.function
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        versions = (numba.__version__, llvmlite.__version__, sys.version)
        code = (function.__code__.co_code, serialize.dumps(cells) if cells else b"")
        source_stamp = file_stamp(function.__code__.co_filename)
        return sha256(repr((versions, self.sources(), source_stamp, code)).encode()).digest()


@cache
def file_stamp(file: str | Path) -> str | None:
    """Return a hash of a source file: its time may be another in an image than where the image was made."""
    with suppress(OSError):
        return sha256(Path(file).read_bytes()).hexdigest()
    return None


def _hash(name: str, content: bytes) -> bytes:
    """Return the hash of a file's content and name, so that a renamed file does not match."""
    return sha256(name.encode() + content).digest()


def _own(status: os.stat_result, sticky: bool = False) -> bool:
    """Tell whether only this user and root can write a file, or, with ``sticky``, rename in a folder."""
    closed = not status.st_mode & 0o022 or (sticky and status.st_mode & stat.S_ISVTX)
    return USER is None or (status.st_uid in {0, USER} and bool(closed))


def _trusted(path: Path) -> bytes | None:
    """Return the content of a file that no other user can have written; None if there is none."""
    try:
        with path.open("rb") as file:
            return file.read() if _own(os.fstat(file.fileno())) else None
    except OSError:
        return None


# the folder --------------------------------------------------------------------------------------


@cache
def kernel_folder() -> Path | None:
    """Return the first folder where this process can write, or else a temporary one, or None."""
    refused: list[str] = []
    for folder in _folders():
        reason = _unusable(folder)
        if reason is None:
            if refused and _cache_setting():
                _warn(f"compiled kernels are cached in {folder}; {refused[0]}")
            return folder
        refused.append(f"{folder}: {reason}")
    return _temporary("; ".join(refused))


def _cache_setting() -> str:
    """Return the folder that NUMBA_CACHE_DIR names, as numba has read it; empty if it is not set."""
    settings: Any = numba.config
    return str(settings.CACHE_DIR)


def lasting() -> bool:
    """Tell whether later processes load the kernels that this one compiles."""
    return kernel_folder() in {*_folders()}


def _folders() -> list[Path]:
    """Return the folders for kernels, the best one first: NUMBA_CACHE_DIR, in the package, in the home."""
    setting, home = _cache_setting(), os.environ.get("XDG_CACHE_HOME", "")
    folders = [Path(setting).absolute() / "onlinesrl"] if setting else []
    folders.append(PACKAGE / "__pycache__" / "kernels")
    of_user = Path(home if os.path.isabs(home) else os.path.expanduser("~/.cache"))  # noqa: PTH111, PTH117
    return [*folders, of_user / "onlinesrl"] if of_user.is_absolute() else folders


def _unusable(folder: Path) -> str | None:
    """Create a folder if needed; return the reason why nothing can be written there, or None."""
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        if reason := _unsound(folder):
            return reason
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _sound_folders() -> Iterator[Path]:
    """Yield the folders from which kernels may be loaded: those before the one to write to, and that one."""
    for folder in _folders():
        with suppress(OSError):
            if not _unsound(folder):
                yield folder
        if not _unusable(folder):
            return
    if temporary := kernel_folder():
        yield temporary


def _unsound(folder: Path) -> str | None:
    """Return why what a folder has must not be loaded, or None. Raises OSError if it does not exist."""
    above = folder.parent
    setting = _cache_setting() and above == Path(_cache_setting()).absolute()
    if not _own(folder.stat()) or (setting and not _own(above.stat(), sticky=True)):
        return OTHERS
    if USER is None and not folder.resolve().is_relative_to(Path.home().resolve()):
        return "this system closes only your home folder to other users"
    return None


def _temporary(refused: str) -> Path | None:
    """Return a new private folder, which is removed when the process ends."""
    _warn(f"compiled kernels cannot be cached ({refused}), and each start compiles them anew")
    try:
        folder = Path(tempfile.mkdtemp(prefix="onlinesrl-kernels-"))
    except OSError:
        return None
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, process: int) -> None:
    """Remove the temporary folder at the end of the process that created it, not of its forks."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _warn(message: str) -> None:
    warnings.warn(f"{message}; {ADVICE}", OnlinesrlWarning, stacklevel=2)
