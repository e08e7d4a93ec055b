"""What came of each fold, a line each, so that a comparison that was killed goes on where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from onlinesrl.core.example import Example
from onlinesrl.core.io.atomic_write import json_lines, plain, read_plain, storage_errors
from onlinesrl.core.version import __version__
from onlinesrl.runs.comparison.candidates import Configured, Overrides
from onlinesrl.runs.comparison.scoring import Score
from onlinesrl.runs.config.schema import Config

JOURNAL = "comparison.jsonl"


class Kept(msgspec.Struct, array_like=True, frozen=True):
    """A score, what tuning chose, and the digest of all that they depend on."""

    key: str
    score: Score
    chosen: Overrides


class Journal:
    """The scores of a comparison that did not end, and those that are added.

    ``stale`` are files of an earlier comparison, which are removed when the first score is added; its
    scores do not count. Raises StorageError where the file
    cannot be read or written, or is damaged but for its last line.
    """

    def __init__(self, folder: Path, stale: Sequence[Path] = ()) -> None:
        self.path = folder / JOURNAL
        self.known: dict[str, Kept] = {}
        self._stale = [*stale]
        if not stale and self.path.exists():
            with storage_errors(self.path, "read"):
                written = read_plain(self.path)
            with storage_errors(self.path, "write"), open(self.path, "r+b", opener=plain) as file:
                file.truncate(written.rfind(b"\n") + 1)  # a torn last line is cut off
            results = (msgspec.convert(line, Kept) for line in json_lines(self.path, Kept))
            self.known = {result.key: result for result in results}

    def add(self, result: Kept) -> None:
        """Add a score."""
        with storage_errors(self.path, "write"):
            while self._stale:
                self._stale.pop().unlink(missing_ok=True)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab", opener=plain) as file:
                file.write(msgspec.json.encode(result) + b"\n")


def digest(*parts: object) -> str:
    """Return a digest of what can be written as JSON."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def digest_of_examples(examples: Iterable[Example]) -> str:
    """Return a digest of examples in their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(msgspec.json.encode(example) + b"\n")
    return digest.hexdigest()


def digest_of_candidate(configs: Sequence[Configured], model: str, metric: str) -> str:
    """Return a digest of what a candidate's scores depend on, but for the examples.

    ``configs`` are its alternatives, ``model`` the text of all of them.
    """
    settings = [{**config.as_dict(), "output": None} for config in configs]
    files = [
        config.fingerprint(model)
        if isinstance(config, Config)
        else [model, *(path.read_text(errors="replace") for path in config.source.background or ())]
        for config in configs
    ]
    return digest(__version__, metric, settings, files)
