"""The checkpoints of a run, and the order in which what belongs together is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onlinesrl.core.version import __version__
from onlinesrl.stream import checkpoints
from onlinesrl.stream.checkpoint_copies import CheckpointCopies
from onlinesrl.stream.checkpoints import Checkpoint
from onlinesrl.stream.output_files import Outputs
from onlinesrl.stream.run_folder import RunFolder
from onlinesrl.stream.run_state import RunState
from onlinesrl.stream.source import Source


@dataclass(eq=False)
class Checkpointer:
    """Writes checkpoints of the ``state`` of a run to its folder, and keeps the last ``keep``.

    ``outputs`` are the files that the run writes line by line. ``about`` describes the run: its fingerprint,
    settings and configuration. Methods raise StorageError.
    """

    folder: RunFolder
    state: RunState
    outputs: Outputs
    about: Mapping[str, Any]
    keep: int
    copies: CheckpointCopies | None = None
    number: int = field(default=0, init=False)
    """The number of the last checkpoint."""

    def resume(self, saved: Checkpoint | None) -> None:
        """Resume from a checkpoint, and cut the outputs to it; None: begin anew."""
        if saved is not None:
            self.number = saved.number
            self.state.restore(saved)
        self.outputs.resume(saved.header if saved else {}, self.number)

    def save(self, source: Source) -> None:
        """Write a checkpoint in five steps; a process that ends between two of them can resume."""
        # 1. predictions and alerts, which the sinks do not write again
        for sink in self.state.sinks():
            sink.flush()
        # 2. what the run has written line by line
        self.outputs.begin_parts()
        self.outputs.flush()
        # 3. the state and the position, in one file
        header, arrays = self.state.save()
        arrays |= source.state()
        header |= {"version": __version__, **self.about, **self.outputs.state()}
        if behind := source.lag():
            header["behind"] = behind
        self.number += 1
        folder = self.folder.checkpoints
        path = checkpoints.save(folder, self.number, header, arrays, self.keep)
        if self.copies is not None:
            self.copies.put(path)
        # 4. lines that no checkpoint needs are removed
        self.outputs.saved(self.number)
        # 5. the source may do the same, or tell others
        source.committed(self.state.position, self.number)
