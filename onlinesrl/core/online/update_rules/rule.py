"""The base class of update rules: the step that a rule makes for each example.

An example gives the gap Delta, the features of its truth less those of a rival, and the label loss rho of the
rival. Weights are w_t = base + s_t u_t, with s_t = 1, or 1 / (t - 1) if an update shrinks all weights. An
update is u += c Delta, which touches only the non-zeros of Delta. A rule is one file: its formula gives c for
both languages, and its class is the section ``learner`` of the configuration.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import ValidationInfo, field_validator, model_validator

from onlinesrl.core.arrays import Floats
from onlinesrl.core.evaluation.label_loss import Given
from onlinesrl.core.io.config_section import Section, own
from onlinesrl.core.io.config_types import Count, Existing, Positive
from onlinesrl.core.jit.address import pair_address
from onlinesrl.core.jit.decorators import kernel, plain
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.covariance import Covariance
from onlinesrl.core.kernels.dual_block import Block
from onlinesrl.core.online.reservoir import ReplaySection

OptimizerState = Mapping[str, Floats]
"""The optimiser's state of each weight, float64[weights], by its name in ``columns``."""
UNITS = "unit", "mean_square", "examples"
"""The columns of models with numbers as evidence; see ``core.online.metric_steps``."""
_NONE = np.zeros(0)
NO_BLOCK = Block.room(0)
NO_COVARIANCE = Covariance.zeros(weight=0, slot=0)


class UpdateParams(Frame):
    """A rule and its constants."""

    formula: int  # the address of its compiled formula
    shrinks: bool  # each step shrinks all weights by (t - 1) / t
    rooted: bool  # the required margin is the square root of the label loss
    sigma: float
    constant: float  # a second constant, as ``Update.constant``
    square: Floats  # [weight] the sum of its squared gaps; empty without rates
    unit: Floats  # [weight / sharing] 0: it has none so far; empty where each is 1
    mean_square: Floats  # [weight / sharing] of its numbers in units
    examples: Floats  # [weight / sharing] how many that mean is over
    numbers: Floats  # [weight / sharing, 2] of this example: sum of squares, how many; 0 between examples
    sharing: int  # how many weights, one after the other, share a unit
    share: Floats  # [1] how much the example at hand counts
    metric: bool  # steps are in units, or divided by rates
    expects: bool  # the gap is to the expected features of all states, in place of a rival's
    block: Block  # of the example at hand; without room where duals are not moved
    covers: bool  # steps are along the covariance of the weights times the gap
    covariance: Covariance  # without weights where steps are others
    memory: float  # how many examples are remembered; 0: all

    @classmethod
    def _without(cls, values: dict[str, object]) -> tuple[str, ...]:
        lacking = [name for name in ("metric", "expects", "covers") if not values[name]]
        return (*lacking, *(() if len(values["unit"]) else ("units",)))  # type: ignore[arg-type]


@kernel
def scale(shrinks: bool, t: int) -> float:
    """Return s_t: w_t = base + s_t u_t."""
    if not shrinks:
        return 1.0
    return 1.0 / (t - 1) if t > 1 else 0.0


@kernel
def required(rooted: bool, rho: float) -> float:
    """Return the margin that the truth must have over a rival whose label loss is ``rho``."""
    return float(np.sqrt(rho)) if rooted else rho


