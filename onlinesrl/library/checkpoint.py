"""A learner's checkpoint on disk, as runs write them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from onlinesrl.core.evaluation.own_metric import AnyMetric
from onlinesrl.core.io.restoring import Natural, converted
from onlinesrl.core.language import Language, language_of
from onlinesrl.core.online.update_rules import AnyUpdate
from onlinesrl.core.version import __version__
from onlinesrl.library.model import Model
from onlinesrl.runs.config.fingerprint import ALWAYS, leaves, section_of
from onlinesrl.runs.config.schema import LabelsSection
from onlinesrl.runs.run import load_checkpoint
from onlinesrl.stream import checkpoints

_PENDING = "labels.pending"


class _Settings(TypedDict):
    """The keys of a fingerprint that are of no section."""

    query: list[str]
    seed: NotRequired[Natural]


class _Own(TypedDict, total=False):
    """What only the library writes."""

    background: dict[str, list[tuple[list[str], float]]]
    by: str | None
    lines: list[dict[str, Any]]
    texts: list[tuple[str | tuple[str, int], str]]


@dataclass(frozen=True)
class Saved:
    """A learner's model text, settings and state; ``own`` is what only the library writes."""

    text: str
    language: Language
    settings: Mapping[str, Any]
    header: dict[str, Any]
    arrays: Mapping[str, Any]
    metrics: Mapping[str, Any]
    own: Mapping[str, Any]
    lacks_facts: bool = False
    labels: Mapping[str, Any] | None = None
    """The header of what waits for labels, and how much may wait."""
    pending: int = 0

    def write(self, path: Path) -> None:
        """Write the checkpoint. Raises StorageError."""
        fingerprint = ALWAYS | dict(leaves(self.settings))
        fingerprint["model"] = hashlib.sha256(self.text.encode()).hexdigest()
        header = {
            "version": __version__,
            "fingerprint": fingerprint,
            "model": self.text,
            "learner": self.header,
            "metrics": self.metrics,
            "library": self.own,
        }
        if self.labels is not None:
            header["labels"], fingerprint[_PENDING] = self.labels, self.pending
        checkpoints.write(path, 1, header, self.arrays)

    @classmethod
    def read(cls, path: Path) -> Saved:
        """Read a checkpoint, or the last of a run folder. Raises StorageError."""
        return cls.of(load_checkpoint(path))

    @classmethod
    def of(cls, checkpoint: checkpoints.Checkpoint) -> Saved:
        """Return what a checkpoint, whose header is checked, holds. Raises Misfit."""
        header = checkpoint.header
        fingerprint = header["fingerprint"]
        language = language_of(f".{header['learner'].get('language', 'mln')}")
        settings: Any = {"seed": 0} | converted(fingerprint, _Settings)
        settings["learner"] = section_of(fingerprint, "learner", AnyUpdate)
        settings["inference"] = section_of(fingerprint, "inference", language.engines)
        names = {key.split(".")[2] for key in fingerprint if key.startswith("metrics.own.")}
        own = {n: section_of(fingerprint, f"metrics.own.{n}", AnyMetric) for n in sorted(names)}
        settings["metrics"] = {"own": own}
        return cls(
            header["model"],
            language,
            settings,
            header["learner"],
            checkpoint.arrays,
            header["metrics"],
            converted(header.get("library", {}), _Own),
            "source.background" in fingerprint,
            header.get("labels"),
            converted(fingerprint.get(_PENDING, LabelsSection().pending), Natural),
        )

    @property
    def facts(self) -> dict[str, dict[tuple[str, ...], float]] | None:
        """The background facts, where the checkpoint holds them."""
        facts = self.own.get("background")
        if facts is None:
            return None
        return {name: {(*args,): value for args, value in rows} for name, rows in facts.items()}

    def model(self) -> Model:
        """Return the model."""
        return Model(self.text, self.language.suffix[1:], file="<checkpoint>", alone=True)
