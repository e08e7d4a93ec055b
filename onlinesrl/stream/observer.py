"""Observers of a run: displays, metrics, clients. They hold nothing of the run and do not affect it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from onlinesrl.stream.decoding import Decoded
from onlinesrl.stream.predictions import Result


class Progress(NamedTuple):
    """What a run did in a micro-batch, and how far it has come.

    ``items`` are what was read, ``results`` what came of it; both are empty where the source had nothing.
    ``took`` are the seconds of the micro-batch, ``seconds`` those of the run so far. ``written`` are the
    lines of metrics that were written. ``line`` makes a line of metrics, and ``lag`` tells how
    many records each partition of the source is behind its end; both are valid during the call.
    """

    items: Sequence[Decoded]
    results: Sequence[Result]
    examples: int
    took: float
    seconds: float
    written: Sequence[Mapping[str, Any]]
    line: Callable[[], dict[str, Any]]
    lag: Callable[[], Mapping[str, int]]


class Observer:
    """Is told how a run goes; these methods do nothing."""

    def begin(self, progress: Progress) -> None:
        """Take note that the run has resumed, and begins to read."""

    def batch(self, progress: Progress) -> None:
        """Take note of a micro-batch, which is not yet part of a checkpoint."""

    def saved(self) -> None:
        """Take note that a checkpoint was written."""

    def end(self) -> None:
        """Take note that the run reads no more."""
