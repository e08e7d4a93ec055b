"""What learners share: their settings, what they say of an example, and what a run asks of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from onlinesrl.errors import ExampleError
from onlinesrl.ground.model import Indices
from onlinesrl.kernels import updates
from onlinesrl.lang.example import Constant, Example, ValuedAtom

UPDATES = {
    "cda1": updates.CDA1,
    "cda2": updates.CDA2,
    "mira": updates.MIRA,
    "subgradient": updates.SUBGRADIENT,
    "perceptron": updates.PERCEPTRON,
}


@dataclass(frozen=True)
class Hyper:
    """The learner's hyper-parameters; ``loss`` is "pl" or "ml", ``max_weights`` None for no limit."""

    update: str = "cda2"
    loss: str = "ml"
    sigma: float = 0.01
    eta: float = 1.0
    max_weights: int | None = None


class Prediction(msgspec.Struct, omit_defaults=True):
    """One line of predictions.jsonl.

    ``predicted`` has the true atoms of a Markov logic example, and every target of a PSL one with its
    value; ``hamming`` counts the wrong ones, of values those on the wrong side of 1/2; ``l1`` is the
    sum of |value - true value| over the targets.
    """

    id: Constant
    predicted: Mapping[str, Sequence[list[Constant] | ValuedAtom]]
    score: float
    certified: bool
    group: str | None = None
    hamming: int | None = None
    margin: float | None = None
    l1: float | None = None


class Outcome(msgspec.Struct):
    """What became of one example: its prediction, or the reason why it is bad.

    ``unsolved``: it is put aside because a search ended at its limit, not for what it says.
    """

    prediction: Prediction | None
    error: str | None = None
    unsolved: bool = False


@dataclass(frozen=True)
class Tally:
    """Whole-number counts over a batch, for the metrics."""

    counts: Indices  # [7], metrics.HITS .. EXACT
    labelled: int
    predicted: int
    certified: int
    audited: int
    unsolved: int  # a search ended at its limit, whether the example was put aside or not
    routes: Mapping[str, int]
    by_class: Mapping[str, Indices]  # hits, false alarms, misses
    errors: Mapping[str, int]  # the bad ones, by ExampleError's kinds
    l1: int | None = None  # in units of metrics.UNIT; None for Markov logic


class WeightEntry(Protocol):
    """One weight by name: the text of its rule, the constants of its instance, its averaged value."""

    @property
    def text(self) -> str:
        """The rule."""
        ...

    @property
    def key(self) -> tuple[str, ...]:
        """The constants of a template's instance; none where the rule has one weight."""
        ...

    @property
    def instance(self) -> str:
        """The key with the names of the template's variables, ``w = learning``."""
        ...

    @property
    def weight(self) -> float:
        """The averaged weight."""
        ...

    @property
    def uses(self) -> int:
        """The number of updates that the weight took part in."""
        ...


class Weights(Protocol):
    """What a run asks of the weights; the length is how many there are."""

    dropped: int

    def __len__(self) -> int: ...

    @property
    def updates(self) -> int:
        """The number of updates so far."""
        ...

    def entries(self) -> Iterator[WeightEntry]:
        """Yield every weight by name, in a fixed order."""
        ...


class Learner(Protocol):
    """What a run asks of a learner: Markov logic's is ``online``, PSL's is ``soft``."""

    hyper: Hyper

    @property
    def weights(self) -> Weights:
        """The weights."""
        ...

    @property
    def model_text(self) -> str:
        """The model as text that reads back as the same."""
        ...

    def describe(self) -> str:
        """Say how large the model is."""
        ...

    def compile(self) -> float:
        """Compile the kernels, or load them from the cache; returns the seconds it took."""
        ...

    def step(
        self, examples: Sequence[Example | ExampleError], learning: bool = True
    ) -> tuple[list[Outcome], Tally]:
        """Predict, and learn from, each example in turn; an ExampleError stands for a bad one."""
        ...

    def certificate(self) -> dict[str, float | None]:
        """Return the mean loss, the dual value and the bound on the regret, as far as known."""
        ...

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""
        ...

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Go on from what ``save`` returned, bit for bit."""
        ...
