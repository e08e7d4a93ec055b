"""What one example has in a dual: the sums of alpha Delta and of alpha rho over its rivals, its *block*.

The multipliers alpha of an example's rivals are at least 0, and their sum is at most 1. So a step towards one
rival, block += gamma (Delta - block) with gamma in [0, 1], keeps them there (block-coordinate Frank-Wolfe:
Lacoste-Julien, Jaggi, Schmidt & Pletscher 2013, algorithm 4). Of an example that was not seen, it is 0.
"""

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, enlarged
from onlinesrl.core.jit.decorators import kernel_of
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.averaging import Averaged, add

SIZE = 0
"""Where ``Block.size`` has the number of places."""


class Block(Frame):
    """The block of the example at hand."""

    index: Ints  # [place] a weight
    value: Floats  # [place] its sum of alpha Delta
    before: Floats  # [place] that before the present step
    size: Ints  # [1] how many places are in use
    rho: Floats  # [1] the sum of alpha rho

    @classmethod
    def _without(cls, values: dict[str, object]) -> tuple[str, ...]:
        return () if len(values["index"]) else ("blocks",)  # type: ignore[arg-type]

    @classmethod
    def room(cls, places: int) -> "Block":
        """Return an empty block with room for so many weights."""
        index, (value, before) = np.zeros(places, np.int64), np.zeros((2, places))
        return cls(index, value, before, np.zeros(1, np.int64), np.zeros(1))

    def enlarged(self, places: int) -> "Block":
        """Return the same block with room for so many weights."""
        index, value = enlarged(self.index, places), enlarged(self.value, places)
        before = enlarged(self.before, places)
        return Block(index, value, before, self.size.copy(), self.rho.copy())


@kernel_of("blocks", 0)
def subtract(weights: Averaged, block: Block, n: int, cost: float) -> int:
    """Take the block from ``cost`` times a gap of ``n`` weights; return how many the gap then touches."""
    for j in range(n):
        weights.delta[j] *= cost
    for j in range(block.size[SIZE]):
        n = add(weights, n, block.index[j], -block.value[j])
    for j in range(n):
        block.before[j] = 0.0
    for j in range(block.size[SIZE]):
        block.before[weights.mark[block.index[j]] - 1] = block.value[j]
    return n


@kernel_of("blocks", None)
def move_block(weights: Averaged, block: Block, n: int, gamma: float, rho: float) -> None:
    """Add gamma times the gap of ``n`` weights, and gamma ``rho``, to the block."""
    for j in range(n):
        block.index[j] = weights.touched[j]
        block.value[j] = block.before[j] + gamma * weights.delta[j]
    block.size[SIZE] = n
    block.rho[0] += gamma * rho
