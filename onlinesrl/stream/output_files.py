"""The files that a run writes line by line, and how long each was at a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onlinesrl.stream.checkpoints import NeededParts
from onlinesrl.stream.dead_letters import DeadLetters
from onlinesrl.stream.run_folder import PARTS, OutputFile, RunFolder


class Outputs:
    """Predictions, metrics, dead letters, and ``alerts`` if asked for. Lines that checkpoints need stay.

    If a file has more than ``most`` bytes, its oldest lines are removed; None keeps all. All methods
    raise StorageError.
    """

    def __init__(self, folder: RunFolder, most: int | None = None, alerts: bool = False) -> None:
        self.predictions = OutputFile(folder.predictions)
        self.metrics = OutputFile(folder.metrics)
        self.dead = DeadLetters(folder.deadletter)
        self.files: dict[str, OutputFile] = {
            "predictions": self.predictions,
            "metrics": self.metrics,
            "deadletter": self.dead,
        }
        if alerts:
            self.files["alerts"] = OutputFile(folder.alerts)
        self.most = most
        self._needed = NeededParts(folder.checkpoints)

    def resume(self, header: Mapping[str, Any], number: int) -> None:
        """Cut the files to their length at a checkpoint; without one, empty them."""
        for name, file in self.files.items():
            part = header.get("parts", {}).get(name, 0)
            file.resume(part, header.get("lengths", {}).get(name, 0))
        self._note(number)

    def flush(self) -> None:
        """Write out all files, and wait until they are on disk."""
        for file in self.files.values():
            file.flush()

    def begin_parts(self) -> None:
        """Begin a new part of each long file. To be called before a checkpoint is written."""
        for file in self.files.values():
            if self.most is not None and file.length > self.most // PARTS:
                file.begin_part()

    def state(self) -> dict[str, dict[str, int]]:
        """Return the lengths of the files for a checkpoint."""
        state = {"lengths": {name: file.length for name, file in self.files.items()}}
        if any(file.part for file in self.files.values()):
            state["parts"] = {name: file.part for name, file in self.files.items()}
        return state

    def saved(self, number: int) -> None:
        """Remove the oldest lines that no checkpoint needs, if there are too many, after a checkpoint."""
        if self.most is None:
            return
        self._note(number)
        for file, part in zip(self.files.values(), self._needed.oldest(), strict=False):
            file.forget(part, self.most)

    def _note(self, number: int) -> None:
        self._needed.note(number, *(file.part for file in self.files.values()))

    def close(self) -> None:
        """Close the files."""
        for file in self.files.values():
            file.close()
