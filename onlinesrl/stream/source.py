"""What a source of examples is: its interface, and the section of a configuration that makes it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import field_validator

from onlinesrl.core.errors import ConfigError, DataError
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Count, Files, Groups, duration
from onlinesrl.stream.csv_rows import UTF_8
from onlinesrl.stream.linked_config import LinkedSection
from onlinesrl.stream.mapping import Mapper, MappingSection
from onlinesrl.stream.optional_names import OptionalNames
from onlinesrl.stream.record_form import RecordForm, Values
from onlinesrl.stream.records import Record
from onlinesrl.stream.shutdown import Stopped

if TYPE_CHECKING:
    from onlinesrl.stream.run_folder import RunFolder

READ_BYTES = 4 << 20
"""The most bytes of a batch; decoded, they take some twenty times as much memory."""
SourcePosition: TypeAlias = dict[str, Any]
"""How far a source has been read: a JSON value that only the source interprets."""


class Sections(Protocol):
    """The sections of a configuration that sources and sinks check."""

    source: Any
    """Where the examples come from."""
    labels: Any
    """Where separate labels come from, if there are any."""
    world: Any
    """Whether records change the facts of one world."""

    def argument_types(self) -> Mapping[str, Sequence[str | None]]:
        """Return the types of each predicate's arguments."""
        ...

    def error(self, key: str, reason: str) -> ConfigError:
        """Return the error for a key with a wrong value."""
        ...


class SourceContext(NamedTuple):
    """What a source needs to know, besides its section of the configuration.

    ``folder`` is the run folder; None outside a run. ``until`` is the value of ``--until``.
    ``stopping`` tells whether the run was asked to stop. ``labels`` are the topics of labels;
    ``max_bytes``, ``batch`` and ``retention`` (limits.retention_bytes) are those of the configuration.
    ``names`` looks at the names of all records that are mapped; ``whole`` is as in ``Mapper``.
    """

    folder: RunFolder | None
    until: str | int | None
    stopping: Callable[[], bool]
    say: Callable[[str], None]
    labels: Sequence[str]
    max_bytes: int
    batch: int
    retention: int | None = None
    names: OptionalNames | None = None
    whole: bool = False


