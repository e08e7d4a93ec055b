"""The errors of the project: what is wrong, where, what was expected, and the exit code it means.

Exit codes follow sysexits.h where it has one: 64 usage, 65 data, 69 unavailable, 70 software,
74 input/output, 75 try again later, 78 configuration.
"""

from __future__ import annotations

from collections.abc import Sequence


def printable(text: str) -> str:
    """Return text from an example as one line that a terminal only shows: the rest as escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def legible(text: str) -> str:
    """Return a text of some lines as a terminal only shows: what else it has, as escapes."""
    lines = (line.split("\t") for line in text.split("\n"))
    return "\n".join("\t".join(map(printable, parts)) for parts in lines)


_LONGEST = 500
"""So many characters of a message are shown: a name may be of any length."""
_SHOWN = 160
"""So many characters of a source line are shown, around the place."""


def shortened(text: str) -> str:
    """Return a text without the middle, where it is very long."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"


class OnlinesrlError(Exception):
    """Base of every error that the project raises on purpose."""

    exit_code = 70


class LocatedError(OnlinesrlError):
    """An error at a place in a text file; ``line`` and ``column`` count from 1."""

    def __init__(  # noqa: PLR0913 - a place is five facts
        self,
        message: str,
        *,
        file: str,
        line: int,
        column: int,
        source_line: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.column = column
        self.source_line = source_line
        self.hint = hint

    def __str__(self) -> str:
        """Render ``file:line:column: message``, the source line, a caret under it, the hint."""
        place = printable(f"{self.file}:{self.line}:{self.column}")
        lines = [f"{place}: {shortened(printable(self.message))}"]
        if self.source_line is not None:
            start = max(0, self.column - _SHOWN // 2) if len(self.source_line) > _SHOWN else 0
            dots = "... " if start else ""
            before = dots + legible(self.source_line[start : self.column - 1])
            margin = "".join("\t" if character == "\t" else " " for character in before)
            shown = dots + legible(self.source_line[start : start + _SHOWN])
            more = " ..." if len(self.source_line) > start + _SHOWN else ""
            lines += [f"  {shown}{more}", f"  {margin}^"]
        if self.hint is not None:
            lines.append(shortened(printable(f"  hint: {self.hint}")))
        return "\n".join(lines)


class ModelError(LocatedError):
    """A mistake in an MLN file, in PSL's rules or in what says where their data are."""

    exit_code = 78


class DatabaseError(LocatedError):
    """A mistake in a .db file or in PSL's data."""

    exit_code = 65


class ConfigError(OnlinesrlError):
    """Mistakes in a run configuration, every one of them at once."""

    exit_code = 78

    def __init__(self, problems: Sequence[LocatedError]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class UsageError(OnlinesrlError):
    """A command was given what does not go together."""

    exit_code = 64


class DataError(OnlinesrlError):
    """An example that ends the run: a bad one under ``--strict``, or one bad one too many."""

    exit_code = 65


class ExampleError(OnlinesrlError):
    """One bad example. The stream goes on; ``reason`` (one line) goes to the dead letters.

    ``kind`` is a short name that stays: bad examples are counted by it. ``decode`` (no example),
    ``too_long``, ``schema`` (not of this model), ``contradiction``, ``limit``, ``not_open``, ``hard_rule``,
    ``infeasible``, ``unsolved``, ``overflow``, ``memory`` (it takes more than there is), ``crash`` and
    ``unsent`` (its prediction is too long).
    """

    exit_code = 65

    def __init__(self, reason: str, kind: str = "decode") -> None:
        self.kind = kind
        self.reason = shortened(printable(reason))
        super().__init__(self.reason)


class Infeasible(OnlinesrlError):
    """No state satisfies the hard clauses and the groups, or no values the constraints."""

    exit_code = 65


class Unsolved(OnlinesrlError):
    """The search ended at its limit without a feasible state; there may be one."""


UNPROVEN = "this answer is not proven to be the best"
"""What a person is told of an uncertified one."""


class UnavailableError(OnlinesrlError):
    """Something outside that the run needs is not there."""

    exit_code = 69


class StorageError(OnlinesrlError):
    """Reading or writing a file of the run failed."""

    exit_code = 74


class PortError(OnlinesrlError):
    """A port to listen at cannot be had."""

    exit_code = 74

    @classmethod
    def of(cls, where: str, error: Exception) -> PortError:
        """Return what says which port the system refused, and why."""
        return cls(f"{where}: cannot listen there: {getattr(error, 'strerror', None) or error}")


class LockedError(OnlinesrlError):
    """Another process is using the run folder."""

    exit_code = 75


class FolderError(OnlinesrlError):
    """The output is not the folder of a run."""

    exit_code = 78
