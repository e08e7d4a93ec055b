"""The text of a file, with positions, errors and comments."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from pathlib import Path

from onlinesrl.core.errors import LocatedError, ModelError, StorageError
from onlinesrl.logic.ast import Position
from onlinesrl.logic.text import STRING

_COMMENT = re.compile(rf"({STRING})|//[^\n]*|/\*.*?\*/|(/\*)", re.DOTALL)
_NOT_LINE_END = re.compile(r"[^\n]")
MOST = 100_000_000
"""The maximal number of bytes read from a pipe."""


@dataclass(frozen=True)
class Source:
    r"""A text with ``\n`` line ends, the name of its file, and the class of its errors."""

    file: str
    text: str
    kind: type[LocatedError] = ModelError

    def position(self, offset: int) -> Position:
        """Return the line and column of a character."""
        return Position(
            self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)
        )

    def error(
        self, message: str, location: Position | int, hint: str | None = None
    ) -> LocatedError:
        """Return the error for a place, given by position or by offset."""
        place = location if isinstance(location, Position) else self.position(location)
        lines = self.text.split("\n")
        return self.kind(
            message,
            file=self.file,
            line=place.line,
            column=place.column,
            source_line=lines[place.line - 1] if place.line <= len(lines) else None,
            hint=hint,
        )

    def code(self, comment: re.Pattern[str] = _COMMENT) -> str:
        """Return the text with comments replaced by blanks, which keeps positions.

        ``comment`` matches a comment, or a quoted constant as group 1, or an unclosed comment as group 2.
        """

        def blanked(match: re.Match[str]) -> str:
            if match[1] is not None:
                return match[1]
            if match[2] is not None:
                raise self.error("this comment is never closed", match.start(), "end it with */")
            return _NOT_LINE_END.sub(" ", match[0])

        marked = any(mark in self.text for mark in ("/*", "//", "#"))
        return comment.sub(blanked, self.text) if marked else self.text


def source(text: str, file: str, kind: type[LocatedError] = ModelError) -> Source:
    """Return the source of a text with any line ends and an optional byte order mark."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return Source(file, text, kind)


def read_text(path: str | Path, pipe: bool = True) -> str:
    """Read a UTF-8 file or, if ``pipe``, a pipe. Raises StorageError."""
    try:
        kind = Path(path).stat().st_mode
        is_file = stat.S_ISREG(kind) or stat.S_ISDIR(kind)
        if not (is_file or pipe):
            raise StorageError(f"cannot read {path}: it is a device or a pipe, not a file")
        with Path(path).open("rb") as stream:
            data = stream.read(-1 if is_file else MOST + 1)
        if not is_file and len(data) > MOST:
            raise StorageError(
                f"cannot read {path}: it is not a file, and has more than {MOST:,} bytes"
            )
        return data.decode("utf-8")
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StorageError(
            f"cannot read {path}: byte {error.start} is not UTF-8 text; save the file as UTF-8"
        ) from error
    except ValueError as error:  # a NUL in the name
        raise StorageError(f"cannot read {path}: {error}") from error
