"""The writing of a run's checkpoints, by another thread while learning goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from onlinesrl.core.parallel.threads import BackgroundWorker
from onlinesrl.stream import checkpoints
from onlinesrl.stream.recent_examples import Shown
from onlinesrl.stream.run_folder import OutputFile

COPIED_BYTES = 64 << 20
"""Arrays of more bytes are written at once: two of them are never in memory."""


class CheckpointWriter:
    """Writes checkpoints to a folder, of which it keeps ``keep``, after what the outputs have."""

    def __init__(self, folder: Path, keep: int, outputs: Sequence[OutputFile]) -> None:
        self.folder = folder
        self.keep = keep
        self.outputs = outputs
        self._other = BackgroundWorker(threaded=False)

    @contextmanager
    def aside(self, threaded: bool) -> Iterator[None]:
        """Have another thread, if ``threaded``; where this ends, it has written what it was given."""
        with BackgroundWorker(threaded) as self._other:
            try:
                yield
            finally:
                self._other.wait()

    def finish(self) -> None:
        """Wait until the last checkpoint is written; raises what kept it from that."""
        while len(self._other):
            self._other.take()

    def write(
        self,
        number: int,
        header: dict[str, Any],
        arrays: Mapping[str, Any],
        shown: Shown,
        aside: bool,
    ) -> None:
        """Write the outputs to disk, then a checkpoint; ``aside``: the other thread does, as things are now.

        ``finish`` has been called. Raises StorageError.
        """
        for file in self.outputs:
            file.flush(fsync=False)
        if aside and sum(array.nbytes for array in arrays.values()) <= COPIED_BYTES:
            copies = {name: array.copy() for name, array in arrays.items()}
            self._other.begin(self._put, number, msgspec.to_builtins(header), copies, shown.copy())
        else:
            self._put(number, header, arrays, shown)

    def _put(
        self, number: int, header: dict[str, Any], arrays: Mapping[str, Any], shown: Shown
    ) -> None:
        for file in self.outputs:
            file.sync()
        header["shown"] = shown.save()
        checkpoints.save(self.folder, number, header, arrays, self.keep)
