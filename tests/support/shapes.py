"""Kernels for all plans and updates at once, so that tests that compile few kernels do not compile many."""

from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.online.update_rules.rule import UpdateParams
from onlinesrl.mln.kernels.grounding_frames import Facts, Plans

SHAPED = Plans, Facts, UpdateParams
"""Kernels are compiled for what a plan, facts and an update have, and for nothing else."""
AS_SHIPPED = [frame._without for frame in SHAPED]


def same_for_all_plans() -> None:
    """Let kernels be compiled for plans, facts and updates that have everything."""
    for frame in SHAPED:
        frame._without = Frame._without  # type: ignore[method-assign]
