"""HiGHS, deterministic, quiet, and in a thread that a signal can end.

Importing this module imports HiGHS: do it where a solver is needed, not before.
"""

from __future__ import annotations

import highspy

from onlinesrl.core import search_status

PATIENCE_SECONDS = 0.25
"""How long HiGHS may take to leave a search."""


def solver(**options: bool | float | str) -> highspy.Highs:
    """Return a solver of one thread with further options."""
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, setting in {
        "output_flag": False,
        "threads": 1,
        "random_seed": 0,
        **options,
    }.items():
        highs.setOptionValue(option, setting)
    highs.HandleUserInterrupt = True
    return highs


def run(highs: highspy.Highs) -> None:
    """Let HiGHS solve its problem in another thread, because no signal is handled inside HiGHS."""
    try:
        highs.startSolve()
        while not highs.wait(search_status.POLL_SECONDS)[0]:
            search_status.poll()
    except BaseException:
        # HiGHS checks only now and then whether to stop: a heuristic's problem may take seconds
        highs.cancelSolve()  # type: ignore[no-untyped-call]
        if not highs.wait(PATIENCE_SECONDS)[0]:
            search_status.left_behind.append(highs)
        raise
