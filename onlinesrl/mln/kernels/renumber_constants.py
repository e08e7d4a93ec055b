"""The constants of a batch, numbered by world and by stream."""

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel, threaded
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.grounding_frames import Batch


class Slots(Frame):
    """The relations of a batch: slots, and the types of their columns."""

    start: Ints32  # [slot + 1] into type
    type: Ints32  # [column]
    true: Bytes  # [slot] 1: of the truth, which adds no constants


class Numbered(Frame):
    """The numbers of the constants of one type, by packed number."""

    shared: Ints32  # its number in all worlds, -1 for none; only for the first packed numbers
    stamp: Ints  # the last world that has it; world numbers are never reused
    place: Ints32  # its number in that world
    stream: Ints32  # its number in the stream, negative: none
    next: Ints  # the stream's next number, now and before the batch
    fresh: Ints32  # the constants that are new in the stream, in order


@kernel
def _in_stream(batch: Batch, numbered: Numbered, w: int, c: int, learning: bool) -> int:
    """Return a constant's number in the stream; learning from a labelled world numbers a new constant."""
    if numbered.stream[c] >= 0:
        return numbered.stream[c]
    if not (learning and batch.labelled[w]):
        return -2 - c
    number = numbered.next[0]
    numbered.stream[c] = number
    numbered.fresh[number - numbered.next[1]] = c
    numbered.next[0] += 1
    return number


@kernel
def _localise_world(
    batch: Batch,
    slots: Slots,
    numbered: Numbered,
    w: int,
    kind: int,
    mark: int,
    at: int,
    local: bool,
    streamed: bool,
    learning: bool,
    shared: int,
) -> tuple[int, int]:
    """Renumber the constants of one world; returns where its members end and how many it has."""
    n = shared
    for turn in range(2 * batch.count.shape[1]):
        slot, true = turn % batch.count.shape[1], turn >= batch.count.shape[1]
        if slots.true[slot] != true:
            continue
        first = slots.start[slot]
        arity = slots.start[slot + 1] - first
        stop = batch.start[w, slot] + arity * batch.count[w, slot]
        for k in range(arity):
            if slots.type[first + k] != kind:
                continue
            for i in range(batch.start[w, slot] + k, stop, arity):
                c = batch.data[i]
                if c < len(numbered.shared) and numbered.shared[c] >= 0:
                    batch.data[i] = numbered.shared[c]
                    continue
                if true:
                    batch.data[i] = numbered.place[c] if numbered.stamp[c] == mark else -2 - c
                    continue
                number = numbered.stream[c]
                if streamed:
                    number = _in_stream(batch, numbered, w, c, learning)
                if local and numbered.stamp[c] != mark:
                    numbered.stamp[c], numbered.place[c] = mark, n
                    batch.member[at], batch.stream[at] = c, number
                    at, n = at + 1, n + 1
                batch.data[i] = numbered.place[c] if local else number
    return at, n


@threaded
def localise(
    batch: Batch,
    slots: Slots,
    numbered: Numbered,
    kind: int,
    worlds_before: int,
    at: int,
    local: bool,
    streamed: bool,
    learning: bool,
    shared: int,
) -> int:
    """Renumber the constants of one type: by world (``local``), by stream, or both.

    The first ``shared`` constants have the same numbers in all worlds; others follow in order of first
    appearance. The stream only numbers constants of labelled worlds while ``learning``; other unknown ones
    get negative numbers, and so do constants that only the truth names. Members are written from ``at`` on;
    returns where they end.
    """
    for w in range(len(batch.listed)):
        if local:
            batch.member_start[w, kind] = at
        at, batch.domain[w, kind] = _localise_world(
            batch,
            slots,
            numbered,
            w,
            kind,
            worlds_before + w + 1,
            at,
            local,
            streamed,
            learning,
            shared,
        )
    return at
