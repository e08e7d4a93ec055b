"""Truth that comes later than its example, on a topic of its own or further down the stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any

import msgspec
import numpy as np

from onlinesrl.core.errors import printable
from onlinesrl.core.example import Constant, Example, Label
from onlinesrl.core.learner import Answered, Prediction

_encode = msgspec.json.Encoder().encode
_NULL = msgspec.Raw(b"null")


class Waiting(msgspec.Struct):
    """An example without its truth, or a truth without its example, as JSON, which takes the least room.

    ``prediction`` is what was given out for the example: null where it was bad. ``weight`` is how many
    bytes count so far.
    """

    text: msgspec.Raw
    prediction: msgspec.Raw = _NULL
    weight: int = 0

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.text) + (len(self.prediction) if self.predicted else 0)

    @property
    def predicted(self) -> bool:
        """Whether anything was given out."""
        return self.prediction != _NULL

    def give_out(self, prediction: Prediction | None) -> None:
        """Note what was given out."""
        self.prediction = msgspec.Raw(_encode(prediction))


class _Named(msgspec.Struct):
    id: Constant


class _Shelf(dict[str, Waiting]):
    """What waits, by the example's name: at most so many, of so many bytes, the oldest given up."""

    def __init__(self, most: int, max_bytes: int) -> None:
        super().__init__()
        self.most = most
        self.max_bytes = max_bytes
        self.bytes = self.given_up = 0

    def put(self, name: str, waiting: Waiting) -> None:
        """Add the newest, in place of one with its name."""
        self.take(name)
        self[name] = waiting
        self.weigh([waiting])

    def weigh(self, some: Iterable[Waiting]) -> None:
        """Let all bytes of these count, and give up the oldest where it is too much."""
        for waiting in some:
            self.bytes += waiting.size - waiting.weight
            waiting.weight = waiting.size
        while len(self) > self.most or self.bytes > self.max_bytes:
            self.take(next(iter(self)))
            self.given_up += 1

    def take(self, name: str) -> Waiting | None:
        """Remove one, if it is there."""
        found = self.pop(name, None)
        if found is not None:
            self.bytes -= found.weight
        return found

    def copy(self) -> _Shelf:
        """Return what waits now."""
        copied = _Shelf(self.most, self.max_bytes)
        copied.update(self)
        copied.bytes, copied.given_up = self.bytes, self.given_up
        return copied

    def save(self) -> Any:
        """Return all as lines of JSON, uint8."""
        lines = bytearray()
        for waiting in self.values():
            lines += _encode(waiting)
            lines += b"\n"
        return np.frombuffer(lines, np.uint8)

    def restore(self, lines: Any) -> None:
        """Go on from what ``save`` returned."""
        for line in lines.tobytes().splitlines():
            waiting = msgspec.json.decode(line, type=Waiting)
            self[str(msgspec.json.decode(waiting.text, type=_Named).id)] = waiting
            self.bytes += waiting.weight


class Labels:
    """Examples that wait for their truth, and truths that wait for their example, the oldest given up.

    At most ``limit`` of each are kept, and ``max_bytes`` of their JSON; they are part of the checkpoint.
    """

    def __init__(self, limit: int, max_bytes: int) -> None:
        self.limit = limit
        self.max_bytes = max_bytes
        self.pending = _Shelf(limit, max_bytes)
        self.early = _Shelf(limit, max_bytes)

    def meet(self, example: Example) -> Example | Waiting:
        """Return an example with its truth if it is there; else let it wait for it."""
        if example.truth is not None:
            return example
        name = str(example.id)
        if name in self.early:
            truth = msgspec.json.decode(self.early[name].text, type=Label).truth
            self.early.take(name)
            return msgspec.structs.replace(example, truth=truth)
        waiting = Waiting(msgspec.Raw(_encode(example)))
        self.pending.put(name, waiting)
        return waiting

    def join(self, label: Label) -> Answered | None:
        """Return the example of a truth; None: nothing has been said of it, and the truth waits."""
        name = str(label.id)
        found = self.pending.get(name)
        if found is not None and found.predicted:
            example = msgspec.json.decode(found.text, type=Example)
            prediction = msgspec.json.decode(found.prediction, type=Prediction)
            self.pending.take(name)
            return Answered(msgspec.structs.replace(example, truth=label.truth), prediction)
        early = Waiting(msgspec.Raw(_encode(label)))
        self.pending.take(name)
        self.early.put(name, early)
        return None

    def weigh(self) -> None:
        """Let the predictions that were given out count too.

        When this is done may not depend on how examples fall into micro-batches.
        """
        newest = reversed(self.pending.values())
        fresh = takewhile(lambda waiting: waiting.weight <= len(waiting.text), newest)
        self.pending.weigh([*fresh])

    def copy(self) -> Labels:
        """Return what waits now, to go back to."""
        copied = Labels(self.limit, self.max_bytes)
        copied.pending, copied.early = self.pending.copy(), self.early.copy()
        return copied

    def counts(self) -> dict[str, int]:
        """Return how many wait, and how many were given up."""
        return {
            "pending": len(self.pending),
            "early_labels": len(self.early),
            "expired": self.pending.given_up,
            "unmatched_labels": self.early.given_up,
        }

    def complaints(self, ended: bool) -> list[str]:
        """Say what was given up because too much waited; at the end, which truths met no example."""
        more = (
            f"more than labels.pending ({self.limit}) or labels.max_bytes ({self.max_bytes}) waited"
        )
        given_up = {
            "examples": self.pending.given_up,
            "labels without an example": self.early.given_up,
        }
        found = [f"{n} {what} were given up: {more}" for what, n in given_up.items() if n]
        if ended and self.early:
            first = printable(next(iter(self.early)))
            found.append(
                f"{len(self.early)} labels met no example without truth; the first is of {first}"
            )
        return found

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""
        header = {"expired": self.pending.given_up, "unmatched": self.early.given_up}
        return header, {"pending": self.pending.save(), "early_labels": self.early.save()}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Go on from what ``save`` returned."""
        if "pending" in header:
            self._restore_old(header)
        else:
            self.pending.restore(arrays["pending"])
            self.early.restore(arrays["early_labels"])
        self.pending.given_up, self.early.given_up = header["expired"], header["unmatched"]

    def _restore_old(self, header: Mapping[str, Any]) -> None:
        """Go on from a checkpoint that was written before there was ``max_bytes``."""
        for each in header["pending"]:
            text, prediction = (msgspec.Raw(_encode(each[k])) for k in ("example", "prediction"))
            self.pending.put(str(each["example"]["id"]), Waiting(text, prediction))
        for each in header["early"]:
            self.early.put(str(each["id"]), Waiting(msgspec.Raw(_encode(each))))
