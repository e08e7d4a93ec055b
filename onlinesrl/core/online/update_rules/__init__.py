"""The online updates, each as the step it makes (Huynh & Mooney 2010, Algorithm 3), and all by name."""

from __future__ import annotations

from abc import ABC
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from onlinesrl.core.io.config_section import kind_of, sections_of, standard
from onlinesrl.core.io.config_types import Count, Positive
from onlinesrl.core.kernels import step_sizes
from onlinesrl.core.online.update_rules.adagrad import AdaGradCda
from onlinesrl.core.online.update_rules.rule import CoordinateAscent, Kept, Regularised, Update


class Cda1(CoordinateAscent):
    """Coordinate dual ascent, regularised once."""

    update: Literal["cda1"] = "cda1"


class PassiveAggressive(CoordinateAscent):
    """PA-I: CDA1 that asks for a margin of the square root of the label loss (Crammer et al. 2006)."""

    update: Literal["pa1"] = "pa1"
    loss: Literal["pl"] = "pl"
    rooted = True


class Cda2(Regularised):
    """Coordinate dual ascent, regularised at every step."""

    update: Literal["cda2"] = "cda2"
    kind = step_sizes.SHRINKING_ASCENT
    shrinks = True


class Simple(Regularised):
    """Dual ascent that sets the new multiplier to a subgradient: steps of 1 / sigma."""

    update: Literal["simple"] = "simple"
    kind = step_sizes.SIMPLE


class Mira(Update):
    """The 1-best margin infused relaxed algorithm (Crammer et al. 2005)."""

    update: Literal["mira"] = "mira"
    loss: Literal["pl"] = "pl"
    kind = step_sizes.MARGIN


class Subgradient(Regularised):
    """The subgradient method with the step 1 / (sigma t) (Ratliff, Bagnell & Zinkevich 2007)."""

    update: Literal["subgradient"] = "subgradient"
    loss: Literal["ml"] = "ml"
    kind = step_sizes.SUBGRADIENT
    shrinks = True


class ConstantStep(Update, ABC):
    """An update of the same step for every example."""

    eta: Positive = 1.0
    """the size of a step."""
    kind = step_sizes.CONSTANT

    def how(self, kept: Kept) -> step_sizes.UpdateParams:
        """See ``Update.how``."""
        return replace(super().how(kept), eta=self.eta)


class Perceptron(ConstantStep):
    """The structured perceptron (Collins 2002)."""

    update: Literal["perceptron"] = "perceptron"
    loss: Literal["pl"] = "pl"


class ContrastiveDivergence(ConstantStep):
    """The perceptron on the mean counts of samples by MC-SAT, from the truth on (Lowd & Domingos 2007)."""

    update: Literal["cd"] = "cd"
    loss: Literal["pl"] = "pl"
    samples: Count = 10
    """how many sampled states of an example are its rival."""

    def drawn(self) -> int:
        """See ``Update.drawn``."""
        return self.samples


Standard = AdaGradCda
"""The update where none is named; each has defaults of its own for loss and sigma (streams/defaults)."""
STANDARD = kind_of(Standard)
AnyUpdate: TypeAlias = Annotated[
    AdaGradCda  # one line per update, the standard first
    | Cda1
    | Cda2
    | PassiveAggressive
    | Simple
    | Mira
    | Subgradient
    | Perceptron
    | ContrastiveDivergence,
    Field(discriminator="update"),
    BeforeValidator(standard("update", STANDARD)),
]
UPDATES: dict[str, type[Any]] = {kind_of(each): each for each in sections_of(AnyUpdate)}
"""The updates by name."""
