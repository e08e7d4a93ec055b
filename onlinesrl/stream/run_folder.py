"""The run folder: its lock, its file names, and writes that survive crashes and full disks.

- `OutputFile` appends; on resume it is truncated to the length noted in the checkpoint, so every
  line is there exactly once. One whose bytes are limited has parts, of which the oldest may go.
- `core.io.atomic_write.write_atomic` replaces a whole file: after a crash, or for a concurrent reader, it has
  the old or the new content, never a mixture.
- `RunFolder` lets one process at a time write in the folder.

Every operating system error becomes a `StorageError` that names the file, the action and the reason.
"""

import os
import re
from pathlib import Path

from onlinesrl.core.errors import FolderError, LockedError, StorageError
from onlinesrl.core.io.atomic_write import (
    check_folder,
    is_plain,
    plain,
    storage_errors,
    sync_folder,
)
from onlinesrl.core.operating_system import head, in_forks, lock, write_at
from onlinesrl.core.resources import Closing

BUFFER_BYTES = 1 << 18
REQUESTS = "requests.jsonl"
"""The file of a run folder with the requests to /learn. It is a source, so --fresh keeps it."""
PREDICTIONS = "predictions.jsonl"
PARTS = 8
"""The number of parts of a file whose bytes are limited."""
_PART = re.compile(r"\.[0-9]{6}")
_TABLE = re.compile(r"part-[0-9]{8,18}\.parquet|\.part-[0-9]{8,18}\.parquet\.tmp")
_LOCKS: set[int] = set()
"""The descriptors of the locks that this process holds."""
_MARK = b"the folder of a run of onlinesrl, by process "


