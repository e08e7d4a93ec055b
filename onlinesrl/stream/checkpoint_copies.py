"""Copies of a run's checkpoints at an address such as s3://bucket/run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.core.io.remote import opened, unreachable
from onlinesrl.stream.checkpoints import NAME, DamagedCheckpoint, load, write


class CheckpointCopies:
    """The newest ``keep`` checkpoints at an address.

    A copy has another name until it is whole. A copy that fails is counted in ``failures`` and warned of,
    and does not stop the run.
    """

    def __init__(self, address: str, keep: int, warn: Callable[[str], None]) -> None:
        self.address = address.rstrip("/")
        self.keep = keep
        self.warn = warn
        self.failures = 0
        self._files, self._root = opened(self.address)

    def put(self, path: Path) -> None:
        """Copy a checkpoint, then remove all but the newest up to it."""
        try:
            self._files.makedirs(self._root, exist_ok=True)
            temporary, copy = f"{self._root}/.{path.name}.tmp", f"{self._root}/{path.name}"
            self._files.put_file(str(path), temporary)
            self._files.mv(temporary, copy)
            copies, number = self._numbered(), int(path.stem.rpartition("-")[2])
            newest = sorted(other for other in copies if other <= number)[-self.keep :]
            for other in copies.keys() - set(newest):
                self._files.rm_file(copies[other])
        except Exception as error:
            self.failures += 1
            reason = unreachable(f"{self.address}/{path.name}", "write", error)
            self.warn(f"{reason}; the next checkpoint is copied again")

    def clear(self) -> None:
        """Remove the copies. Raises StorageError."""
        try:
            for copy in self._numbered().values():
                self._files.rm_file(copy)
        except Exception as error:
            raise unreachable(self.address, "remove copies", error) from error

    def fetch(self, folder: Path) -> int:
        """Write the intact copies to an empty folder of checkpoints, newest first; return their number.

        The outputs before them are not there: in the folder they have length 0. Raises StorageError if the
        address cannot be read, or no copy is intact, since starting empty would hide that.
        """
        count = 0
        try:
            copies = self._numbered()
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
            write(folder / name, saved.number, header | {"lengths": {}}, saved.arrays)
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
