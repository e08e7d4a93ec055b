"""Records that change a world: all that a key asserts, or facts that are added, set and removed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeGuard

import msgspec

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Atoms, Constant, Example, distinct
from onlinesrl.core.learner import Prediction
from onlinesrl.stream.decoding import Content, Decoder, RecordDecoder
from onlinesrl.stream.record_form import RecordForm, place_of
from onlinesrl.stream.records import Record


class WorldChange(Example, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A step of a world.

    With an ``id`` alone, or with ``evidence`` and ``query``, it is all that this id asserts from now on.
    With ``add``, ``set`` or ``remove``, or ``query`` alone, it changes facts that no id asserts; ``query``
    then adds targets.
    """

    id: Constant = ""
    evidence: Atoms = msgspec.field(default_factory=dict)
    add: Atoms | None = None
    set: Atoms | None = None
    remove: Atoms | None = None

    @property
    def labelled(self) -> bool:
        """Whether a report may show it with its truth: it may not, since it is only part of a world."""
        return False

    @property
    def keyed(self) -> bool:
        """Whether it replaces what its id asserted."""
        return self.add is None and self.set is None and self.remove is None


class Truncation(WorldChange, frozen=True):
    """A step that takes back all that ids assert."""


class ChangedAtom(msgspec.Struct):
    """An open atom whose answer is another: None as its value says that it is no longer open."""

    predicate: str
    args: Sequence[str]
    value: float | None
    old: float | None


class WorldStep(Prediction):
    """What a step changed; ``score`` is that of the new answer, at most ``gap`` below the best.

    ``age`` is how many updates of the weights it lacks, ``conflicts`` are those of the changes that wait.
    ``not_learned`` are atoms that were no targets, whose truth is asserted and was not learned from.
    """

    changed: list[ChangedAtom] = msgspec.field(default_factory=list)
    gap: float = 0.0
    age: int = 0
    conflicts: list[str] = msgspec.field(default_factory=list)
    not_learned: list[str] = msgspec.field(default_factory=list)


class ChangeDecoder(Decoder):
    """Decodes lines of JSON to changes."""

    _decoder = msgspec.json.Decoder(WorldChange)

    def decode(self, line: bytes) -> WorldChange:
        """Return the change of a line. Raises ExampleError."""
        try:
            json.loads(line, object_pairs_hook=distinct)
            return self._decoder.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ExampleError(f"not a change: {error}") from None

    def decode_all(self, lines: Sequence[bytes]) -> list[Example | ExampleError]:
        """Return the change of each line, or why it is none."""
        return [*map(self._decoded, lines)]

    def _decoded(self, line: bytes) -> WorldChange | ExampleError:
        try:
            return self.decode(line)
        except ExampleError as error:
            return error


class ChangeRecords(RecordDecoder):
    """Decodes records to changes; the decoder is a ``ChangeDecoder``.

    The key of a record takes the place of the ``id``; a tombstone takes back what its key asserts, and so
    does a record of a group that is not chosen.
    """

    def content(self, record: Record) -> Content:
        """Return the change of a record, or the error; None for what changes nothing."""
        try:
            content = self._change(record)
        except ExampleError as error:
            return error
        chosen = isinstance(content, Truncation)  # it is of all groups
        if chosen or not _is_keyed(content) or self.choice.has(content.group):
            return content
        return WorldChange(id=content.id, group=content.group)

    def _change(self, record: Record) -> Content:
        """Return what ``content`` does. Raises ExampleError."""
        form = self.form or RecordForm(None)
        key = form.key(record)
        if record.kind == "tombstone":
            return ExampleError("a tombstone without a key") if key is None else WorldChange(id=key)
        content = super().content(record)
        if content is None:
            return self._gone(form, record, key)
        if isinstance(content, WorldChange):
            content = _keyed(content, key)
            if key is None and form.envelope and isinstance(content, WorldChange):
                _check_update(form, record, content)
        elif isinstance(content, Example):  # a database
            return WorldChange(id=content.id, evidence=content.evidence)
        return content

    def _gone(self, form: RecordForm, record: Record, key: str | None) -> WorldChange | None:
        """Return the change after which one row or all are gone; None for a message. Raises ExampleError."""
        change = form.change(record)
        if change["op"] == "m":
            return None
        if change["op"] == "t":
            return Truncation(id=place_of(record))
        return WorldChange(id=form.row_before(change) if key is None else key)

    def contents(self, records: Sequence[Record]) -> list[Content]:
        """Return the change of each record."""
        return [*map(self.content, records)]

    def chooses(self, content: Content) -> bool:
        """See ``RecordDecoder.chooses``."""
        return _is_keyed(content) or super().chooses(content)


def _is_keyed(content: Content) -> TypeGuard[WorldChange]:
    """Tell whether a record is a change of what its id asserts."""
    return isinstance(content, WorldChange) and content.keyed


def _check_update(form: RecordForm, record: Record, content: WorldChange) -> None:
    """Raise ExampleError where an update without a key may leave the row before it."""
    change = form.change(record)
    if change["op"] != "u" or form.mapper is None:
        return
    before = form.row_before({**change, "before": change.get("before") or change["after"]})
    if before != str(content.id):
        raise ExampleError(
            f"an update without a key makes row {before} to row {content.id}: expected a key of the message"
        )


def _keyed(change: WorldChange, key: str | None) -> WorldChange | ExampleError:
    """Return a change with the key of its record, or what is wrong with it."""
    if not change.keyed and change.evidence:
        return ExampleError(
            "not a change: `evidence` is all that an id asserts, `add`, `set` and `remove` change single "
            "facts; expected one or the other"
        )
    if change.keyed and key is not None:
        return msgspec.structs.replace(change, id=key)
    if change.keyed and change.id == "":
        if change.query and not change.evidence:
            return msgspec.structs.replace(change, add={})
        return ExampleError(
            "not a change: expected `add`, `set` or `remove`, or an `id` or a key of the record that "
            "asserts the `evidence`"
        )
    return change
