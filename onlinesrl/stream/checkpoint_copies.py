"""Copies of a run's checkpoints at an address such as s3://bucket/run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.core.io.remote import opened, unreachable
from onlinesrl.stream.checkpoints import NAME, DamagedCheckpoint, load, write
from onlinesrl.stream.run_folder import REQUESTS, RunFolder, parts


class CheckpointCopies:
    """The newest ``keep`` checkpoints of a run at an address, and the list of the files it has read.

    A copy has another name until it is whole. A copy that fails is counted in ``failures`` and warned of,
    and does not stop the run.
    """

    def __init__(
        self, address: str, keep: int, folder: RunFolder, warn: Callable[[str], None]
    ) -> None:
        self.address = address.rstrip("/")
        self.keep = keep
        self.folder = folder
        self.warn = warn
        self.failures = 0
        self._files, self._root = opened(self.address)
        self._list = f"{self._root}/{folder.files.name}"
        self._listed = 0

    def put(self, path: Path) -> None:
        """Copy a checkpoint, then remove all but the newest up to it."""
        try:
            self._files.makedirs(self._root, exist_ok=True)
            size = self.folder.files.stat().st_size if self.folder.files.exists() else 0
            if size != self._listed:  # before the checkpoint, which counts these files
                self._put(self.folder.files)
                self._listed = size
            self._put(path)
            copies, number = self._numbered(), int(path.stem.rpartition("-")[2])
            newest = sorted(other for other in copies if other <= number)[-self.keep :]
            for other in copies.keys() - set(newest):
                self._files.rm_file(copies[other])
        except Exception as error:
            self.failures += 1
            reason = unreachable(f"{self.address}/{path.name}", "write", error)
            self.warn(f"{reason}; the next checkpoint is copied again")

    def _put(self, path: Path) -> None:
        temporary = f"{self._root}/.{path.name}.tmp"
        self._files.put_file(str(path), temporary)
        self._files.mv(temporary, f"{self._root}/{path.name}")

    def clear(self) -> None:
        """Remove the copies. Raises StorageError."""
        try:
            for copy in self._numbered().values():
                self._files.rm_file(copy)
            if self._files.exists(self._list):
                self._files.rm_file(self._list)
        except Exception as error:
            raise unreachable(self.address, "remove copies", error) from error

    def fetch(self, serving: bool) -> int:
        """Write the intact copies to the folder, which has no checkpoint, newest first; return their number.

        What the run wrote before is not there: outputs have length 0, and requests to learn begin anew where
        the run is ``serving``. Raises StorageError if the address cannot be read, or no copy is intact, since
        starting empty would hide that.
        """
        count, folder = 0, self.folder.checkpoints
        requests = parts(self.folder.requests)
        is_lost = serving and not any(part.stat().st_size for part in requests)
        try:
            copies = self._numbered()
            if copies and self._files.exists(self._list):
                self._files.get_file(self._list, str(self.folder.files))
        except Exception as error:
            raise unreachable(self.address, "list copies", error) from error
        for number in sorted(copies, reverse=True):
            name = Path(copies[number]).name
            temporary = folder / f".{name}.tmp"
            try:
                self._files.get_file(copies[number], str(temporary))
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

    def _numbered(self) -> dict[int, str]:
        self._files.invalidate_cache()
        try:
            paths = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return {}
        names = {path: NAME.fullmatch(path.rpartition("/")[2]) for path in paths}
        return {int(match[1]): path for path, match in names.items() if match}
