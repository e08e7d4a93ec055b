"""What a run asks of a source, of a sink, and of those that watch it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from onlinesrl.core.errors import ConfigError
    from onlinesrl.core.learner import Outcome
    from onlinesrl.stream.examples import Decoded
    from onlinesrl.stream.files import Record
    from onlinesrl.stream.folder import OutputFile, RunFolder
    from onlinesrl.stream.stopper import Stopper

Position: TypeAlias = dict[str, Any]
"""How far a source has been read: fit for JSON, and the source's own otherwise."""


class Rebalanced(Exception):
    """The partitions of a group are divided anew: go on from the last checkpoint that it has taken."""


class Sections(Protocol):
    """The sections of a configuration that a source or a sink goes with."""

    @property
    def source(self) -> Any:
        """Where the examples come from."""
        ...

    @property
    def labels(self) -> Any:
        """Where labels that come later come from, if there are any."""
        ...

    @property
    def checkpoint(self) -> Any:
        """When to save."""
        ...

    def error(self, key: str, reason: str) -> ConfigError:
        """Return the error for a key found wrong."""
        ...


class Setting(NamedTuple):
    """What a source is made for: besides its section, all that it may have to know.

    ``folder`` is the run's; None: nothing is learned from it, and nothing noted. ``until`` is what
    ``--until`` says. ``stopping`` tells whether the run was asked to stop. ``labels`` are the topics of
    labels; ``max_bytes`` and ``batch`` those of the configuration.
    """

    folder: RunFolder | None
    until: str | int | None
    stopping: Callable[[], bool]
    say: Callable[[str], None]
    labels: Sequence[str]
    max_bytes: int
    batch: int


class Source(Protocol):
    """Where records come from; what is given here is what most of them do.

    A run asks whether it ``accepts`` a checkpoint, to ``open`` where that ends, and to ``read`` on; after
    each micro-batch, for which it did some work ``during`` the reading, for the position ``after`` it;
    after each checkpoint to ``acknowledge`` that; and at the end to ``close``.
    """

    live: bool = False
    """Whether it may have more at any time, so that a run over it is never finished."""
    max_bytes: int
    """The longest record, in bytes."""
    files: Sequence[str] = ()
    """The files that it reads, which a run must not write."""

    def accepts(self, position: Any, number: int) -> bool:
        """Tell whether a run may go on from its checkpoint of this number, or from one before it."""
        return True

    def open(self, position: Any) -> Any:
        """Connect; return the position that reading begins at: this one, or for None the first."""
        return position

    def read(self, position: Any = None) -> Iterator[Record | None]:
        """Yield the records after a position; None in between: there are no more just now.

        It must not wait for long without yielding None: the run looks there whether it was asked to
        stop.
        """
        ...

    def after(self, position: Any, records: Sequence[Record], more: bool = False) -> Position:
        """Return the position after records, which were read next after a position.

        Where ``more`` has been read behind them, that is to be read again.
        """
        ...

    def during(self, work: Callable[[], Any]) -> Any:
        """Do work of the run's, which may take long, and return what it returns."""
        return work()

    def lag(self) -> dict[str, int]:
        """Return how far ahead the ends of its parts are, by their names, as far as is known."""
        return {}

    def flush(self, sink: Sink) -> None:
        """Have the sink write what it holds, before a checkpoint is written or because it is due."""
        sink.flush()

    def acknowledge(self, position: Any, number: int, sink: Sink) -> None:
        """Take note that a checkpoint holds the position."""
        return

    def close(self) -> None:
        """Let go of what is open; closing twice is allowed."""
        return


class Sink(Protocol):
    """Where predictions go; what is given here is what a file needs."""

    @property
    def due(self) -> bool:
        """Whether it is time to flush."""
        return False

    def open(self, state: Mapping[str, Any] | None, predictions: OutputFile) -> None:
        """Connect, to go on from a state; ``predictions`` is the file of the run folder for them."""
        ...

    def fits(self, name: str, record: Record) -> None:
        """Raise ExampleError where an example has a name with which it can have no prediction."""
        return

    def write(self, record: Record, item: Any, outcome: Outcome) -> None:
        """Add what is said of an example. Raises ExampleError where it is longer than may be."""
        ...

    def flush(self) -> None:
        """Make durable what was added, or leave that to the checkpoint, which flushes files."""
        return

    def commit(self, offsets: Mapping[Any, Any], member: Any) -> bool:
        """Write what was added and, for a group's member, offsets: all or nothing.

        False: it holds no offsets, and has done nothing.
        """
        return False

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint is to hold, if anything."""
        return {}

    def close(self) -> None:
        """Disconnect; what was not flushed is not written. Closing twice is allowed."""
        return


class Watcher(Protocol):
    """Who is told how a run goes; it never changes what the run does."""

    def reading(
        self, items: Iterator[Decoded | None], stopper: Stopper
    ) -> Iterator[Decoded | None]:
        """Pass on what the run reads: it changes only while it has an item and asks for no other."""
        ...

    def update(self, snapshot: Callable[[], dict[str, Any]], examples: int) -> None:
        """Take note of progress; ``snapshot`` makes a metrics line if one is wanted."""
        ...

    def saved(self) -> None:
        """Take note of a checkpoint."""
        ...
