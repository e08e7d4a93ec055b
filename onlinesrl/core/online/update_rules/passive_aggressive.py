"""PA-I: CDA1 that asks for a margin of the square root of the label loss (Crammer et al. 2006).

>>> PassiveAggressive().required(4.0)
2.0
"""

from __future__ import annotations

from typing import Literal

from onlinesrl.core.online.update_rules.cda1 import CoordinateAscent


class PassiveAggressive(CoordinateAscent):
    """PA-I: CDA1 that asks for a margin of the square root of the label loss (Crammer et al. 2006)."""

    name = "pa1"
    loss: Literal["pl"] = "pl"
    rooted = True
