"""The answer to an example: lines of JSON with its prediction, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from onlinesrl.core.example import Constant, show_ground_atom
from onlinesrl.core.learner import Answered, Item, Outcome, Prediction
from onlinesrl.stream.records import Record
from onlinesrl.stream.world_changes import WorldStep


class Refusal(msgspec.Struct, omit_defaults=True):
    """The answer to a bad example: its line, why it is bad, and its id where it has one."""

    line: int
    error: str
    id: Constant | None = None


class Result:
    """The outcome of an item of a record, and its answer as JSON, which is encoded once.

    ``example`` is the item's example, with its truth if known, or why there is none.
    """

    __slots__ = ("_answer", "example", "item", "outcome", "record")

    def __init__(self, record: Record, item: Item, outcome: Outcome) -> None:
        self.record, self.item, self.outcome = record, item, outcome
        self.example = item.example if isinstance(item, Answered) else item
        self._answer: bytes | None = None

    @property
    def name(self) -> str | None:
        """The id of the example, where it has one."""
        return None if self.example.id is None else str(self.example.id)

    @property
    def answer(self) -> bytes:
        """The answer, also to an ExampleError."""
        if self._answer is None:
            outcome, item = self.outcome, self.item
            told: Prediction | Refusal | None = outcome.prediction
            if told is None:
                name = None if isinstance(item, Answered) else item.id
                told = Refusal(self.record.line, outcome.error or "", name)
            self._answer = _encode(told)
        return self._answer

    def messages(self) -> Iterator[Message]:
        """Yield what a sink writes: of a step of a world a message for each atom that it changed.

        The last of these also has the next best states.
        """
        prediction = self.outcome.prediction
        if not isinstance(prediction, WorldStep):
            name = "" if prediction is None else str(prediction.id)
            yield Message(name, self.answer)
            return
        for atom in prediction.changed:
            key = show_ground_atom(atom.predicate, atom.args)
            fields: dict[str, Any] = {"id": prediction.id, "certified": prediction.certified}
            if atom is prediction.changed[-1] and prediction.best is not None:
                fields["best"] = prediction.best
            yield Message(key, _encode(msgspec.to_builtins(atom) | fields), atom.value is None)


class Message(NamedTuple):
    """A line of a sink, and the key that it has there. If it is ``gone``, there is no such key any more."""

    key: str
    value: bytes
    gone: bool = False


_encode = msgspec.json.Encoder().encode
