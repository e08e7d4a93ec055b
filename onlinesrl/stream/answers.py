"""What is said of an example: its prediction, or why there is none; a line each."""

from __future__ import annotations

from typing import Any

import msgspec

from onlinesrl.core.example import Constant, Example
from onlinesrl.core.learner import Outcome
from onlinesrl.stream.files import Record


class Refusal(msgspec.Struct, omit_defaults=True):
    """What is said of a bad example: where it stood, why it is bad, and its id where it has one."""

    line: int
    error: str
    id: Constant | None = None


_encode = msgspec.json.Encoder().encode


def answer(record: Record, item: Any, outcome: Outcome) -> bytes:
    """Return the JSON of what is said of an example, which may be an ExampleError."""
    if outcome.prediction is not None:
        return _encode(outcome.prediction)
    name = item.id if isinstance(item, Example) else None
    return _encode(Refusal(record.line, outcome.error or "", name))
