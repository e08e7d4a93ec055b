"""Sources of somebody's own: records, each with the position after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

from onlinesrl.core.errors import ModuleError
from onlinesrl.stream.records import Record
from onlinesrl.stream.source import (
    IteratedSource,
    Source,
    SourceContext,
    SourcePosition,
    SourceSection,
)

Positioned: TypeAlias = Iterator[tuple[bytes, Any] | None]


class RecordSource(SourceSection, ABC):
    """Where examples come from: the base class of sources of one's own."""

    live: ClassVar[bool] = False
    """Whether records may arrive at any time, so that a run never finishes."""

    @abstractmethod
    def records(self, position: Any) -> Positioned:
        """Yield the records after a position, each with the position after it; None: no more for now.

        A record is a line of JSON. A position is a value that JSON holds exactly; None is the start. The same
        position must give the same records again. No wait before None or a record may be long, since a run
        ends between them.
        """

    def make(self, setting: SourceContext) -> Source:
        """See ``SourceSection.make``."""
        return OwnRecords(self.kind, self.records, self.max_bytes, self.live)


class OwnRecords(IteratedSource):
    """The records of a source called ``name``; its positions have the number of records besides."""

    def __init__(
        self, name: str, records: Callable[[Any], Positioned], max_bytes: int, live: bool
    ) -> None:
        self.name, self.records = name, records
        self.max_bytes, self.live = max_bytes, live

    def read(self, position: Any = None) -> Iterator[Record | None]:
        """See ``IteratedSource.read``. Raises ModuleError."""
        line, before = (0, None) if position is None else (position["records"], position["after"])
        for item in self.records(before):
            if item is None:
                yield None
                continue
            if not isinstance(item, tuple) or not isinstance(item[0], bytes):
                raise ModuleError(f"{self.name}: expected bytes and a position, found {item!r:.80}")
            value, after = item
            line += 1
            at = {"records": line, "after": after}
            cut = value[: self.max_bytes]
            yield Record(cut, self.name, line, 0, at, too_long=len(value) > self.max_bytes)

    def after(self, records: Sequence[Record]) -> SourcePosition:
        """See ``IteratedSource.after``."""
        at: SourcePosition = records[-1].offset
        return at