class Source(Protocol):
    """Where records come from, in batches, with default implementations.

    A run calls ``accepts`` for a checkpoint, ``open`` at its position, ``next_batch`` again and again,
    ``snapshot`` and ``committed`` before and after each checkpoint is written, and ``close`` at the end.
    """

    Position: ClassVar[Any] = dict[str, Any] | None
    """The type of its positions, for msgspec: those in checkpoints are checked by it."""
    live: bool = False
    """Whether records may arrive at any time, so that a run over the source never finishes."""
    answers: bool = False
    """Whether who sends a record waits to hear what becomes of it."""
    files: Sequence[str] = ()
    """The files that it reads; a run must not write to them."""
    retention: int | None = None
    """How many bytes of each file that grows with the source are kept; None: all."""

    def accepts(self, position: Any, number: int) -> bool:
        """Tell whether a run may resume from its checkpoint of this number."""
        return True

    def has_more(self, position: Any) -> bool:
        """Tell whether it has records after a position: they were answered, and are learned from again."""
        return False

    def open(self, position: Any) -> None:
        """Connect; reading starts at this position, or for None at the first."""
        return

    def next_batch(self, room: int) -> Sequence[Record] | None:
        """Return the next records, at most ``room`` of them.

        There are none where there are no more for now, and it is None at the end. It must not wait long, so
        that the run can check whether it was asked to stop.
        """
        ...

    def snapshot(self) -> Any:
        """Return the position after the last batch, or where reading starts."""
        ...

    def state(self) -> dict[str, Any]:
        """Return the arrays that a checkpoint holds besides the position, which goes with them."""
        return {}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore what ``state`` returned, before the source is opened. Raises Misfit."""
        return

    def complaints(self) -> list[str]:
        """Return messages about records that did not go with others."""
        return []

    def lag(self) -> dict[str, int]:
        """Return how many records each partition is behind its end, as far as known."""
        return {}

    def committed(self, position: Any, number: int) -> None:
        """Take note that the checkpoint of this number, with the position, has been written."""
        return

    def close(self) -> None:
        """Release what is open; closing twice is allowed."""
        return


class IteratedSource(Source):
    """A source that is read record by record: its batches come from ``read`` and ``after``."""

    _reading: Generator[Record | None] | None = None
    _newest: Record | None = None
    """The last record since the position ``_at``."""

    def read(self, position: Any = None) -> Iterator[Record | None]:
        """Yield the records after a position, and None, often enough, where there are no more for now."""
        raise NotImplementedError

    def after(self, records: Sequence[Record]) -> SourcePosition:
        """Return the position after records, which are the last that ``read`` has yielded."""
        raise NotImplementedError

    def open(self, position: Any) -> None:
        """See ``Source.open``."""
        self._reading, self._at, self._newest = _paused(self.read(position)), position, None

    def next_batch(self, room: int) -> Sequence[Record] | None:
        """See ``Source.next_batch``; a batch ends at READ_BYTES, with the record that reaches them."""
        assert self._reading is not None, "the source is open"
        records: list[Record] = []
        size, waits = 0, False
        for record in islice(self._reading, room):
            waits = record is None
            if record is None:
                break
            records.append(record)
            size += len(record.value)
            if size >= READ_BYTES:
                break
        self._newest = records[-1] if records else self._newest
        return records if records or waits else None

    def snapshot(self) -> Any:
        """See ``Source.snapshot``."""
        if self._newest is not None:
            self._at, self._newest = self.after([self._newest]), None
        return self._at

    def close(self) -> None:
        """End the reading."""
        if self._reading is not None:
            self._reading.close()


def _paused(records: Iterator[Record | None]) -> Generator[Record | None]:
    """Yield records, and None before DataError or Stopped: what was read before can still be learned from."""
    try:
        yield from records
    except (DataError, Stopped):
        yield None
        raise


class SourceSection(Section):
    """Where the examples come from."""

    replaceable: ClassVar[frozenset[str]] = frozenset(
        {"max_bytes", "patience", "bootstrap", "security", "linked.idle"}
    )
    """Keys that say how to get at the data and not which they are: they may change from one start of
    a run to the next."""
    links: ClassVar[bool] = False
    """Whether its records may be rows that are linked."""
    served: ClassVar[bool] = False
    """Whether a server may take the place of such a source."""

    kind: str = ""
    """where examples come from."""
    background: Files | None = None
    """databases (.db) of facts that every example has, as if it brought a copy of them."""
    only: Groups | None = None
    """the groups to read, all others are left out; null or []: all."""
    without: Groups | None = None
    """the groups to leave out; null or []: none."""
    max_bytes: Count = 8_000_000
    """the longest example, in bytes; a longer one is bad."""
    patience: str = "5m"
    """for how long brokers may be away."""
    envelope: Literal["debezium"] | None = None
    """what records are wrapped in: of changes of a database, the row after the change is the record,
    and deletions are passed over as tombstones are; null: nothing."""
    mapping: MappingSection | None = None
    """how records become examples; null: they are examples."""
    linked: LinkedSection | None = None
    """how rows become examples together with earlier ones; null: each record is an example by itself."""

    @field_validator("patience")
    @classmethod
    def _time(cls, patience: str) -> str:
        if duration(patience) is None:
            raise ValueError("expected a time such as 30s or 5m")
        return patience

    @property
    def patience_seconds(self) -> float:
        """For how long brokers may be away."""
        return duration(self.patience) or 0.0

    def check(self, config: Sections) -> None:
        """Raise ValueError, with the key, where another section does not go with this source."""
        if config.labels is not None and config.labels.topic is not None:
            raise ValueError("labels.topic: labels of a topic belong to a source of kind kafka")
        self.check_linked(config)

    def check_linked(self, config: Sections) -> None:
        """Raise ValueError, with the key, where something does not go with rows that are linked."""
        if self.linked is None:
            return
        if not self.links:
            raise ValueError("source.linked: for files and topics of rows; leave it out")
        for key in ("mapping", "envelope", "only", "without"):
            if getattr(self, key):
                raise ValueError(f"source.{key}: not beside source.linked; leave it out")
        if config.world:
            raise ValueError("source.linked: a world links its facts itself; leave it or world out")
        if config.labels is None:
            raise ValueError(
                "labels: missing beside source.linked, whose labels come later; expected how many examples "
                "may wait for one, such as labels: {pending: 10000}"
            )

    def form(self, setting: SourceContext | None = None) -> RecordForm | None:
        """Return what makes examples of records; None where these are examples."""
        values = self.values(setting)
        if self.linked is not None:
            return None
        if self.mapping is None and self.envelope is None and values is None:
            return None
        whole = setting is not None and setting.whole
        mapper = None if self.mapping is None else Mapper(self.mapping, whole)
        say, names = (None, None) if setting is None else (setting.say, setting.names)
        return RecordForm(
            mapper, values, self.envelope, self.rows_encoding, say, names, self.columns
        )

    def columns(self) -> Iterator[list[str]]:
        """Yield the columns of each file of rows that can be read now."""
        yield from ()

    @property
    def rows_encoding(self) -> str:
        """In which encoding rows of text are."""
        return UTF_8

    def values(self, setting: SourceContext | None) -> Values | None:
        """Return what decodes records; None where they are JSON."""
        return None

    def make(self, setting: SourceContext) -> Source:
        """Return the source."""
        raise NotImplementedError

    @property
    def uncut(self) -> str | None:
        """Why the source cannot be cut into shards; None where it can."""
        return "distribute: such a source cannot be cut into shards; or leave it out"
