"""A fast reader of examples from JSON lines: constants become numbers without Python objects for atoms.

The kernel ``scan`` reads plain lines only, with the same result as the decoder. The decoder reads all
other lines and reports the errors of bad lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from onlinesrl.core.example import Atoms, Example, decode
from onlinesrl.mln.ground.constant_index import Constants, Domain
from onlinesrl.mln.kernels import json_scan as k

MOST_BYTES = 1 << 18
"""The largest size in bytes of a line, and of a block of lines, for this reader."""
_NOTHING: Atoms = {}


class NumberedExample(Example, frozen=True, kw_only=True, gc=False):
    """An example whose atoms are rows of constants' numbers in ``domain``.

    ``row`` is int32[constants]; ``place`` is int64[2, slot], start in ``row`` and number of atoms. Each
    access to the atoms decodes the line again.
    """

    line: bytes
    labelled: bool
    domain: Any
    row: bytes
    place: bytes

    @property  # type: ignore[misc]
    def evidence(self) -> Atoms:
        """The atoms of the evidence."""
        return self.whole().evidence

    @property  # type: ignore[misc]
    def truth(self) -> Atoms | None:
        """The true atoms; None for an unlabelled example."""
        return self.whole().truth

    def whole(self) -> Example:
        """Return the example with its atoms."""
        return decode(self.line)


class JsonLineReader:
    """A reader of lines to the numbers of ``constants``; it adds new constants.

    The decoder has to read a line with more than ``most`` atoms of a predicate. It has to read all lines if
    there are background facts or open types, because examples then depend on more than their line.
    """

    def __init__(self, constants: Constants, most: int):
        self.constants, self.most = constants, most
        self.reads = not constants.layout.open and not constants.background
        self.domain: Domain | None = None
        self.known = self.used = 0  # constants and their bytes; then the memory for both
        self.room = self.bytes = 0
        self.lines = 1
        self.small = np.full(k.SMALL, -1, np.int32)
        self.row_start = np.zeros(1, np.int64)
        self.texts, self.size = _texts(0, 0)

    def read(self, line: bytes) -> NumberedExample | None:
        """Return the example of a plain line; None if the decoder has to read it."""
        return self.read_all([line])[0]

    def read_all(self, lines: Sequence[bytes]) -> list[NumberedExample | None]:
        """Return the example of each plain line; None for a line that the decoder has to read."""
        if not self.reads:
            return [None] * len(lines)
        examples: list[NumberedExample | None] = []
        for block in _blocks(lines):
            examples += [None] if len(block[0]) > MOST_BYTES else self._read(block)
        return examples

    def _read(self, lines: Sequence[bytes]) -> list[NumberedExample | None]:
        """Return the examples of a block of lines of at most MOST_BYTES."""
        text = bytearray(b"\n").join([*lines, b""])
        if not text.isascii() and not all(map(_is_text, lines)):
            lines = [line if _is_text(line) else b"" for line in lines]
            text = bytearray(b"\n").join([*lines, b""])
        domain = self.constants.constants
        if domain is not self.domain or self.known < len(domain.names):
            self._follow(domain)
        if self.known + len(text) > self.room or self.used + len(text) > self.bytes:
            self._make_room(len(text), len(text))
        if len(lines) >= len(self.row_start):
            self.lines = 2 * len(lines)
            self._make_scan()
        content = np.frombuffer(text, np.uint8)  # writable: kernels have one signature
        stops = np.cumsum([len(line) + 1 for line in lines], dtype=np.int64)
        k.scan(content, stops, self.scan)
        if (size := self.size.item()) > self.known:  # name the new constants
            self.domain = None  # until all constants have names
            ends = self.texts.start[self.known : size + 1].tolist()
            for first, stop in pairwise(ends):
                domain[self.texts.byte[first:stop].tobytes().decode()]
            self.domain, self.known, self.used = domain, size, ends[-1]
        return self._examples(domain, lines)

    def _examples(self, domain: Domain, lines: Sequence[bytes]) -> list[NumberedExample | None]:
        """Return the examples of scanned lines."""
        n, size = len(lines), self.place[0].nbytes
        row, place = self.row[: self.row_start[n]].tobytes(), self.place[:n].tobytes()
        examples: list[NumberedExample | None] = []
        first = 0
        starts = (self.row_start[1 : n + 1] * self.row.itemsize).tolist()
        spans = self.span[:n].reshape(n, -1).tolist()
        for i, (line, last, span) in enumerate(zip(lines, starts, spans, strict=True)):
            begin, stop, group, end, _, _, truth, _ = span
            if begin < 0:
                examples.append(None)
                continue
            name = line[begin:stop].decode()
            examples.append(
                NumberedExample(
                    id=name if line[begin - 1] == k.TEXT else int(name),
                    evidence=_NOTHING,
                    group=line[group:end].decode() if group >= 0 else None,
                    line=line,
                    labelled=truth >= 0,
                    domain=domain,
                    row=row[first:last],
                    place=place[i * size : (i + 1) * size],
                )
            )
            first = last
        return examples

    # the table of constants -----------------------------------------------------------------------

    def _follow(self, domain: Domain) -> None:
        """Add the constants that others have numbered; start over for a new domain."""
        if domain is not self.domain:
            self.small[:] = -1
            self.known, self.used, self.room = 0, 0, -1
        names = [str(name).encode(errors="surrogatepass") for name in domain.names[self.known :]]
        joined = b"".join(names)
        self.domain = None  # until all constants are added
        if self.known + len(names) > self.room or self.used + len(joined) > self.bytes:
            self._make_room(len(names), len(joined))
        k.add(
            self.texts,
            np.frombuffer(joined, np.uint8),
            np.cumsum([*map(len, names)], dtype=np.int64),
        )
        self.domain, self.known = domain, len(domain.names)
        self.used += len(joined)

    def _make_room(self, names: int, size: int) -> None:
        """Enlarge the tables for ``names`` more constants of ``size`` bytes together."""
        domain, self.domain = self.domain, None  # until the tables exist: memory may not suffice
        byte, stops = self.texts.byte[: self.used], self.texts.start[1 : self.known + 1]
        self.room, self.bytes = 2 * (self.known + names) + 1024, 2 * (self.used + size) + 4096
        self.texts, self.size = _texts(self.room, self.bytes)
        k.add(self.texts, byte, stops)
        self._make_scan()
        self.domain = domain

    def _make_scan(self) -> None:
        layout = self.constants.layout
        names = [name for name in layout.evidence if name not in layout.numeric]
        slots = [[layout.evidence[name], layout.truth.get(name, -1)] for name in names]
        self.row = np.zeros(self.room, np.int32)
        self.row_start = np.zeros(self.lines + 1, np.int64)
        self.place = np.zeros((self.lines, 2, layout.slots), np.int64)
        self.span = np.zeros((self.lines, len(k.KEYS), 2), np.int64)
        self.scan = k.Scan(
            constants=self.texts,
            keys=_table(k.KEYS),
            predicates=_table([name.encode() for name in names]),
            slot=np.array(slots, np.int32).reshape(len(names), 2),
            arity=np.array([len(layout.arguments(name)) for name in names], np.int32),
            most=self.most,
            small=self.small,
            row=self.row,
            row_start=self.row_start,
            place=self.place,
            span=self.span,
        )


def _texts(room: int, size: int) -> tuple[k.Texts, Any]:
    """Return an empty table for ``room`` texts of ``size`` bytes together, and its count array."""
    cell = np.full(2 << room.bit_length(), -1, np.int32)
    hashes, start = np.zeros(room, np.int64), np.zeros(room + 1, np.int64)
    count = np.zeros(1, np.int64)
    return k.Texts(cell, hashes, start, np.zeros(size, np.uint8), count), count


def _table(texts: Sequence[bytes]) -> k.Texts:
    """Return a table of texts."""
    joined = b"".join(texts)
    table, _ = _texts(len(texts), len(joined))
    k.add(table, np.frombuffer(joined, np.uint8), np.cumsum([*map(len, texts)], dtype=np.int64))
    return table


def _is_text(line: bytes) -> bool:
    """Tell whether bytes are valid UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _blocks(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield lines in blocks of at most MOST_BYTES, or of one line."""
    first, size = 0, 0
    for n, line in enumerate(lines):
        size += len(line) + 1
        if size > MOST_BYTES and n > first:
            yield lines[first:n]
            first, size = n, len(line) + 1
    if first < len(lines):
        yield lines[first:]
