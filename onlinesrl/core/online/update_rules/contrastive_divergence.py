"""The perceptron on the mean counts of samples by MC-SAT, from the truth on (Lowd & Domingos 2007).

>>> ContrastiveDivergence(samples=5).drawn()
5
"""

from __future__ import annotations

from typing import Literal

from onlinesrl.core.io.config_types import Count
from onlinesrl.core.online.update_rules.perceptron import ConstantStep


class ContrastiveDivergence(ConstantStep):
    """The perceptron on the mean counts of samples by MC-SAT, from the truth on (Lowd & Domingos 2007)."""

    name = "cd"
    loss: Literal["pl"] = "pl"
    costs: None = None
    """not for cd, which has no label loss."""
    label_loss: None = None
    """not for cd, which has no label loss."""
    samples: Count = 10
    """how many sampled states of an example are its rival."""

    def drawn(self) -> int:
        """See ``Update.drawn``."""
        return self.samples