class OutputFile(Closing):
    """An append-only file whose length is noted in checkpoints.

    Opening keeps its content; `truncate` cuts it to a checkpoint's length. Writes are buffered until
    `flush`, or until the buffer is full. After a failed write the unwritten bytes stay in the buffer,
    so a later `flush` continues there.
    It may consist of parts, so that the oldest can be removed: `path` is that of the last one, which is
    written to, and `part` its number; see `parts`.
    All methods raise StorageError.
    """

    def __init__(self, path: Path) -> None:
        self.base = path
        self._buffer = bytearray()
        with storage_errors(path, "open for writing"):
            self._open(part_of([path, *parts(path)][-1]))

    def _open(self, part: int) -> None:
        self.part = part
        self.path = part_path(self.base, part)
        self._descriptor = plain(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._written = os.fstat(self._descriptor).st_size

    @property
    def length(self) -> int:
        """The length in bytes, including what is not flushed yet."""
        return self._written + len(self._buffer)

    def write(self, data: bytes) -> None:
        """Append `data`."""
        self._buffer += data
        if len(self._buffer) >= BUFFER_BYTES:
            self.flush(fsync=False)

    def flush(self, fsync: bool = True) -> None:
        """Write out the buffer and, with `fsync`, wait until it is on disk."""
        with storage_errors(self.path, "write"):
            while self._buffer:
                written = os.write(self._descriptor, self._buffer)
                del self._buffer[:written]
                self._written += written
        if fsync:
            self.sync()

    def sync(self) -> None:
        """Wait until what was flushed is on disk; another thread may call it."""
        with storage_errors(self.path, "write"):
            os.fsync(self._descriptor)

    def truncate(self, length: int) -> None:
        """Cut the file to `length` bytes; StorageError when it is shorter, since lines are missing."""
        self.flush(fsync=False)
        if self._written < length:
            raise StorageError(
                f"{self.path}: has {self._written} bytes but the checkpoint was taken when it had "
                f"{length}: lines are missing; restore the file, or start over with --fresh"
            )
        with storage_errors(self.path, "truncate"):
            os.ftruncate(self._descriptor, length)
            self._written = length

    def resume(self, part: int, length: int) -> None:
        """Go back to a part with this length, and remove the later parts."""
        with storage_errors(self.base, "truncate"):
            for path in parts(self.base):
                if part_of(path) > part:
                    path.unlink()
        if part != self.part:
            self._buffer.clear()
            self._move(part)
        self.truncate(length)

    def begin_part(self) -> None:
        """Begin the next part, durably."""
        self.flush()
        self._move(self.part + 1)
        with storage_errors(self.path, "write"):
            sync_folder(self.path.parent)

    def forget(self, before: int, most: int) -> None:
        """Remove the oldest parts before this number, until at most so many bytes are left."""
        with storage_errors(self.base, "remove old parts"):
            sizes = {path: path.stat().st_size for path in parts(self.base)}
            for path in [path for path in sizes if part_of(path) < before]:
                if sum(sizes.values()) <= most:
                    break
                path.unlink()
                del sizes[path]

    def _move(self, part: int) -> None:
        self.close()
        with storage_errors(self.base, "open for writing"):
            self._open(part)

    def close(self) -> None:
        """Flush (without fsync) and close; closing twice is allowed."""
        if self._descriptor < 0:
            return
        try:
            self.flush(fsync=False)
        finally:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def parts(path: Path) -> list[Path]:
    """Return the existing parts of a file, the oldest first: NAME, NAME.000001, NAME.000002 ..."""
    later = sorted(other for other in path.parent.iterdir() if other.stem == path.name)
    return [path] * path.exists() + [other for other in later if part_of(other)]


def part_path(path: Path, part: int) -> Path:
    """Return the path of a part of a file."""
    return path.with_name(f"{path.name}.{part:06}") if part else path


def part_of(path: Path) -> int:
    """Return the number of a part; the first has 0."""
    return int(path.suffix[1:]) if _PART.fullmatch(path.suffix) else 0


class RunFolder(Closing):
    """The folder of one run, locked by one process at a time.

    Creates the folder and takes an exclusive lock on its `lock` file, which the system releases
    however the process ends; the content of `lock` marks the folder as a run's. Raises LockedError
    when another process holds the lock, FolderError when the folder is not empty and not a run's,
    StorageError when it cannot be made. Has the paths of all files that a run writes; the file of
    weights has the `suffix` of the model.
    """

    def __init__(self, path: Path, suffix: str = ".mln") -> None:
        self.path = path
        self.predictions = path / PREDICTIONS
        self.alerts = path / "alerts.jsonl"
        self.metrics = path / "metrics.jsonl"
        self.deadletter = path / "deadletter.jsonl"
        self.order = path / "order.jsonl"
        self.files = path / "files.jsonl"
        self.linked = path / "linked.jsonl"
        self.requests = path / REQUESTS
        self.checkpoints = path / "checkpoints"
        self.started = path / "started"
        self.mlflow = path / "mlflow"
        self.copies = path / "copies"
        self.weights = path / f"weights{suffix}"
        self.entities = path / "entities.csv"
        self.summary = path / "summary.json"
        self.report = path / "report.html"
        with storage_errors(path, "make the run folder"):
            path.mkdir(parents=True, exist_ok=True)
            _check_mark(path)
        self._lock = _take_lock(path / "lock")
        with storage_errors(path, "make the run folder"):
            for folder in (self.checkpoints, self.path / "predictions"):
                check_folder(folder)
            self.checkpoints.mkdir(exist_ok=True)

    @property
    def written(self) -> tuple[Path, ...]:
        """The files that a run writes, without its checkpoints, its lock and the requests of clients."""
        growing = (
            self.predictions,
            self.alerts,
            self.metrics,
            self.deadletter,
            self.order,
            self.files,
            self.linked,
        )
        weights = (self.path / f"weights{suffix}" for suffix in (".mln", ".psl"))
        names = (self.started, self.mlflow, self.copies)
        return (*growing, *names, *weights, self.entities, self.summary, self.report)

    def clear(self) -> None:
        """Remove what a run wrote and nothing else, checkpoints first. Raises StorageError."""
        with storage_errors(self.path, "clear the run folder"):
            for pattern in ("checkpoint-*.ckpt", ".checkpoint-*.tmp"):
                for checkpoint in self.checkpoints.glob(pattern):
                    checkpoint.unlink()
            sync_folder(self.checkpoints)
            growing = [part for file in self.written for part in parts(file)]
            for file in (*growing, *self.written, *table_files(self.path / "predictions")):
                file.unlink(missing_ok=True)
                file.with_name(f".{file.name}.tmp").unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock; closing twice is allowed."""
        if self._lock in _LOCKS:
            _LOCKS.remove(self._lock)
            os.close(self._lock)
        self._lock = -1


def is_run(path: Path) -> bool:
    """Tell whether a folder is that of a run, as its ``lock`` says. Raises OSError."""
    mark = path / "lock"
    if not is_plain(mark):
        return False
    with open(mark, "rb", opener=plain) as stream:
        return stream.read(len(_MARK)) == _MARK


def table_files(folder: Path) -> list[Path]:
    """Return the parts of tables in a folder, those that were left unfinished too. Raises OSError."""
    tables = [entry for entry in sorted(folder.glob("*")) if entry.is_dir()]
    for table in tables:
        check_folder(table)
    files = (file for table in tables for file in sorted(table.iterdir()))
    return [file for file in files if _TABLE.fullmatch(file.name)]


def _check_mark(path: Path) -> None:
    """Raise FolderError if a folder is not empty and not a run's."""
    mark = path / "lock"
    if mark.is_symlink():
        raise FolderError(
            f"{mark}: is a symbolic link, which a run does not follow; choose another output"
        )
    begun = {"lock"} if not (mark.exists() and mark.stat().st_size) else set()
    begun |= {"checkpoints"} if not list((path / "checkpoints").glob("*")) else set()
    if {file.name for file in path.iterdir()} <= begun:
        return
    if not is_run(path):
        raise FolderError(
            f"{path}: is not empty and not the folder of a run (its `lock` does not say so), and a "
            "run would write over what is there; choose another output, or move away what it holds"
        )


def _take_lock(path: Path) -> int:
    """Lock the file, write the mark and the process id, and return the descriptor."""
    with storage_errors(path, "lock"):
        descriptor = plain(path, os.O_RDWR | os.O_CREAT)
        try:
            lock(descriptor)
            mark = _MARK + f"{os.getpid()}\n".encode()
            write_at(descriptor, mark, 0)
            os.ftruncate(descriptor, len(mark))
        except BlockingIOError:
            holder = head(descriptor, 80).removeprefix(_MARK).decode("ascii", "replace")
            os.close(descriptor)
            number = holder.strip()
            owner = f"process {number}" if number.isdigit() else "another process"
            raise LockedError(
                f"{path.parent}: {owner} is running in this folder; wait for it, stop it, or set "
                "another output"
            ) from None
        except OSError:
            if head(descriptor, len(_MARK)) != _MARK:
                # the next process would not recognise a part of the mark
                os.ftruncate(descriptor, 0)
            os.close(descriptor)
            raise
    _LOCKS.add(descriptor)
    return descriptor


def _let_go() -> None:  # in a fork, which would hold the locks for as long as it lives
    while _LOCKS:
        os.close(_LOCKS.pop())


in_forks(_let_go)
