"""What is done for a micro-batch ahead: it is packed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.learner import Answered, Item, Outcome, Prediction
from onlinesrl.core.parallel.adaptive_batch import AdaptiveBatcher
from onlinesrl.mln.ground.batch_packer import Packed, Packer
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.kernels import grounding_frames
from onlinesrl.mln.online.weight_table import WeightTable


@dataclass(eq=False)
class PackedBatch:
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
    batch: grounding_frames.Batch | None = None


def same(some: Sequence[Item], others: Sequence[Item]) -> bool:
    """Tell whether the one micro-batch is the other."""
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def packed(packer: Packer, items: Sequence[Item]) -> PackedBatch:
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
    return PackedBatch(items, outcomes, bad, answered, packer.worlds, packer.stream_sizes())


@dataclass(eq=False)
class Coming:
    """A micro-batch before its turn; ``packing`` is None if it is not packed, nor is any after it."""

    items: Sequence[Item]
    packing: PackedBatch | None = None


class PackingQueue:
    """The packed micro-batches of a learner: those done ahead, and those of its steps.

    Constants are numbered in the order of the stream, so what is not packed keeps all after it from being
    packed, until its turn. ``then`` says how many constants the stream has after the last step, where it
    may have more already. ``quiet`` waits until nothing is done ahead.
    """

    def __init__(
        self,
        grounder: Grounder,
        weights: WeightTable,
        together: AdaptiveBatcher,
        quiet: Callable[[], object],
    ) -> None:
        self.grounder = grounder
        self.packer = grounder.packer
        self.weights = weights
        self.together = together
        self.quiet = quiet
        self.coming = deque[Coming]()
        self.forget()

    def forget(self) -> None:
        """Forget what was done ahead: the stream has been set."""
        for each in self.coming:
            each.packing = None
        self.next: PackedBatch | None = None
        self.then: Mapping[str, int] | None = None

    def ahead(self, items: Sequence[Item]) -> None:
        """Pack a micro-batch; see ``Learner.ahead``.

        Nothing is done for models whose worlds depend on what is learned before.
        """
        layout = self.grounder.layout
        if layout.open or layout.candidates or self.weights.update.max_weights is not None:
            return
        packed_before = all(each.packing is not None for each in [*self.coming])
        self.coming.append(Coming(items, self._ahead(items) if packed_before else None))

    def _ahead(self, items: Sequence[Item]) -> PackedBatch | None:
        packer = self.packer
        if self.weights.dropped or packer.full or len(items) > self.together.most:
            return None
        known = packer.stream_sizes()
        try:
            packer.start()
            packing = packed(packer, items)
            packing.batch = packer.batch(learning=True)
            packing.then = packer.stream_sizes()
        except MemoryError:
            packer.drop_stream(known)
            return None
        return packing

    def turn(self, items: Sequence[Item]) -> None:
        """See ``Learner.turn``."""
        while self.coming and not same(self.coming[0].items, items):  # of a run that was stopped
            self.undo()
            self.coming.popleft()
        if not self.coming:
            return
        if self.coming[0].packing is None:
            self.quiet()
            for each in self.coming:
                each.packing = self._ahead(each.items)
                if each.packing is None:
                    break
        self.next = self.coming.popleft().packing

    def take(self, items: Sequence[Item], learning: bool) -> PackedBatch:
        """Return the packing of a step, done ahead or now."""
        found = self.next
        if learning and found is not None and same(found.items, items):
            self.next, self.then = None, found.then
            return found
        self.undo()
        self.packer.clear()
        found = packed(self.packer, items)
        with suppress(MemoryError):
            found.batch = self.grounder.batch(learning)
        return found

    def clear(self) -> None:
        """Clear the packer after a step, unless it is in use."""
        if self.then is None or self.packer.full:
            self.undo()
            self.packer.clear()

    def undo(self) -> None:
        """Undo what was done ahead; nothing is until the next ``turn``."""
        self.quiet()
        undone = self.next or (self.coming[0].packing if self.coming else None)
        self.forget()
        if undone is not None:
            self.packer.forget(undone.known)
