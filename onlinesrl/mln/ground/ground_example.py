"""Examples of a program ground and weighed by the program's own weights, without a learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats, Zeros
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Example
from onlinesrl.logic.ast import Program
from onlinesrl.mln.ground.atom_names import WorldAtoms
from onlinesrl.mln.ground.batch_packer import NONE, Wholly
from onlinesrl.mln.ground.grounder import LIMITS, Grounder, Limits
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.ground.model_weights import ModelWeights
from onlinesrl.mln.kernels import weight_magnitude
from onlinesrl.mln.kernels.ground_network import Network
from onlinesrl.mln.kernels.grounding_frames import WEIGHTS_OVERFLOW, Batch


@dataclass(eq=False)
class GroundExample:
    """An example's ground network, whose rows have the numbers of their weights.

    Valid until its grounder grounds the next example. ``magnitude`` is the sum of the absolute weights
    that have been asked for.
    """

    grounder: ModelGrounder
    batch: Batch
    magnitude: float = 0.0

    @property
    def net(self) -> Network:
        """The ground network."""
        return self.grounder.net

    def atoms(self) -> WorldAtoms:
        """Return the open atoms."""
        return WorldAtoms([*self.grounder.named(self.batch, 0)])

    def weights(self, net: Network) -> Floats:
        """Return the weights of the ground clauses of the network, or of a view of it, float64[clause].

        The next call overwrites them. Raises ExampleError where their sum is beyond doubles.
        """
        weight = self.grounder.weights.weigh(net)
        self.magnitude += weight_magnitude.total(net, weight)
        if not self.magnitude <= weight_magnitude.HIGHEST:
            clause = weight_magnitude.largest(net, weight)
            reason = self.grounder.reasons.of(self.batch, 0, WEIGHTS_OVERFLOW, clause)
            raise ExampleError(reason, "overflow")
        return weight


class ModelGrounder(Grounder):
    """Grounds examples of a program for the atoms of ``query`` predicates.

    ``weights`` numbers the program's weights, and those of template constants that examples bring.
    """

    def __init__(
        self,
        program: Program,
        query: Sequence[str],
        limits: Limits = LIMITS,
        zeros: Zeros = np.zeros,
    ):
        layout = Layout(compile_program(program, query))
        self.weights = ModelWeights(layout)
        super().__init__(layout, self.weights.stream, limits, zeros=zeros)

    def ground_example(
        self, example: Example, wholly: Wholly = NONE, learning: bool = False
    ) -> GroundExample:
        """Ground an example; see ``Grounder.ground_one``. Raises ExampleError."""
        batch = self.ground_one(example, wholly, learning)
        self.weights.number(self.net, learning)
        return GroundExample(self, batch)


def ground(
    program: Program,
    query: Sequence[str],
    example: Example,
    limits: Limits = LIMITS,
    wholly: Wholly = NONE,
    zeros: Zeros = np.zeros,
) -> GroundExample:
    """Ground one example of a program, with all atoms of ``query`` predicates open.

    For ``wholly`` see ``Packer.add``; ``zeros`` makes the arrays of rows. Raises ExampleError.
    """
    return ModelGrounder(program, query, limits, zeros).ground_example(example, wholly)
