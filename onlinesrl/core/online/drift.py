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

COOLDOWN = 100
"""For so many examples after a signal there is no other: one change would give several."""


class DriftSection(Section):
    """Signals that the concept has changed, and what to do then; `onlinesrl guide drift`."""

    metric: Literal["hamming", "exact"] = "hamming"
    """what is watched: the share of wrong atoms of each prediction, or whether any is wrong."""
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


class Monitor:
    """Watches the updates of some weights, and has them respond to drift."""

    def __init__(self, section: DriftSection, weights: Restarts) -> None:
        self.section = section
        self.weights = weights
        self.window = adwin.empty()
        self.wait = np.zeros(1, np.int64)
        """For how many more examples there is no signal, int64[1]."""

    def compile(self) -> None:
        """Compile the detector, or load it from the cache."""
        ready(adwin.add, self.window, 0.0, 1.0)

    def heed(self, wrong: int, units: int) -> bool:
        """Add the share of wrong atoms of the example just learned from; tell whether drift is signalled.

        Atoms of which exactly one is true are one unit. The share does not grow with the example.
        """
        share = wrong / units if units else 0.0
        value = share if self.section.metric == "hamming" else float(wrong > 0)
        risen = adwin.add(self.window, value, self.section.delta)
        if self.wait[0] > 0:
            self.wait[0] -= 1
            return False
        if not risen:
            return False
        self.wait[0] = COOLDOWN
        if self.section.response == "restart":
            self.weights.restart()
            self.window.size[:] = 0
        return True

    def save(self) -> dict[str, Any]:
        """Return the detector's state as arrays of a checkpoint."""
        window = {f"drift_{name}": getattr(self.window, name) for name in self.window._names}
        return {**window, "drift_wait": self.wait}

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
            "drift_wait": Expected(np.int64, (1,), 0, COOLDOWN),
        }
        for name, array in restored(arrays, expected).items():
            if name == "drift_wait":
                self.wait[:] = array
                continue
            getattr(self.window, name.removeprefix("drift_"))[:] = array
