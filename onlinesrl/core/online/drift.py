"""Concept drift: a detector watches the errors of examples, and learning responds when they rise.

Both happen right after the update from an example, so they do not depend on micro-batches. The response may
be a restart from the present weights. They become the base of the regularisation, and averages, step sizes
and the dual begin anew (see ``core.online.averaged_weights``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from pydantic import Field

from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.restoring import Expected, restored
from onlinesrl.core.jit.decorators import ready
from onlinesrl.core.kernels import adwin


class DriftSection(Section):
    """Signals that the concept has changed, and what to do then; `onlinesrl guide drift`."""

    metric: Literal["hamming", "exact"] = "hamming"
    """what is watched: how many atoms of each prediction are wrong, or whether any is."""
    response: Literal["tell", "restart"] = "tell"
    """at a signal: only tell; or learn as if the present weights were the starting weights."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """a bound on the probability of a false signal; a smaller one makes signals rarer and later."""


class Restarts(Protocol):
    """Weights whose learning can start over."""

    def restart(self) -> None:
        """Start over from the present weights, without updates or averages.

        The certificate is then of the updates since, and of weights regularised towards these.
        """
        ...


class Monitor:
    """Watches the updates of some weights, and has them respond to drift."""

    def __init__(self, section: DriftSection, weights: Restarts) -> None:
        self.section = section
        self.weights = weights
        self.window = adwin.empty()

    def compile(self) -> None:
        """Compile the detector, or load it from the cache."""
        ready(adwin.add, self.window, 0.0, 1.0)

    def heed(self, wrong: int) -> bool:
        """Add the number of wrong atoms of the example just learned from; tell whether drift is signalled.

        The detector takes values in [0, 1], so n wrong atoms count as n / (1 + n).
        """
        value = wrong / (1.0 + wrong) if self.section.metric == "hamming" else float(wrong > 0)
        if not adwin.add(self.window, value, self.section.delta):
            return False
        if self.section.response == "restart":
            self.weights.restart()
            self.window.size[:] = 0
        return True

    def save(self) -> dict[str, Any]:
        """Return the detector's state as arrays of a checkpoint."""
        return {f"drift_{name}": getattr(self.window, name) for name in self.window._names}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore what ``save`` returned; without it the window stays empty. Raises Misfit."""
        if "drift_size" not in arrays:
            return
        room, most = (adwin.LEVELS, adwin.BUCKETS + 1), 2.0 ** np.arange(adwin.LEVELS)
        buckets = np.full(adwin.LEVELS, adwin.BUCKETS)
        buckets[-1] = 0  # or the next level is not there
        expected = {
            "drift_total": Expected(np.float64, room, 0.0, most[:, None]),
            "drift_spread": Expected(np.float64, room, 0.0, most[:, None]),
            "drift_size": Expected(np.int64, room[:1], 0, buckets),
        }
        for name, array in restored(arrays, expected).items():
            getattr(self.window, name.removeprefix("drift_"))[:] = array
