"""Dead letters: the bad examples of a run, with bytes, place and reason, for replay."""

import base64
import codecs
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from onlinesrl.core.errors import StorageError
from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.stream.records import Record
from onlinesrl.stream.run_folder import OutputFile, parts

PIECE = 3 << 15
"""How many bytes of an example are written at once; a multiple of 3, for base64."""


class DeadLetters(OutputFile):
    """The file of bad examples, one JSON object a line.

    Keys: `file`, `line`, `id` (null if there is none or it cannot be read), `reason`, and the
    bytes of the example: `text` if they are valid UTF-8, else `base64`. An example that is too long
    is cut after its first part, and `cut` is true.
    """

    def append(self, record: Record, reason: str, example_id: str | None = None) -> None:
        """Add one bad example, unbuffered, so that a failing write ends the run.

        Raises StorageError.
        """
        for piece in letter(record, reason, example_id):
            self.write(piece)
        self.flush(fsync=False)


def letter(record: Record, reason: str, example_id: str | None = None) -> Iterator[bytes]:
    """Yield the line of one bad example, in pieces."""
    head_fields: dict[str, str | int | None] = {"file": record.file, "line": record.line}
    head_fields |= {"id": example_id, "reason": reason}
    if record.too_long:
        head_fields["cut"] = True
    head = json.dumps(head_fields, ensure_ascii=False).removesuffix("}")
    yield head.encode(errors="backslashreplace")  # a lone surrogate: its JSON escape
    try:
        for _ in _texts(record.value):
            pass
        yield b', "text": "'
        for text in _texts(record.value):
            yield json.dumps(text, ensure_ascii=False)[1:-1].encode()
    except UnicodeDecodeError:
        yield b', "base64": "'
        for first in range(0, len(record.value), PIECE):
            yield base64.b64encode(record.value[first : first + PIECE])
    yield b'"}\n'


def _texts(value: bytes) -> Iterator[str]:
    """Decode UTF-8 in pieces, since memory may not suffice for a second copy."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    for first in range(0, len(value), PIECE):
        yield decode(value[first : first + PIECE], first + PIECE >= len(value))


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter as read back; `value` has the bytes of the example, or their first part."""

    place: str
    id: str | None
    reason: str
    value: bytes
    cut: bool


def letters(path: Path, opener: Callable[[str, int], int] | None = None) -> Iterator[Letter]:
    """Yield the letters of a file that a run may be writing; an incomplete last line is ignored.

    Raises StorageError, with the line number, for a line that is no letter.
    """
    for part in parts(path) or [path]:
        with storage_errors(part, "read"), open(part, "rb", opener=opener) as stream:
            for number, line in enumerate(stream, 1):
                if line.endswith(b"\n"):
                    yield _letter(f"{part}:{number}", line)


def _letter(where: str, line: bytes) -> Letter:
    try:
        letter = json.loads(line)
        text = letter.get("text")
        value = base64.b64decode(letter["base64"]) if text is None else text.encode()
        place = f"{letter['file']}:{letter['line']}"
        return Letter(place, letter["id"], letter["reason"], value, letter.get("cut", False))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise StorageError(f"{where}: not a dead letter: {error}") from error
