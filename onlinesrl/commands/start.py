"""The entry point of the program, which imports the commands.

A signal may come before a command has begun. Then nothing has been written, and the process ends at once.
"""

from __future__ import annotations

import os
import signal
import sys

STOPPABLE = ("run", "serve")
"""Commands that a signal stops in good order, with the exit code 0."""


def main() -> None:
    """Run the command line. SIGTERM ends a command as Ctrl-C does; a run handles both itself."""
    stoppable = sys.argv[1:2] and sys.argv[1] in STOPPABLE
    asking = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) != signal.SIG_IGN]
    for number in asking:
        signal.signal(number, lambda *_: os._exit(0 if stoppable else 130))
    from onlinesrl.commands import cli

    for number in () if stoppable else asking:
        signal.signal(number, signal.default_int_handler)
    cli.main()