class Update(Section, ABC):
    """The online update, its loss and its constants (Huynh & Mooney 2010, Algorithm 3)."""

    tag = "update"
    rooted: ClassVar[bool] = False
    """Whether the required margin is the square root of the label loss."""
    shrinks: ClassVar[bool] = False
    """Whether each step shrinks all weights by (t - 1) / t."""
    dual: ClassVar[bool] = False
    """Whether its steps ascend a dual, whose value bounds the regret."""
    expects: ClassVar[bool] = False
    """Whether the expected features of all states stand for those of a rival."""
    moves: ClassVar[bool] = False
    """Whether its step maximises the dual along a gap, so that replay moves an example's part of the dual."""

    once: ClassVar[str] = ""
    """Why an example must not be learned from again; empty where it may be."""
    covers: ClassVar[bool] = False
    """Whether steps are along the covariance of the weights times the gap."""

    update: str = ""
    """the online update."""
    loss: Literal["pl", "ml"] = "pl"
    """the rival of the truth is the plain (pl) or the loss-augmented (ml) prediction."""
    max_weights: Count | None = None
    """past so many weights the least influential are dropped; null: never."""
    costs: Given | None = None
    """the label loss of a wrong atom where it is not 1, by predicate or atom (`_`: any constant): a
    number, or `missed` (of a true atom) and `extra` (of a false one); of several that fit the last holds.
    balanced: labels cost the more the rarer they were so far."""
    label_loss: Literal["f1"] | None = None
    """f1: the label loss is 1 - F1 of the rival's true atoms (the sum of costs, by the numbers of atoms true
    in the truth and in the rival), with loss pl only; null: it is the sum."""
    predict: Literal["averaged", "current"] = "averaged"
    """which weights predict, are explained and are written: the mean over all examples so far, or w_t, those
    of the next update (line 5 of Algorithm 3)."""
    calibrated: bool = False
    """whether probabilities of atoms are scaled by a temperature. It is fitted to the truth of each example
    before that is learned from; weights and most probable states are the same without it."""
    replay: ReplaySection | None = None
    """learning again from earlier examples, after each new one: a section, {} for its defaults."""
    start: Existing | None = None
    """what to start from: a file of weights, .mln or .psl, or a run folder or checkpoint, whose
    learning goes on whole; null: the weights of the rules."""

    @field_validator("label_loss")
    @classmethod
    def _searchable(cls, label_loss: str | None, before: ValidationInfo) -> str | None:
        if label_loss is not None and before.data.get("loss") == "ml":
            raise ValueError(
                f"{label_loss} is no sum over atoms, so no search finds the state of greatest score and loss "
                "that loss: ml needs; expected loss: pl, whose rival does not depend on the label loss"
            )
        return label_loss

    @model_validator(mode="after")
    def _replays(self) -> Self:
        if self.replay is not None and self.once:
            raise ValueError(f"replay: not for {self.update}, {self.once}")
        if self.has_blocks and self.max_weights is not None:
            raise ValueError(
                f"replay: not for {self.update} with max_weights, since the parts of the dual that are moved "
                "would lose the weights that are dropped; leave one of them out"
            )
        return self

    @property
    def has_blocks(self) -> bool:
        """Whether examples are learned from again, and have parts of the dual that are then moved."""
        return self.moves and self.replay is not None

    @staticmethod
    def formula(
        params: UpdateParams, t: int, margin: float, dot: float, norm: float
    ) -> tuple[float, float]:
        """Return (c, alpha): the step on u, and the multiplier of the dual (0 without a dual).

        ``margin``, ``dot`` and ``norm`` are rho - <base, Delta>, <u, Delta> and ||Delta||^2 > 0. Each rule
        defines its formula as a kernel.
        """
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the optimiser's state of each weight."""
        return ()

    @property
    def strength(self) -> float:
        """The strength of the regularisation, sigma; 0 without regularisation."""
        return 0.0

    @property
    def constant(self) -> float:
        """A second constant of the formula; 0 without one."""
        return 0.0

    @property
    def bounds(self) -> bool:
        """Whether its dual is proven to bound the regret.

        That of another package's rule is not, nor one in which examples count as often as they are replayed.
        """
        return self.dual and own(type(self)) and (self.replay is None or self.moves)

    @property
    def slots(self) -> int:
        """Of how many weights the covariance is full."""
        return 0

    @property
    def remembered(self) -> float:
        """How many examples the covariance remembers; 0: all."""
        return 0.0

    def params(
        self,
        state: OptimizerState,
        formula: int = 0,
        block: Block = NO_BLOCK,
        covariance: Covariance = NO_COVARIANCE,
        sharing: int = 1,
    ) -> UpdateParams:
        """Return the constants with the optimiser's ``state``, and the address of the ``formula``."""
        return UpdateParams(
            formula=formula,
            shrinks=self.shrinks,
            rooted=self.rooted,
            sigma=self.strength,
            constant=self.constant,
            square=state.get("square", _NONE),
            unit=state.get("unit", _NONE),
            mean_square=state.get("mean_square", _NONE),
            examples=state.get("examples", _NONE),
            numbers=np.zeros((len(state.get("unit", _NONE)), 2)),
            sharing=sharing,
            share=np.ones(1),
            metric="square" in state or "unit" in state,
            expects=self.expects,
            block=block,
            covers=self.covers,
            covariance=covariance,
            memory=self.remembered,
        )

    def compiled(
        self,
        state: OptimizerState,
        block: Block = NO_BLOCK,
        covariance: Covariance = NO_COVARIANCE,
        sharing: int = 1,
    ) -> UpdateParams:
        """Return the rule as kernels take it, with the optimiser's ``state``."""
        params = self.params(state, 0, block, covariance, sharing)
        return self.params(state, pair_address(self.formula, params), block, covariance, sharing)

    def scale(self, t: int) -> float:
        """Return s_t: w_t = base + s_t u_t."""
        return plain(scale)(self.shrinks, t)

    def required(self, rho: float) -> float:
        """Return the margin that the truth must have over a rival whose label loss is ``rho``."""
        return plain(required)(self.rooted, rho)

    def step(self, t: int, margin: float, dot: float, norm: float) -> tuple[float, float]:
        """Return what ``formula`` does, without compiling it."""
        return plain(type(self).formula)(self.params({}), t, margin, dot, norm)

    def drawn(self) -> int:
        """Return the number of sampled states that replace the rival; 0: the rival is the best state.

        Where the update ``expects`` features, they replace these if elimination is too wide.
        """
        return 0

    def metric(self, state: OptimizerState, delta: Floats | float = 0.0) -> Floats | float:
        """Return the divisor of each weight's step, after a step along ``delta``: float64[weights], or 1."""
        return 1.0

    def accumulate(self, state: OptimizerState, delta: Floats) -> None:
        """Add a step along ``delta``, float64[weights], to the optimiser's state."""


class Regularised(Update, ABC):
    """An update of regularised losses."""

    sigma: Positive = 0.01
    """strength of the regularisation; larger values make smaller steps."""
    dual = True

    @property
    def strength(self) -> float:
        """See ``Update.strength``."""
        return self.sigma
