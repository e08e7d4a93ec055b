"""The results of parts in other processes: values, failures, and deaths of workers."""

from __future__ import annotations

import gc
import os
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing import parent_process
from typing import Any, NamedTuple

from onlinesrl.core.errors import OnlinesrlError, UnavailableError
from onlinesrl.core.parallel.starting import starting

DEATHS = 20
"""The number of successive deaths over one part that ends the work."""


class PartError(OnlinesrlError):
    """A part failed in another process: the message and exit code of the error there."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Done(NamedTuple):
    """The result of a part: its value, or the failure in words and its exit code."""

    value: Any = None
    failed: str | None = None
    exit_code: int = 0


class WorkerDied(Exception):
    """A worker died before it had a result."""


def check_deaths(deaths: int, part: int, death: WorkerDied, most: int | None = None) -> None:
    """Raise UnavailableError if too many workers died over a part."""
    if deaths >= (DEATHS if most is None else most):
        raise UnavailableError(
            f"{deaths} workers in succession died over part {part + 1} of a round ({death}): killed for "
            "lack of memory, or crashed by an example; use fewer workers or a smaller distribute.round"
        )


def value(done: Done) -> Any:
    """Return the value of a part. Raises PartError if it failed."""
    if done.failed is not None:
        raise PartError(done.failed, done.exit_code)
    return done.value


def tried(function: Callable[..., Any], common: Any, part: Any) -> Done:
    """Process a part; a failure is returned in words, because not every error can be pickled."""
    try:
        return Done(function(common, part))
    except OnlinesrlError as error:
        return Done(failed=str(error), exit_code=error.exit_code)
    except MemoryError:
        return Done(failed="there is not enough memory for this", exit_code=69)
    except Exception:
        return Done(failed=traceback.format_exc(), exit_code=70)


def depend_on(*_: object) -> None:
    """Leave Ctrl-C to the parent process, and end when the parent is killed.

    The parent's garbage is not collected here: finalizers may wait for threads that a fork lacks.
    """
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def end_with_parent() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    with starting():
        threading.Thread(target=end_with_parent, daemon=True).start()
