"""From records to examples: decoding, Alchemy databases, and the choice of groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from onlinesrl.errors import ExampleError, OnlinesrlError
from onlinesrl.ground.pack import show_atom
from onlinesrl.lang.example import (
    Atoms,
    Constant,
    Example,
    Label,
    ValuedAtom,
    decode,
    decode_label,
)
from onlinesrl.stream.files import Record


class Reader:
    """Reads a source's examples, of the groups in ``only`` and not in ``without``.

    With ``labels`` a record may also be the truth of an example, and one without a value is None.

    A record that is no example comes as the ExampleError that says why; it is in every choice of
    groups, since its own is not known.
    """

    def __init__(
        self,
        source: Any,
        query: Collection[str],
        only: Sequence[str] | None = None,
        without: Sequence[str] | None = None,
        labels: bool = False,
    ):
        self.source = source
        self.query = frozenset(query)
        self.only = frozenset(only) if only is not None else None
        self.without = frozenset(without or ())
        self.labels = labels

    def read(
        self, position: dict[str, Any] | None = None
    ) -> Iterator[tuple[Record, Example | ExampleError | Label | None] | None]:
        """Yield records and their examples after a position; None: a live source has no more now."""
        for record in self.source.read(position):
            if record is None:
                yield None
                continue
            example = self.example(record)
            if not isinstance(example, Example) or self._chosen(example.group):
                yield record, example

    def example(self, record: Record) -> Example | ExampleError | Label | None:
        """Return the example of a record, or what is wrong with it."""
        if record.kind == "tombstone":
            return None
        if record.too_long:
            reason = f"longer than source.max_bytes ({self.source.max_bytes})"
            return ExampleError(reason, "too_long")
        try:
            return self._world(record) if record.kind == "db" else decode(record.value)
        except ExampleError as error:
            return self._label(record) or error

    def _label(self, record: Record) -> Label | None:
        with suppress(ExampleError):
            return decode_label(record.value) if self.labels else None
        return None

    def _chosen(self, group: str | None) -> bool:
        return group not in self.without and (self.only is None or group in self.only)

    def _world(self, record: Record) -> Example:
        """Return the world of an Alchemy database; atoms of query predicates are its truth."""
        from onlinesrl.lang.database import parse_db

        try:
            atoms = parse_db(record.value.decode(), record.file)
        except (OnlinesrlError, UnicodeDecodeError) as error:
            raise ExampleError(str(error).partition("\n")[0]) from None
        evidence: Atoms = {}
        truth: Atoms = {}
        for name, args, value, _ in atoms:
            constants: list[Constant] = list(args)
            if value is None:
                raise ExampleError(f"atom {show_atom(name, args)} is given as unknown (?)")
            atom = constants if value is True else ValuedAtom(constants, float(value))
            (truth if name in self.query else evidence).setdefault(name, []).append(atom)
        return Example(id=Path(record.file).stem, evidence=evidence, truth=truth or None)
