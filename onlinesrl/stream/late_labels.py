"""Labels that come later than their example, on a topic of their own or later in the source."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, takewhile
from typing import Any

import msgspec
import numpy as np

from onlinesrl.core.errors import printable
from onlinesrl.core.example import Example, Label
from onlinesrl.core.io.restoring import Expected, Misfit, Natural, converted, restored
from onlinesrl.core.learner import Answered, Prediction
from onlinesrl.stream.records import Record

_encode = msgspec.json.Encoder().encode
_NULL = msgspec.Raw(b"null")


class PendingExample(msgspec.Struct, omit_defaults=True):
    """An example waiting for its label, or a label waiting for its example, as JSON on one line.

    ``prediction`` is the one that was written: null if the example was bad. ``weight`` is the number
    of bytes counted so far. ``file`` and ``line`` are the place of a label.
    """

    text: msgspec.Raw
    prediction: msgspec.Raw = _NULL
    weight: int = 0
    file: str = ""
    line: int = 0

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.text) + (len(self.prediction) if self.predicted else 0)

    @property
    def predicted(self) -> bool:
        """Whether a prediction was written."""
        return self.prediction != _NULL

    @property
    def record(self) -> Record:
        """The record of a label."""
        return Record(bytes(self.text), self.file, self.line, 0, 0)

    def give_out(self, prediction: Prediction | None) -> None:
        """Keep the prediction that was written."""
        self.prediction = msgspec.Raw(_encode(prediction))


class _Header(msgspec.Struct):
    """The header of a checkpoint."""

    expired: Natural
    unmatched: Natural
    refused: Natural = 0
    replaced: dict[str, Natural] = msgspec.field(default_factory=dict)


_EXPECTED = {name: Expected(np.uint8, (name,), 0, 255) for name in ("pending", "early_labels")}


class Shelf(dict[str, PendingExample]):
    """A bounded queue by example id; beyond ``most`` entries or ``max_bytes`` the oldest is dropped.

    ``kind`` is the type of what waits.
    """

    def __init__(self, most: int, max_bytes: int, kind: type[Example | Label]) -> None:
        super().__init__()
        self.kind = kind
        self.most = most
        self.max_bytes = max_bytes
        self.bytes = self.given_up = 0

    def put(self, name: str, waiting: PendingExample) -> None:
        """Add the newest, replacing one with the same id."""
        self.take(name)
        self[name] = waiting
        self.weigh([waiting])

    def weigh(self, entries: Iterable[PendingExample]) -> None:
        """Count all bytes of these, and drop the oldest while there is too much."""
        for waiting in entries:
            self.bytes += waiting.size - waiting.weight
            waiting.weight = waiting.size
        while len(self) > self.most or self.bytes > self.max_bytes:
            self.take(next(iter(self)))
            self.given_up += 1

    def take(self, name: str) -> PendingExample | None:
        """Remove and return one, if it is there."""
        entry = self.pop(name, None)
        if entry is not None:
            self.bytes -= entry.weight
        return entry

    def save(self, later: Iterable[PendingExample] = ()) -> Any:
        """Return all, then ``later``, as lines of JSON, uint8."""
        lines = bytearray()
        for waiting in chain(self.values(), later):
            lines += _encode(waiting)
            lines += b"\n"
        return np.frombuffer(lines, np.uint8)

    def restore(self, lines: Any) -> None:
        """Restore what ``save`` returned. Raises Misfit."""
        for line in lines.tobytes().splitlines():
            try:
                waiting = msgspec.json.decode(line, type=PendingExample)
                name = str(msgspec.json.decode(waiting.text, type=self.kind).id)
                msgspec.json.decode(waiting.prediction, type=Prediction | None)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise Misfit(f"what waits for a label: {error}") from None
            if name in self or not 0 <= waiting.weight <= waiting.size:
                raise Misfit(f"what waits for a label: {name} has a wrong size, or is there twice")
            self[name] = waiting
            self.bytes += waiting.weight


def with_labels(
    contents: Iterable[tuple[Record, Example | Label]],
    most: int,
    fits: Callable[[Record, Label, Example], bool],
) -> Iterator[tuple[Record, Example]]:
    """Yield examples with the labels that come after, or before, them: each as soon as both have come.

    Where more than ``most`` examples wait for a label, the oldest comes without, and so do those that wait
    at the end. Of labels that come before their example, the newest ``most`` are kept. An example whose label
    does not fit, as ``fits`` tells, waits for another one.
    """
    waiting: dict[str, tuple[Record, Example]] = {}
    early: dict[str, tuple[Record, Label]] = {}
    for record, content in contents:
        name = str(content.id)
        if isinstance(content, Example):
            example, label = content, None if content.labelled else early.pop(name, None)
            if label is not None and fits(*label, content):
                example = label[1].of(content)
            if example.labelled:
                yield record, example
                continue
            if name in waiting:
                yield waiting.pop(name)
            waiting[name] = record, example
            if len(waiting) > most:
                yield waiting.pop(next(iter(waiting)))
        elif name in waiting:
            place, example = waiting.pop(name)
            if fits(record, content, example):
                yield place, content.of(example)
            else:
                waiting[name] = place, example
        else:
            early.pop(name, None)
            early[name] = record, content
            if len(early) > most:
                del early[next(iter(early))]
    yield from waiting.values()


class LabelJoiner:
    """Joins examples with labels that come later, or earlier; part of the checkpoint.

    At most ``limit`` examples and as many labels wait, with at most ``max_bytes`` of JSON each;
    beyond that the oldest are dropped.
    """

    def __init__(self, limit: int, max_bytes: int) -> None:
        self.limit = limit
        self.max_bytes = max_bytes
        self.pending = Shelf(limit, max_bytes, Example)
        self.early = Shelf(limit, max_bytes, Label)
        self.refused: dict[str, PendingExample] = {}
        """Examples whose label was bad: they wait for another one, as the newest after the next ``weigh``."""
        self.replaced = Counter[str]()

    def __contains__(self, name: str) -> bool:
        return name in self.pending or name in self.early or name in self.refused

    def early_label(self, example: Example) -> Label | None:
        """Return the label that has come before an example without truth."""
        early = None if example.truth is not None else self.early.get(str(example.id))
        return None if early is None else msgspec.json.decode(early.text, type=Label)

    def wait(self, example: Example) -> PendingExample:
        """Let an example wait for its label."""
        name, waiting = str(example.id), PendingExample(msgspec.Raw(_encode(example)))
        self._count_replaced("examples", self._waiting(name), waiting)
        self.refused.pop(name, None)
        self.pending.put(name, waiting)
        return waiting

    def join(
        self, label: Label, record: Record | None = None
    ) -> tuple[Answered, PendingExample] | None:
        """Return a label's example, and its entry; None: it is not predicted yet, and the label waits."""
        name = str(label.id)
        entry = self._waiting(name)
        if entry is not None and entry.predicted:
            example = msgspec.json.decode(entry.text, type=Example)
            prediction = msgspec.json.decode(entry.prediction, type=Prediction)
            self._take(name)
            return Answered(label.of(example), prediction), entry
        early = PendingExample(msgspec.Raw(_encode(label)))
        if record is not None:
            early.text = msgspec.Raw(b" ".join(record.value.splitlines()))
            early.file = os.fsencode(record.file).decode(errors="backslashreplace")
            early.line = record.line
        self._take(name)
        self._count_replaced("labels", self.early.get(name), early)
        self.early.put(name, early)
        return None

    def refuse(self, name: str, entry: PendingExample) -> None:
        """Let an example wait for another label, after its label turned out to be bad."""
        entry.weight = 0
        self.refused[name] = entry

    def _waiting(self, name: str) -> PendingExample | None:
        return self.refused.get(name) or self.pending.get(name)

    def _take(self, name: str) -> None:
        if self.refused.pop(name, None) is None:
            self.pending.take(name)

    def _count_replaced(self, kind: str, old: PendingExample | None, new: PendingExample) -> None:
        self.replaced[kind] += old is not None and old.text != new.text

    def told(self, label: Label) -> dict[str, Any]:
        """Return what became of a label that ``join`` let wait, for the client that sent it."""
        if str(label.id) not in self.early:
            became = "an example came after it, or it was dropped for newer labels (labels.pending)"
            return {"id": label.id, "waits": False, "label": became}
        became = (
            "not learned: it waits for an example with this id and without truth, until "
            f"{self.limit} newer labels wait (labels.pending)"
        )
        return {"id": label.id, "waits": True, "label": became, "labels_waiting": len(self.early)}

    def weigh(self) -> None:
        """Add the bytes of predictions that have been written to the bytes that waiting examples take.

        Examples whose label was bad take their place again. The moment of the call must not depend on
        micro-batches.
        """
        newest = reversed(self.pending.values())
        fresh = takewhile(lambda waiting: waiting.weight <= len(waiting.text), newest)
        self.pending.weigh([*fresh])
        for name, entry in self.refused.items():
            self.pending.put(name, entry)
        self.refused.clear()

    def counts(self) -> dict[str, int]:
        """Return how many wait, and how many were dropped."""
        return {
            "pending": len(self.pending) + len(self.refused),
            "early_labels": len(self.early),
            "expired": self.pending.given_up,
            "unmatched_labels": self.early.given_up,
        }

    def complaints(self, ended: bool) -> list[str]:
        """Return messages about what was dropped; at the end, about labels without an example."""
        more = (
            f"more than labels.pending ({self.limit}) or labels.max_bytes ({self.max_bytes}) waited"
        )
        given_up = {
            "examples": self.pending.given_up,
            "labels without an example": self.early.given_up,
        }
        complaints = [f"{n} {kind} were dropped: {more}" for kind, n in given_up.items() if n]
        complaints += [
            f"{n} {kind} that waited were replaced by others with the same id: of these only the last counts"
            for kind, n in self.replaced.items()
            if n
        ]
        if ended and self.early:
            first = printable(next(iter(self.early)))
            complaints.append(
                f"{len(self.early)} labels met no example without truth; the first is of {first}"
            )
        return complaints

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint: the refused examples are the last that wait."""
        header = {
            "expired": self.pending.given_up,
            "unmatched": self.early.given_up,
            "refused": len(self.refused),
            "replaced": dict(self.replaced),
        }
        return header, {
            "pending": self.pending.save(self.refused.values()),
            "early_labels": self.early.save(),
        }

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Restore what ``save`` returned. Raises Misfit."""
        saved = converted(header, _Header)
        waiting = restored(arrays, _EXPECTED)
        self.pending.restore(waiting["pending"])
        self.early.restore(waiting["early_labels"])
        self.pending.given_up, self.early.given_up = saved.expired, saved.unmatched
        self.replaced = Counter(saved.replaced)
        if saved.refused > len(self.pending):
            raise Misfit(f"{saved.refused} examples whose label was bad, of {len(self.pending)}")
        for name in [*self.pending][len(self.pending) - saved.refused :]:
            self.refused[name] = self.pending[name]
            self.pending.take(name)
