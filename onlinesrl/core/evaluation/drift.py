"""Concept drift: a detector tells when the errors of predictions become more.

ADWIN, of the package river: Bifet & Gavalda, Learning from time-changing data with adaptive windowing, SIAM
Data Mining 2007.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta
from pydantic import Field

from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.restoring import converted

MOST = 1_000
"""The most errors in a window."""
Window = Annotated[list[Annotated[float, Meta(ge=0, le=1)]], Meta(max_length=MOST)]


class DriftSection(Section):
    """Signals that the concept has changed; `onlinesrl guide drift`."""

    metric: Literal["hamming", "exact"] = "hamming"
    """what is watched: the share of wrong atoms of each prediction, or whether any is wrong."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """a bound on the probability of a false signal; a smaller one makes signals rarer and later."""

    def needs(self) -> Mapping[str, str]:
        """See ``Section.needs``."""
        return {"metric": "river"}


class DriftDetector:
    """A window of the newest errors, which is cut where their mean changes.

    The state of the detector of river cannot be saved. A new one to which the same errors are added is in
    the same state, so the window holds all errors that were added to the present one.
    """

    def __init__(self, section: DriftSection, window: Any = ()) -> None:
        """Begin with the window of an earlier detector. Raises Misfit."""
        self.section = section
        self._fill(converted(window, Window))

    def _fill(self, window: list[float]) -> None:
        from river.drift import ADWIN

        self.window = window
        self._adwin = ADWIN(delta=self.section.delta, clock=1)
        for error in window:
            self._adwin.update(error)

    def add(self, wrong: float) -> bool:
        """Add the share of a prediction that is wrong, in [0, 1]; return whether errors have become more.

        Where they have, the window begins anew; where they have become fewer, the older ones are dropped.
        """
        error = wrong if self.section.metric == "hamming" else float(wrong > 0.0)
        if len(self.window) == MOST:
            self._fill(self.window[MOST // 2 :])
        mean = self._adwin.estimation
        self.window.append(error)
        self._adwin.update(error)
        if not self._adwin.drift_detected:
            return False
        risen = bool(self._adwin.estimation > mean)
        self._fill([] if risen else self.window[-int(self._adwin.width) :])
        return risen
