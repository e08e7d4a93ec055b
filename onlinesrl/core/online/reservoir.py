"""A uniform sample of the examples learned from, of which some are learned from again after each new one.

Algorithm R (Vitter 1985): the first n examples are in the sample, and the t-th of the later ones replaces one
of them with probability n / t. A draw depends on the seed and on t alone, so that a run which was killed, and
resumed, draws the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Example, decode
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Count
from onlinesrl.core.io.restoring import MOST, Expected, Misfit, Natural, converted, restored
from onlinesrl.core.kernels.random import Generator, generator, uniform
from onlinesrl.core.online.parameter_mixing import State

_EXPECTED = {
    "replay_text": Expected(np.uint8, ("bytes",), 0, 255),
    "replay_ends": Expected(np.int64, ("examples", 2), 0, MOST),
    "replay_index": Expected(np.int64, ("places",), 0, MOST),
    "replay_value": Expected(np.float64, ("places",)),
    "replay_rho": Expected(np.float64, ("examples",)),
}
AGAIN, NEW = 0, 1
"""The chains of random numbers: those of what is learned from again, and of what a new example replaces."""


class ReplaySection(Section):
    """Learning again from earlier examples, after each new one."""

    examples: Count = 10
    """how many earlier examples are learned from again."""
    reservoir: Count = 1000
    """from how many these are drawn, a uniform sample of all so far that checkpoints hold."""
    max_bytes: Count = 250_000_000
    """how many bytes the sample may take; beyond it, it is smaller."""


class DualBlock(NamedTuple):
    """What an example has in the dual, see ``kernels.dual_block``; nothing where no duals are moved."""

    weights: Ints  # [place] their numbers
    value: Floats  # [place] the sum of alpha Delta
    rho: float  # the sum of alpha rho


NO_DUAL = DualBlock(np.zeros(0, np.int64), np.zeros(0), 0.0)


class Held(NamedTuple):
    """An example of the sample, as a line of JSON, and its block."""

    line: bytes
    block: DualBlock

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.line) + self.block.weights.nbytes + self.block.value.nbytes


class _Saved(msgspec.Struct):
    """The header of a checkpoint."""

    met: Natural = 0
    most: Natural = 0


class Reservoir:
    """The sample; ``met`` is the number of examples that were offered.

    >>> reservoir = Reservoir(ReplaySection(examples=2, reservoir=3), seed=0)
    >>> for n in range(10):
    ...     reservoir.offer(Held(b'{"id": %d, "evidence": {}}' % n, NO_DUAL))
    >>> len(reservoir.held), len(reservoir.drawn())
    (3, 2)
    """

    def __init__(self, section: ReplaySection, seed: int) -> None:
        self.section = section
        self.seed = seed
        self._begin()

    def _begin(self) -> None:
        self.met = self.bytes = 0
        self.most = self.section.reservoir
        self.held: list[Held] = []

    def drawn(self) -> list[int]:
        """Return the places of the examples to learn from again: different ones, or all (Floyd 1987)."""
        random, size = generator(self.seed, self.met, AGAIN), len(self.held)
        places: dict[int, None] = {}
        for last in range(max(0, size - self.section.examples), size):
            place = _below(random, last + 1)
            places[last if place in places else place] = None
        return [*places]

    def offer(self, example: Held) -> None:
        """Let the sample have a new example, or not."""
        self.met += 1
        if example.size > self.section.max_bytes:
            return
        random = generator(self.seed, self.met, NEW)
        if len(self.held) < self.most:
            self.held.append(example)
            self.bytes += example.size
        elif (place := _below(random, self.met)) < self.most:
            self.put(place, example)
        while self.bytes > self.section.max_bytes:
            self.most = len(self.held) - 1
            place, last = _below(random, len(self.held)), self.held.pop()
            self.bytes -= last.size
            if place < self.most:
                self.put(place, last)

    def put(self, place: int, example: Held) -> None:
        """Put an example in the place of another, or of itself with another block."""
        self.bytes += example.size - self.held[place].size
        self.held[place] = example

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""
        lines, blocks = [held.line for held in self.held], [held.block for held in self.held]
        sizes = [(len(held.line), len(held.block.weights)) for held in self.held]
        return {"met": self.met, "most": self.most}, {
            "replay_text": np.frombuffer(b"".join(lines), np.uint8),
            "replay_ends": np.cumsum(np.array(sizes, np.int64).reshape(-1, 2), axis=0),
            "replay_index": np.concatenate([NO_DUAL.weights, *(block.weights for block in blocks)]),
            "replay_value": np.concatenate([NO_DUAL.value, *(block.value for block in blocks)]),
            "replay_rho": np.array([block.rho for block in blocks], float),
        }

    def restore(
        self, header: Mapping[str, Any] | None, arrays: Mapping[str, Any], weights: int
    ) -> None:
        """Restore what ``save`` returned, None: an empty sample. Raises Misfit.

        Blocks are of so many ``weights``.
        """
        self._begin()
        if header is None:
            return
        saved, columns = converted(header, _Saved), restored(arrays, _EXPECTED)
        text, ends = columns["replay_text"].tobytes(), columns["replay_ends"]
        index, value = columns["replay_index"], columns["replay_value"]
        spans = np.concatenate([np.zeros((1, 2), np.int64), ends])
        if [*spans[-1]] != [len(text), len(index)] or np.any(np.diff(spans, axis=0) < 0):
            raise Misfit("the examples to be learned from again do not follow each other")
        if not len(ends) <= saved.most <= self.section.reservoir or np.any(index >= weights):
            raise Misfit("the examples to be learned from again are too many, or of other weights")
        self.met, self.most = saved.met, saved.most
        for (old, new), rho in zip(
            pairwise(spans.tolist()), columns["replay_rho"].tolist(), strict=True
        ):
            places = slice(old[1], new[1])
            block = DualBlock(index[places].copy(), value[places].copy(), rho)
            if len(np.unique(block.weights)) < len(block.weights):
                raise Misfit("an example to be learned from again has a weight twice")
            self.held.append(Held(text[old[0] : new[0]], block))
            self.bytes += self.held[-1].size
            try:
                decode(self.held[-1].line)
            except ExampleError as error:
                raise Misfit(f"of the examples to be learned from again: {error}") from None


def unsampled(state: State) -> State:
    """Return a learner's state without its sample, for shards: each draws from what it sees in the round.

    Else several shards would move the blocks of the same examples, and the merged dual would bound nothing.
    """
    header, arrays = state
    return (
        {name: value for name, value in header.items() if name != "replay"},
        {name: array for name, array in arrays.items() if name not in _EXPECTED},
    )


def line_of(example: Example) -> bytes:
    """Return an example as a line of JSON."""
    values = ((name, getattr(example, name)) for name in Example.__struct_fields__)
    return msgspec.json.encode({name: value for name, value in values if value is not None})


def _below(random: Generator, most: int) -> int:
    """Return a random number from 0 to ``most`` - 1."""
    return int(uniform(random) * most)
