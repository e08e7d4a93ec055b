"""Copies of a run's checkpoints, and of files that they need, at an address such as s3://bucket/run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from onlinesrl.core.io.atomic_write import read_plain, storage_errors, write_atomic
from onlinesrl.core.io.remote import opened, unreachable
from onlinesrl.stream.checkpoints import NAME, DamagedCheckpoint, load, numbered, write
from onlinesrl.stream.daemon_calls import RemoteCalls, attended
from onlinesrl.stream.run_folder import REQUESTS, RunFolder, parts

OWNER = "owner"
"""The file at the address with the name of the run that copies there, as in `copies` in its folder."""


class CheckpointCopies:
    """The newest ``keep`` checkpoints of a run at an address, and the files of its folder that they need.

    A context manager. They are copied by a thread of its own, the newest first; one that a newer one has
    replaced meanwhile is not copied. A copy has another name until it is whole. One that fails is counted in
    ``failures`` and warned of, and tried again. At the end the last copy is waited for, for a limited time.
    """

    def __init__(
        self,
        address: str,
        keep: int,
        folder: RunFolder,
        warn: Callable[[str], None],
        stopping: Callable[[], bool],
    ) -> None:
        self.address = address.rstrip("/")
        self.keep = keep
        self.folder = folder
        self.warn = warn
        self.stopping = stopping
        self._calls = RemoteCalls("checkpoints are not copied", 1, warn)
        self._files, self._root = opened(self.address)
        self._first = self._newest = 0
        """The number of the first checkpoint that this process has written, and of its newest."""
        self._copied = set[int]()
        """The checkpoints that this process has copied."""
        self._listed = b""
        self._journal: dict[str, int] = {}
        """The parts of the journal of linked rows that this process has copied, and their sizes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for the last copy, unless a second signal ends the run."""
        if kind is not None and not issubclass(kind, Exception):
            return
        self._calls.end(self.stopping)
        if max(self._copied, default=0) < self._newest:
            self.warn(f"{self.address}: the last checkpoint, number {self._newest}, is not copied")

    @property
    def failures(self) -> int:
        """How many copies failed."""
        return self._calls.failures

    def put(self, path: Path) -> None:
        """Have a checkpoint copied, and all copies removed but the newest up to it."""
        self._newest = int(path.stem.rpartition("-")[2])
        self._first = self._first or self._newest
        self._calls.begin(self.copy)

    def copy(self) -> None:
        """Copy what this process has written and the address lacks. If that fails, call it again later.

        Raises StorageError.
        """
        newest = self._newest
        try:
            sizes = self._sizes()
            self._check_owner(sizes)
            self._copy_list(sizes)  # before checkpoints, which count its lines
            journal = self._copy_journal(sizes)
            remote = _by_number(sizes)
            written = numbered(self.folder.checkpoints)
            local = {number: path for number, path in written.items() if number >= self._first}
            chosen = sorted(n for n in {*remote, *local} if n <= newest)[-self.keep :]
            for number in sorted(local.keys() & set(chosen), reverse=True):
                if not self._copy_one(number, local[number], sizes):
                    return
            self._copied &= set(chosen)
            needless = [remote[number] for number in remote.keys() - set(chosen)]
            needless += [name for name in self._journal_in(sizes) if name not in journal]
            for name in needless:
                self._files.rm_file(f"{self._root}/{name}")
        except Exception as error:
            self._calls.begin(self.copy)
            raise unreachable(self.address, "write", error) from error

    def _copy_one(self, number: int, path: Path, sizes: Mapping[str, int]) -> bool:
        """Copy a checkpoint, unless it has a whole copy. Return False if it was replaced by a newer one."""
        temporary = f"{self._root}/.{path.name}.tmp"
        try:
            size = path.stat().st_size
            if number in self._copied and sizes.get(path.name) == size:
                return True
            self._files.put_file(str(path), temporary)
        except FileNotFoundError:
            if path.exists():
                raise
            return False
        if self._files.size(temporary) != size:
            raise OSError(f"{path.name} was copied in part")
        self._files.mv(temporary, f"{self._root}/{path.name}")
        self._copied.add(number)
        return True

    def _copy_list(self, sizes: Mapping[str, int]) -> None:
        """Copy the whole lines of the list of files, unless that was done."""
        file = self.folder.files
        if not file.exists():
            return
        text = read_plain(file)
        text = text[: text.rfind(b"\n") + 1]
        if text != self._listed or sizes.get(file.name) != len(text):
            self._put(file.name, text)
            self._listed = text

    def _copy_journal(self, sizes: Mapping[str, int]) -> set[str]:
        """Copy the journal of linked rows, where that was not done, and return the names of its parts."""
        paths = parts(self.folder.linked)
        for path in paths:
            with suppress(FileNotFoundError):  # no checkpoint needs it any more
                size = path.stat().st_size
                if size != self._journal.get(path.name) or path.name not in sizes:
                    temporary = f"{self._root}/.{path.name}.tmp"
                    self._files.put_file(str(path), temporary)
                    self._files.mv(temporary, f"{self._root}/{path.name}")
                    self._journal[path.name] = size
        return {path.name for path in paths}

    def _journal_in(self, sizes: Mapping[str, int]) -> list[str]:
        """Return the names of the parts of the journal of linked rows at the address."""
        return [name for name in sizes if name.startswith(self.folder.linked.name)]

    def _put(self, name: str, content: bytes) -> None:
        temporary = f"{self._root}/.{name}.tmp"
        self._files.pipe_file(temporary, content)
        self._files.mv(temporary, f"{self._root}/{name}")

    def _check_owner(self, sizes: Mapping[str, int]) -> None:
        """Note at the address that the copies are of this run. Raises OSError if they are of another."""
        if not self.folder.copies.exists():
            write_atomic(self.folder.copies, uuid.uuid4().hex.encode())
        name = read_plain(self.folder.copies)
        if OWNER not in sizes:
            self._files.makedirs(self._root, exist_ok=True)
            self._put(OWNER, name)
        elif self._files.cat_file(f"{self._root}/{OWNER}") != name:
            raise OSError("another run copies there; each needs an address of its own")

    def clear(self) -> None:
        """Remove the copies. Raises StorageError."""
        try:
            sizes = self._sizes()
            own = (
                *_by_number(sizes).values(),
                *self._journal_in(sizes),
                self.folder.files.name,
                OWNER,
            )
            for name in own:
                if name in sizes:
                    self._files.rm_file(f"{self._root}/{name}")
        except Exception as error:
            raise unreachable(self.address, "remove copies", error) from error

    def fetch(self, serving: bool) -> int:
        """Write the intact copies to the folder, which has no checkpoint, newest first; return their number.

        From now on the copies are those of this run. What the run wrote before is not there: outputs have
        length 0, and requests to learn begin anew where the run is ``serving``. Raises StorageError if the
        address cannot be read or written, or no copy is intact, since starting empty would hide that;
        Stopped.
        """
        return attended(lambda: self._fetch(serving), self.stopping)

    def _fetch(self, serving: bool) -> int:
        count, folder = 0, self.folder.checkpoints
        requests = parts(self.folder.requests)
        is_lost = serving and not any(part.stat().st_size for part in requests)
        try:
            sizes = self._sizes()
            copies = _by_number(sizes)
            if copies and self.folder.files.name in sizes:
                listed = f"{self._root}/{self.folder.files.name}"
                self._files.get_file(listed, str(self.folder.files))
            for name in self._journal_in(sizes) if copies else ():
                self._files.get_file(f"{self._root}/{name}", str(self.folder.path / name))
        except Exception as error:
            raise unreachable(self.address, "list copies", error) from error
        self.folder.copies.unlink(missing_ok=True)
        try:
            self._check_owner({})
        except Exception as error:
            raise unreachable(self.address, "write", error) from error
        for number in sorted(copies, reverse=True):
            name = copies[number]
            temporary = folder / f".{name}.tmp"
            try:
                self._files.get_file(f"{self._root}/{name}", str(temporary))
            except Exception as error:
                raise unreachable(f"{self.address}/{name}", "read", error) from error
            try:
                saved = load(temporary)
            except DamagedCheckpoint as error:
                self.warn(f"damaged copy of a checkpoint skipped: {self.address}: {error}")
                continue
            finally:
                with storage_errors(temporary, "remove"):
                    temporary.unlink()
            header = {key: value for key, value in saved.header.items() if key != "parts"}
            header["lengths"] = {}
            path = (header["position"] or {}).get("path", "")
            if is_lost and Path(path).name.startswith(REQUESTS):
                header["position"] = None
            write(folder / name, saved.number, header, saved.arrays)
            count += 1
        if copies and not count:
            raise DamagedCheckpoint(
                f"{self.address}: none of the {len(copies)} copies is intact; start over with --fresh"
            )
        return count

    def _sizes(self) -> dict[str, int]:
        """Return the sizes of the files at the address, by name."""
        self._files.invalidate_cache()
        try:
            entries = self._files.ls(self._root, detail=True)
        except FileNotFoundError:
            return {}
        return {entry["name"].rpartition("/")[2]: entry["size"] for entry in entries}


def _by_number(names: Iterable[str]) -> dict[int, str]:
    """Return the names of checkpoints by their numbers."""
    matches = (NAME.fullmatch(name) for name in names)
    return {int(match[1]): match[0] for match in matches if match}
