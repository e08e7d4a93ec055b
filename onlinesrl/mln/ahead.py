"""What is done for a micro-batch ahead: it is packed, and its worlds are ground into memory of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.kernels.frames import address_of
from onlinesrl.core.learner import Answered, Item, Outcome, Prediction
from onlinesrl.mln.ground.pack import Packed, Packer
from onlinesrl.mln.kernels import narrow, network, plans

if TYPE_CHECKING:
    from onlinesrl.mln.learner import OnlineLearner

WORLDS = 128
"""The most worlds of a micro-batch that are ground ahead."""
ATOMS, ROWS = 1 << 8, 1 << 11
"""The room for the atoms and rows of each; larger ones are ground when they are learned from."""
_EMPTY = np.zeros(0, np.int64)
NONE = narrow.Ahead(_EMPTY, _EMPTY, _EMPTY, _EMPTY)
"""No world was ground ahead."""


@dataclass(eq=False)
class Packing:
    """Examples that were packed: outcomes and kinds of bad ones by place, earlier predictions by world.

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


class Packings:
    """The packed micro-batches of a learner: those done ahead, at most two, and those of its steps.

    ``then`` says how many constants the stream has after the last step, where it may have more already.
    """

    def __init__(self, learner: OnlineLearner) -> None:
        self.learner = learner
        self.rooms: list[_Room] = []
        self.forget()

    def forget(self) -> None:
        """Forget what was done ahead: the stream has been set."""
        self.newest: Packing | None = None
        self.next: Packing | None = None
        self.then: Mapping[str, int] | None = None

    def ahead(self, items: Sequence[Item]) -> Packing | None:
        """Pack a micro-batch and ground its worlds; see ``Learner.ahead``.

        None, and nothing is done, for models whose worlds depend on what is learned before.
        """
        learner = self.learner
        packer, bounded = learner.packer, learner.update.max_weights is not None
        if learner.layout.open or learner.layout.candidates or bounded or learner.weights.dropped:
            return None
        if packer.full or len(items) > learner.together.most:
            return None
        known = packer.stream_sizes()
        try:
            packer.start()
            packing = packed(packer, items)
            packing.batch = packer.batch(learning=True)
            packing.then = packer.stream_sizes()
            if learner.worlds.alone(learning=True):
                packing.ground = self._room().ground(packing.batch, learner)
        except MemoryError:
            packer.drop_stream(known)
            return None
        self.newest = packing
        return packing

    def _room(self) -> _Room:
        """Return the room that was not used last."""
        self.rooms = self.rooms[1:] + self.rooms[:1]
        self.rooms = self.rooms or [_Room(self.learner), _Room(self.learner)]
        return self.rooms[0]

    def turn(self, items: Sequence[Item], ahead: Packing | None) -> None:
        """See ``Learner.turn``."""
        stands = ahead is not None and ahead is self.newest
        self.next, self.newest = ahead if stands else self.ahead(items), None

    def take(self, items: Sequence[Item], learning: bool) -> Packing:
        """Return the packing of a step, done ahead or now."""
        found, packer = self.next, self.learner.packer
        if learning and found is not None and found.of(items):
            self.next, self.then = None, found.then
            return found
        self.undo()
        packer.clear()
        found = packed(packer, items)
        with suppress(MemoryError):
            found.batch = self.learner.grounder.batch(learning)
        return found

    def clear(self) -> None:
        """Clear the packer after a step, unless it is in use."""
        if self.then is None or self.learner.packer.full:
            self.undo()
            self.learner.packer.clear()

    def undo(self) -> None:
        """Undo what was done ahead; nothing is until the next ``turn``."""
        self.learner.quiet()
        undone = self.next or self.newest
        self.forget()
        if undone is not None:
            self.learner.packer.forget(undone.known)


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
            np.array([*map(address_of, frames)], np.int64) for frames in (self.nets, self.states)
        ]

    def ground(self, batch: plans.Batch, learner: OnlineLearner) -> narrow.Ahead:
        """Return the worlds of a batch, ground as far as there is room."""
        worlds = min(len(batch.listed), WORLDS)
        status, detail = np.full(worlds, narrow.AGAIN), np.zeros(worlds, np.int64)
        net, state = self.addresses
        ahead = narrow.Ahead(net, state, status, detail)
        memory = replace(learner.worlds.memory, batch=batch, scratch=self.scratch, ahead=ahead)
        narrow.run(memory, 0, worlds, narrow.GROUND, True)
        return ahead
