"""The exceptions of onlinesrl, with their places and exit codes.

Exit codes follow sysexits.h where it has one: 64 usage, 65 data, 69 unavailable, 70 software,
74 input/output, 75 try again later, 78 configuration.
"""

from __future__ import annotations

from collections.abc import Sequence


def printable(text: str) -> str:
    """Return text on one line, with all unprintable characters (line ends too) escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def legible(text: str) -> str:
    """Return text with its lines and tabs, and all other unprintable characters escaped."""
    lines = (line.split("\t") for line in text.split("\n"))
    return "\n".join("\t".join(map(printable, parts)) for parts in lines)


_LONGEST = 500
"""The most characters of a message that are shown: names may be of any length."""
_SHOWN = 160
"""The most characters of a source line that are shown, around the column."""


def shortened(text: str) -> str:
    """Return text, without its middle where it is very long."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"


def shown(value: object) -> str:
    """Return a value as Python writes it, or its type where that fails: for an integer of 5000 digits."""
    try:
        return repr(value)
    except Exception:
        return f"a {type(value).__name__}"


class OnlinesrlError(Exception):
    """Base of every error that onlinesrl raises deliberately."""

    exit_code = 70


class OnlinesrlWarning(UserWarning):
    """What does not stop the work, but should be known: the command line says it in one line."""


class LocatedError(OnlinesrlError):
    """An error at a place in a text file; ``line`` and ``column`` count from 1."""

    def __init__(
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
            excerpt = dots + legible(self.source_line[start : start + _SHOWN])
            more = " ..." if len(self.source_line) > start + _SHOWN else ""
            lines += [f"  {excerpt}{more}", f"  {margin}^"]
        if self.hint is not None:
            lines.append(shortened(printable(f"  hint: {self.hint}")))
        return "\n".join(lines)


class ModelError(LocatedError):
    """A mistake in an MLN file, in PSL rules, or in a PSL data file's list of data."""

    exit_code = 78


class DatabaseError(LocatedError):
    """A mistake in a .db file or in PSL's data."""

    exit_code = 65


class ConfigError(OnlinesrlError):
    """All mistakes in the configuration of a run."""

    exit_code = 78

    def __init__(self, problems: Sequence[LocatedError]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class UsageError(OnlinesrlError):
    """The options of a command do not fit together."""

    exit_code = 64


class DataError(OnlinesrlError):
    """The data end the run: a bad example under ``--strict``, or too many bad ones."""

    exit_code = 65


class TableError(OnlinesrlError):
    """A table whose columns or rows are not those of its predicate."""

    exit_code = 65


class ExampleError(OnlinesrlError):
    """One bad example, which does not end the run; ``reason`` (one line) is written to the dead letters.

    ``kind`` is a short, stable name by which bad examples are counted: ``decode`` (no example),
    ``too_long``, ``schema`` (not of this model), ``contradiction``, ``limit``, ``not_open``, ``hard_rule``,
    ``infeasible``, ``unsolved``, ``overflow``, ``memory`` (more than is available), ``crash`` and
    ``unsent`` (its prediction is too long). ``id`` is the example's, None where it is not known.
    """

    exit_code = 65

    def __init__(self, reason: str, kind: str = "decode", example_id: str | None = None) -> None:
        self.kind = kind
        self.id = example_id
        self.reason = shortened(printable(reason))
        super().__init__(self.reason)


class InputError(ExampleError, ValueError):
    """Samples that an estimator cannot take; the message names sample and position, from 0."""


class NotFittedError(UsageError, ValueError, AttributeError):
    """An estimator that has learned nothing was asked to predict."""


class Infeasible(OnlinesrlError):
    """No state satisfies the hard clauses and groups, or no values satisfy the constraints.

    ``parts`` are patterns of atoms, see ``core.explain.conflict``: while none of these changes, the conflict
    stays. None: they are not known.
    """

    exit_code = 65
    parts: tuple[tuple[str, tuple[str | None, ...]], ...] | None = None


class Unsolved(OnlinesrlError):
    """The search reached its limit without finding a feasible state; one may exist."""


UNPROVEN = "this answer is not proven to be the best"
"""The warning for an uncertified answer."""
CONTINUOUS = (
    "PSL has no second best state, since its truth values are continuous: other values as near to the answer "
    "as you like score almost as much; for Markov logic only"
)


class ModuleError(OnlinesrlError):
    """A module of somebody's own does not do what its kind promises."""


class UnavailableError(OnlinesrlError):
    """Something outside the process that the run needs is missing."""

    exit_code = 69


class StorageError(OnlinesrlError):
    """Reading or writing a file of the run failed."""

    exit_code = 74


class PortError(OnlinesrlError):
    """The process cannot listen on a port."""

    exit_code = 74

    @classmethod
    def of(cls, address: str, error: Exception) -> PortError:
        """Return the error for a port that the system refused."""
        return cls(f"{address}: cannot listen there: {getattr(error, 'strerror', None) or error}")


class LockedError(OnlinesrlError):
    """Another process is using the run folder."""

    exit_code = 75


class FolderError(OnlinesrlError):
    """The output is not the folder of a run."""

    exit_code = 78
