"""What is done for a micro-batch ahead: it is packed, and its worlds are ground into memory of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.learner import Answered, Item, Outcome, Prediction
from onlinesrl.mln.ground.pack import Packed, Packer
from onlinesrl.mln.kernels import narrow, network, plans

if TYPE_CHECKING:
    from onlinesrl.mln.learner import OnlineLearner

WORLDS = 128
"""The most worlds of a micro-batch that are ground ahead."""
ATOMS, ROWS = 1 << 8, 1 << 11
"""The room for the atoms and rows of each; larger ones are ground when they are learned from."""
NONE = narrow.Ahead(*(np.zeros(0, np.int64) for _ in range(4)))
"""No world was ground ahead."""


@dataclass(eq=False)
class Packing:
    """Examples that were packed: the outcomes of bad ones, their kinds by place, and earlier predictions by world.

    ``batch`` is None where memory did not suffice. ``known`` and ``then`` say how many constants the stream
    had before and has since.
    """

    items: Sequence[Item]
    outcomes: list[Outcome | None]
    bad: dict[int, str]
    answered: dict[int, Prediction]
    worlds: Sequence[Packed]
    known: Mapping[str, int]
    then: Mapping[str, int] = field(default_factory=dict)
    batch: plans.Batch | None = None
    ground: narrow.Ahead = NONE

    def of(self, items: Sequence[Item]) -> bool:
        """Tell whether these items are what was packed."""
        return len(items) == len(self.items) and all(
            a is b for a, b in zip(items, self.items, strict=True)
        )


def packed(packer: Packer, items: Sequence[Item]) -> Packing:
    """Pack the good examples; they are not yet a batch."""
    outcomes = [Outcome(None, str(e)) if isinstance(e, ExampleError) else None for e in items]
    bad = {n: e.kind for n, e in enumerate(items) if isinstance(e, ExampleError)}
    answered: dict[int, Prediction] = {}
    for place, item in enumerate(items):
        if isinstance(item, ExampleError):
            continue
        try:
            packer.add(item.example if isinstance(item, Answered) else item, place)
        except ExampleError as error:
            outcomes[place] = Outcome(None, str(error))
            bad[place] = error.kind
        else:
            if isinstance(item, Answered):
                answered[len(packer) - 1] = item.prediction
    return Packing(items, outcomes, bad, answered, packer.worlds, packer.stream_sizes())


class GroundAhead:
    """Grounds the worlds of a batch that is not yet learned from, by a thread of its own.

    There is memory for two micro-batches: one of them may be in use.
    """

    def __init__(self, learner: OnlineLearner) -> None:
        self.learner = learner
        self.turn = 0
        self.rooms: list[_Room] = []

    def ground(self, batch: plans.Batch) -> narrow.Ahead:
        """Return the worlds of a batch, ground as far as there is room."""
        if not self.rooms:
            self.rooms = [_Room(self.learner), _Room(self.learner)]
        self.turn = 1 - self.turn
        return self.rooms[self.turn].ground(batch, self.learner)


class _Room:
    """Memory for the worlds of a micro-batch."""

    def __init__(self, learner: OnlineLearner) -> None:
        grounder, state = learner.grounder, learner.worlds.state
        self.scratch = grounder.make_scratch()
        self.nets: list[network.Network] = [
            grounder.make_network(ATOMS, ROWS) for _ in range(WORLDS)
        ]
        self.states = [replace(state, truth=np.zeros(ATOMS, np.uint8)) for _ in range(WORLDS)]
        self.addresses: Any = [
            np.array([each.address for each in frames], np.int64)
            for frames in (self.nets, self.states)
        ]

    def ground(self, batch: plans.Batch, learner: OnlineLearner) -> narrow.Ahead:
        """Return the worlds of a batch, ground as far as there is room."""
        worlds = min(len(batch.listed), WORLDS)
        status, detail = np.full(worlds, narrow.AGAIN), np.zeros(worlds, np.int64)
        ahead = narrow.Ahead(*self.addresses, status, detail)
        memory = replace(learner.worlds.memory, batch=batch, scratch=self.scratch, ahead=ahead)
        narrow.run(memory, 0, worlds, narrow.GROUND, True)
        return ahead
