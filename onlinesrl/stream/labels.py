"""Truth that comes later than its example, on a topic of its own or further down the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from onlinesrl.lang.example import Atoms, Example, Label


class Labels:
    """Examples that wait for their truth, and truths that wait for their example, the oldest given up.

    At most ``limit`` of each are kept; they are part of the checkpoint.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.pending: dict[str, Example] = {}
        self.early: dict[str, Atoms] = {}
        self.expired = 0
        self.unmatched = 0

    def meet(self, example: Example) -> Example:
        """Return an example with its truth if that is there; else let it wait for it."""
        if example.truth is not None:
            return example
        name = str(example.id)
        if name in self.early:
            return msgspec.structs.replace(example, truth=self.early.pop(name))
        self.pending.pop(name, None)
        self.pending[name] = example
        if len(self.pending) > self.limit:
            del self.pending[next(iter(self.pending))]
            self.expired += 1
        return example

    def join(self, label: Label) -> Example | None:
        """Return the example of a truth; None: it has not been there, and the truth waits for it."""
        name = str(label.id)
        example = self.pending.pop(name, None)
        if example is not None:
            return msgspec.structs.replace(example, truth=label.truth)
        self.early.pop(name, None)
        self.early[name] = label.truth
        if len(self.early) > self.limit:
            del self.early[next(iter(self.early))]
            self.unmatched += 1
        return None

    def counts(self) -> dict[str, int]:
        """Return how many wait, and how many were given up."""
        return {
            "pending": len(self.pending),
            "early_labels": len(self.early),
            "expired": self.expired,
            "unmatched_labels": self.unmatched,
        }

    def save(self) -> dict[str, Any]:
        """Return all as JSON can hold it."""
        return {
            "pending": msgspec.to_builtins(list(self.pending.values())),
            "early": msgspec.to_builtins([Label(id=n, truth=t) for n, t in self.early.items()]),
            "expired": self.expired,
            "unmatched": self.unmatched,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what ``save`` returned."""
        pending = msgspec.convert(saved["pending"], list[Example])
        early = msgspec.convert(saved["early"], list[Label])
        self.pending = {str(example.id): example for example in pending}
        self.early = {str(label.id): label.truth for label in early}
        self.expired, self.unmatched = saved["expired"], saved["unmatched"]
