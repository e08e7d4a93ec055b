"""What a source of examples is: its interface, and the section of a configuration that makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import field_validator

from onlinesrl.core.errors import ConfigError
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Count, Files, Groups, duration
from onlinesrl.stream.mapping import Mapper, MappingSection
from onlinesrl.stream.record_form import RecordForm, Values
from onlinesrl.stream.records import Record

if TYPE_CHECKING:
    from onlinesrl.stream.run_folder import RunFolder

SourcePosition: TypeAlias = dict[str, Any]
"""How far a source has been read: a JSON value that only the source interprets."""


class Sections(Protocol):
    """The sections of a configuration that sources and sinks check."""

    source: Any
    """Where the examples come from."""
    labels: Any
    """Where separate labels come from, if there are any."""

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
    """

    folder: RunFolder | None
    until: str | int | None
    stopping: Callable[[], bool]
    say: Callable[[str], None]
    labels: Sequence[str]
    max_bytes: int
    batch: int
    retention: int | None = None


class Source(Protocol):
    """Where records come from, with default implementations.

    A run calls ``accepts`` for a checkpoint, ``open`` at its position, and ``read``; for each
    micro-batch ``after`` for the new position; ``acknowledge`` after each checkpoint; and ``close`` at the
    end.
    """

    Position: ClassVar[Any] = dict[str, Any] | None
    """The type of its positions, for msgspec: those in checkpoints are checked by it."""
    live: bool = False
    """Whether records may arrive at any time, so that a run over the source never finishes."""
    max_bytes: int
    """The longest record, in bytes."""
    ahead: bool = False
    """Whether another thread may read on and make marks during a call of ``after``."""
    files: Sequence[str] = ()
    """The files that it reads; a run must not write to them."""
    retention: int | None = None
    """How many bytes of each file that grows with the source are kept; None: all."""

    def accepts(self, position: Any, number: int) -> bool:
        """Tell whether a run may resume from its checkpoint of this number."""
        return True

    def owes(self, position: Any) -> bool:
        """Tell whether records after a position were answered before, and must be answered alike again."""
        return False

    def open(self, position: Any) -> Any:
        """Connect; return the position where reading starts: this one, or for None the first."""
        return position

    def read(self, position: Any = None) -> Iterator[Record | None]:
        """Yield the records after a position, and None where there are no more for now.

        It must not wait long without yielding None, so that the run can check whether it was asked
        to stop.
        """
        ...

    def mark(self) -> Any:
        """Return the mark for ``after``, about the records since the previous mark."""
        return None

    def after(
        self, position: Any, records: Sequence[Record], more: bool = False, mark: Any = None
    ) -> SourcePosition:
        """Return the position after records that follow a position, up to a mark.

        If ``more``, further records were read before the mark, and have to be read again.
        """
        ...

    def lag(self) -> dict[str, int]:
        """Return how many records each partition is behind its end, as far as known."""
        return {}

    def acknowledge(self, position: Any, number: int) -> None:
        """Report that the checkpoint of this number, with the position, has been written."""
        return

    def close(self) -> None:
        """Release what is open; closing twice is allowed."""
        return


class SourceSection(Section):
    """Where the examples come from."""

    replaceable: ClassVar[frozenset[str]] = frozenset(
        {"max_bytes", "patience", "bootstrap", "security"}
    )
    """Keys that say how to get at the data and not which they are: they may change from one start of
    a run to the next."""
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

    def form(self, setting: SourceContext | None = None) -> RecordForm | None:
        """Return what makes examples of records; None where these are examples."""
        values = self.values(setting)
        if self.mapping is None and self.envelope is None and values is None:
            return None
        mapper = None if self.mapping is None else Mapper(self.mapping)
        return RecordForm(mapper, values, self.envelope, say=setting.say if setting else None)

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
