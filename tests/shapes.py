"""Kernels for all plans at once, so that tests that compile few kernels do not compile many."""

from onlinesrl.core.kernels.frames import Frame
from onlinesrl.mln.kernels.background import Facts
from onlinesrl.mln.kernels.plans import Plans

AS_SHIPPED = Plans._without, Facts._without
"""What kernels are compiled for, as users have it: for a plan, and for facts, with some things or none."""


def same_for_all_plans() -> None:
    Plans._without = Facts._without = Frame._without  # type: ignore[method-assign]
