"""The interfaces of sources, sinks and watchers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from onlinesrl.core.errors import ConfigError
    from onlinesrl.core.learner import Outcome
    from onlinesrl.stream.decoding import Batch
    from onlinesrl.stream.run_folder import OutputFile, RunFolder
    from onlinesrl.stream.shutdown import ShutdownSignal
    from onlinesrl.stream.sources.files import Record

SourcePosition: TypeAlias = dict[str, Any]
"""How far a source has been read: a JSON value that only the source interprets."""


class Sections(Protocol):
    """The sections of a configuration that sources and sinks check."""

    @property
    def source(self) -> Any:
        """Where the examples come from."""
        ...

    @property
    def labels(self) -> Any:
        """Where separate labels come from, if there are any."""
        ...

    @property
    def checkpoint(self) -> Any:
        """When to save."""
        ...

    def argument_types(self) -> Mapping[str, Sequence[str | None]]:
        """Return the types of each predicate's arguments."""
        ...

    def error(self, key: str, reason: str) -> ConfigError:
        """Return the error for a key found wrong."""
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
    """Whether more may come at any time, so that a run over it never finishes."""
    max_bytes: int
    """The longest record, in bytes."""
    marked: bool = False
    """Whether marks will be made: what is read between two is then kept."""
    ahead: bool = False
    """Whether another thread may read on and make marks while ``after`` is called."""
    files: Sequence[str] = ()
    """The files that it reads; a run must not write to them."""
    retention: int | None = None
    """How many bytes of each file that grows with the source are kept; None: all."""

    def accepts(self, position: Any, number: int) -> bool:
        """Tell whether a run may resume from its checkpoint of this number."""
        return True

    def owes(self, position: Any) -> bool:
        """Tell whether there is more after a position that must come out as it did before."""
        return False

    def open(self, position: Any) -> Any:
        """Connect; return the position where reading starts: this one, or for None the first."""
        return position

    def read(self, position: Any = None) -> Iterator[Record | None]:
        """Yield the records after a position; None: there are no more for now.

        It must not wait long without yielding None, so that the run can check whether it was asked
        to stop.
        """
        ...

    def mark(self) -> Any:
        """Return what ``after`` asks for about the records since the mark before."""
        return None

    def after(
        self, position: Any, records: Sequence[Record], more: bool = False, mark: Any = None
    ) -> SourcePosition:
        """Return the position after records, the next that were read after a position, up to a mark.

        ``more``: more was read after them before the mark, and has to be read again.
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


class Sink(Protocol):
    """Where predictions go, with default implementations."""

    State: ClassVar[Any] = dict[str, Any]
    """The type of its state, for msgspec: those in checkpoints are checked by it."""
    textual: bool = False
    """Whether it writes predictions as JSON, and looks at no atoms."""

    @property
    def due(self) -> bool:
        """Whether it is time to flush."""
        return False

    def open(self, state: Mapping[str, Any] | None, predictions: OutputFile) -> None:
        """Connect, and resume from a state; ``predictions`` is the run folder's file for predictions."""
        ...

    def fits(self, name: str, record: Record) -> None:
        """Raise ExampleError if the id of an example is too long for a prediction."""
        return

    def write(self, record: Record, item: Any, outcome: Outcome) -> None:
        """Add the answer to an example. Raises ExampleError if it is too long."""
        ...

    def flush(self) -> None:
        """Write out what was added; files are flushed by the checkpoint."""
        return

    def state(self) -> dict[str, Any]:
        """Return the state for the checkpoint; may be empty."""
        return {}

    def close(self) -> None:
        """Disconnect, without flushing. Closing twice is allowed."""
        return


class Watcher(Protocol):
    """Observes a run without affecting it."""

    def reading(self, batches: Iterator[Batch], stopper: ShutdownSignal) -> Iterator[Batch]:
        """Pass on what the run reads; the run's state changes only while it holds a micro-batch."""
        ...

    def update(self, snapshot: Callable[[], dict[str, Any]], examples: int) -> None:
        """Note progress; ``snapshot`` makes a line of metrics if one is wanted."""
        ...

    def saved(self) -> None:
        """Note that a checkpoint was written."""
        ...
