"""The packing of micro-batches ahead of their step."""

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
    """A packed micro-batch.

    ``outcomes`` and ``bad`` (kinds of errors) are by place in ``items``; ``answered`` has earlier
    predictions by world. ``batch`` is None if memory did not suffice. ``known`` and ``then`` are the numbers
    of constants, by type, before and after packing.
    """

    items: Sequence[Item]
    outcomes: list[Outcome | None]
    bad: dict[int, str]
    answered: dict[int, Prediction]
    worlds: Sequence[Packed]
    known: Mapping[str, int]
    then: Mapping[str, int] = field(default_factory=dict)
    batch: grounding_frames.Batch | None = None


def same(items: Sequence[Item], other_items: Sequence[Item]) -> bool:
    """Tell whether two micro-batches have identical items."""
    return len(items) == len(other_items) and all(
        a is b for a, b in zip(items, other_items, strict=True)
    )


def packed(packer: Packer, items: Sequence[Item]) -> PackedBatch:
    """Pack the good examples, without making the batch yet."""
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
    """A micro-batch before its turn.

    If ``packing`` is None, neither this micro-batch nor any later one is packed.
    """

    items: Sequence[Item]
    packing: PackedBatch | None = None


class PackingQueue:
    """The packed micro-batches of a learner, packed ahead or at their step.

    Constants are numbered in the order of the stream. An unpacked micro-batch therefore blocks the
    packing of all later ones until its turn. ``then`` is the number of constants, by type, after the last
    step if later ones are already numbered. ``quiet`` waits until no packing is in progress.
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
        """Forget all packings that were made ahead."""
        for coming in self.coming:
            coming.packing = None
        self.next: PackedBatch | None = None
        self.then: Mapping[str, int] | None = None

    def ahead(self, items: Sequence[Item]) -> None:
        """Pack a micro-batch; see ``Learner.ahead``.

        This does nothing for models whose worlds depend on earlier learning.
        """
        layout = self.grounder.layout
        if layout.open or layout.candidates or self.weights.update.max_weights is not None:
            return
        packed_before = all(coming.packing is not None for coming in [*self.coming])
        self.coming.append(Coming(items, self._ahead(items) if packed_before else None))

    def _ahead(self, items: Sequence[Item]) -> PackedBatch | None:
        packer = self.packer
        if self.weights.dropped or packer.full or len(items) > self.together.most:
            return None
        sizes = packer.stream_sizes()
        try:
            packer.start()
            packing = packed(packer, items)
            packing.batch = packer.batch(learning=True)
            packing.then = packer.stream_sizes()
        except MemoryError:
            packer.drop_stream(sizes)
            return None
        return packing

    def turn(self, items: Sequence[Item]) -> None:
        """See ``Learner.turn``."""
        # what is left over from an interrupted run goes
        while self.coming and not same(self.coming[0].items, items):
            self.undo()
            self.coming.popleft()
        if not self.coming:
            return
        if self.coming[0].packing is None:
            self.quiet()
            for coming in self.coming:
                coming.packing = self._ahead(coming.items)
                if coming.packing is None:
                    break
        self.next = self.coming.popleft().packing

    def take(self, items: Sequence[Item], learning: bool) -> PackedBatch:
        """Return the packing of a step's micro-batch, made ahead or now."""
        packing = self.next
        if learning and packing is not None and same(packing.items, items):
            self.next, self.then = None, packing.then
            return packing
        self.undo()
        self.packer.clear()
        packing = packed(self.packer, items)
        with suppress(MemoryError):
            packing.batch = self.grounder.batch(learning)
        return packing

    def clear(self) -> None:
        """Clear the packer after a step, unless it is in use."""
        if self.then is None or self.packer.full:
            self.undo()
            self.packer.clear()

    def undo(self) -> None:
        """Undo all packing ahead; no packing is ready until the next ``turn``."""
        self.quiet()
        undone = self.next or (self.coming[0].packing if self.coming else None)
        self.forget()
        if undone is not None:
            self.packer.forget(undone.known)
