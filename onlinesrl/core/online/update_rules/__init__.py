"""The update rules by name (Huynh & Mooney 2010, Algorithm 3).

A new rule is one file of this folder, with its formula as a kernel, and one line in ``UPDATES``.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from onlinesrl.core.io.config_section import Kinds, kind_of, named
from onlinesrl.core.online.update_rules.adagrad import AdaGradCda
from onlinesrl.core.online.update_rules.cda1 import Cda1
from onlinesrl.core.online.update_rules.cda2 import Cda2
from onlinesrl.core.online.update_rules.contrastive_divergence import ContrastiveDivergence
from onlinesrl.core.online.update_rules.log_likelihood import LogLikelihood
from onlinesrl.core.online.update_rules.mira import Mira
from onlinesrl.core.online.update_rules.passive_aggressive import PassiveAggressive
from onlinesrl.core.online.update_rules.perceptron import Perceptron
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.core.online.update_rules.second_order import SecondOrder
from onlinesrl.core.online.update_rules.simple import Simple
from onlinesrl.core.online.update_rules.subgradient import Subgradient

__all__ = ["STANDARD", "UPDATES", "AnyUpdate", "Cda1", "Cda2", "Standard"]

Standard = AdaGradCda
"""The default update; each update has its own defaults for loss and sigma (streams/papers/defaults)."""
STANDARD = kind_of(Standard)
UPDATES: dict[str, type[Update]] = named(
    Standard,
    Cda1,
    Cda2,
    PassiveAggressive,
    Simple,
    Mira,
    Subgradient,
    Perceptron,
    ContrastiveDivergence,
    LogLikelihood,
    SecondOrder,
)
"""The updates of this package by name."""
AnyUpdate: TypeAlias = Annotated[Update, Kinds("onlinesrl.updates", Update, UPDATES)]
