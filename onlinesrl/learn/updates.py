"""The online updates, each as the step it makes (Huynh & Mooney 2010, Algorithm 3), and all by name."""

from __future__ import annotations

from onlinesrl.learn.adagrad import AdaGradCda
from onlinesrl.learn.update import Update


class Cda1(Update):
    """Coordinate dual ascent, regularised once."""

    name = "cda1"
    losses = ("ml", "pl")

    def step(self, t: int, margin: float, dot: float, norm: float) -> tuple[float, float]:
        """See ``Update.step``."""
        loss = max(0.0, margin - dot)
        step = min(1.0 / self.sigma, loss / norm)
        return step, self.sigma * step


class Cda2(Update):
    """Coordinate dual ascent, regularised at every step."""

    name = "cda2"
    losses = ("ml", "pl")
    shrinks = True

    def step(self, t: int, margin: float, dot: float, norm: float) -> tuple[float, float]:
        """See ``Update.step``."""
        loss = max(0.0, margin - dot / t)  # (t-1)/t <w_t, Delta> = <u_t, Delta> / t
        step = min(1.0 / (self.sigma * t), loss / norm)
        return t * step, self.sigma * t * step


class Mira(Update):
    """The 1-best margin infused relaxed algorithm (Crammer et al. 2005)."""

    name = "mira"
    losses = ("pl",)
    dual = False

    def step(self, t: int, margin: float, dot: float, norm: float) -> tuple[float, float]:
        """See ``Update.step``."""
        return max(0.0, margin - dot) / norm, 0.0


class Subgradient(Update):
    """The subgradient method with the step 1 / (sigma t) (Ratliff, Bagnell & Zinkevich 2007)."""

    name = "subgradient"
    losses = ("ml",)
    shrinks = True

    def step(self, t: int, margin: float, dot: float, norm: float) -> tuple[float, float]:
        """See ``Update.step``."""
        return 1.0 / self.sigma, 1.0


class Perceptron(Update):
    """The structured perceptron (Collins 2002)."""

    name = "perceptron"
    losses = ("pl",)
    dual = False

    def step(self, t: int, margin: float, dot: float, norm: float) -> tuple[float, float]:
        """See ``Update.step``."""
        return self.eta, 0.0


UPDATES: dict[str, type[Update]] = {
    update.name: update for update in (Cda1, Cda2, Mira, Subgradient, Perceptron, AdaGradCda)
}
