"""The answer to an example, one line of JSON: its prediction, or why there is none."""

from __future__ import annotations

from typing import Any

import msgspec

from onlinesrl.core.example import Constant, Example
from onlinesrl.core.learner import Outcome
from onlinesrl.stream.records import Record


class Refusal(msgspec.Struct, omit_defaults=True):
    """The answer to a bad example: its line, why it is bad, and its id where it has one."""

    line: int
    error: str
    id: Constant | None = None


_encode = msgspec.json.Encoder().encode


def answer(record: Record, item: Any, outcome: Outcome) -> bytes:
    """Return the answer to an example, or to an ExampleError, as JSON."""
    if outcome.prediction is not None:
        return _encode(outcome.prediction)
    name = item.id if isinstance(item, Example) else None
    return _encode(Refusal(record.line, outcome.error or "", name))
