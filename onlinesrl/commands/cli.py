"""The entry point of the command line. Exit codes follow sysexits.h: see `onlinesrl guide runs`."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
import traceback
import warnings
from contextlib import suppress
from typing import Annotated, Any, cast

import typer

from onlinesrl.commands import (
    check,
    checkpoints,
    compare,
    count,
    dashboard,
    dead_letters,
    evaluate,
    examples,
    explain,
    ground,
    guide,
    infer,
    learn,
    predict,
    replay,
    run,
    schema,
    serve,
    warm,
    weights,
)
from onlinesrl.core.errors import OnlinesrlError, OnlinesrlWarning
from onlinesrl.core.operating_system import limits_memory
from onlinesrl.core.version import __version__
from onlinesrl.runs.console import say, warn

USAGE, UNAVAILABLE, DEFECT = 64, 69, 70
READER_GONE = 128 + 13
"""The exit code that a shell reports for a program ended by SIGPIPE."""
GC_THRESHOLD = 300_000
"""New objects between two garbage collections. Start-up makes 140,000 that last, and compilation as many."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Learn weights of relational rules online from streams of structured examples.",
)
for command in (
    run.run,
    learn.learn,
    compare.compare,
    serve.serve,
    predict.predict,
    evaluate.evaluate,
    explain.explain,
    weights.weights,
    check.check,
    examples.examples,
    infer.infer,
    ground.ground,
    count.count,
    guide.guide,
    schema.schema,
    warm.warm,
    replay.replay,
    dashboard.dashboard,
):
    app.command()(command)
for name, group in {"dlq": dead_letters.dlq, "checkpoint": checkpoints.checkpoints}.items():
    app.add_typer(group, name=name)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"onlinesrl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def _open_streams() -> None:
    """Replace closed standard streams by one that fails; else the next opened file would take their place."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            # what is written to standard error is lost
            flags = os.O_WRONLY if number != 1 else os.O_RDONLY
            opened = os.open(os.devnull, flags)
            os.dup2(opened, number)
            if opened != number:
                os.close(opened)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in sys.stdout, sys.stderr:  # a character that its encoding does not have is escaped
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # of a file that was replaced by a pipe
                stream.reconfigure(errors="backslashreplace")


def _show_warnings() -> None:
    """Show a warning of the project in one line; others are shown as Python does."""
    show: Any = warnings.showwarning

    def show_or_warn(message: Any, category: Any, *more: Any) -> None:
        if issubclass(category, OnlinesrlWarning):
            warn(str(message))
        else:
            show(message, category, *more)

    warnings.showwarning = cast("Any", show_or_warn)


def _lacks_memory(error: BaseException | None) -> bool:
    """Tell whether an error, or a cause of it, is a lack of memory, as when a library cannot be loaded."""
    while error is not None:
        message = str(error).casefold()
        if isinstance(error, MemoryError) or getattr(error, "errno", 0) == errno.ENOMEM:
            return True
        if "failed to map segment" in message or "cannot allocate memory" in message:
            return True
        if isinstance(error, SystemError) and limits_memory():  # C code failed and gave no reason
            return True
        error = error.__cause__ or error.__context__
    return False


def _say_lack_of_memory() -> int:
    say("onlinesrl: there is not enough memory for this")
    return UNAVAILABLE


def _show_unforeseen(error: Exception) -> int:
    """Show what typer finds wrong with a command, or the trace of a defect; return the exit code."""
    if _lacks_memory(error):
        return _say_lack_of_memory()
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        with suppress(OSError):
            traceback.print_exception(error)
        return DEFECT
    if message := format_message():  # there is none after the help was shown
        say(f"onlinesrl: {message}")
    return USAGE


def main() -> None:
    """Run the command line; every error of the project becomes one message and its exit code."""
    _open_streams()
    _show_warnings()
    gc.set_threshold(GC_THRESHOLD)
    try:
        code = app(standalone_mode=False)
    except OnlinesrlError as error:
        say(str(error))
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except (BrokenPipeError, SystemExit):  # raised by typer when the reader of the output has gone
        code = READER_GONE
    except OSError as error:
        code = _say_lack_of_memory() if _lacks_memory(error) else 74
        if code == 74:
            say(f"onlinesrl: {error}")
    except Exception as error:
        code = _show_unforeseen(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        gone = isinstance(error, BrokenPipeError)
        if not gone:
            say(f"standard output: cannot write: {error.strerror}")
        # else the interpreter writes again when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = code or (READER_GONE if gone else 74)
    if "duckdb" not in sys.modules:  # DuckDB would report frozen objects as leaks
        gc.freeze()  # else the interpreter visits all objects of numba when it ends
    if (module := sys.modules.get("onlinesrl.core.search_status")) and module.left_behind:
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(code or 0)  # a solver that still runs would delay the exit, or crash it
    sys.exit(code or 0)
