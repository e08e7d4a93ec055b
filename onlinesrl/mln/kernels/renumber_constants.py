"""The constants of a batch, numbered by world and by stream."""

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel, threaded
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.background import number_beside
from onlinesrl.mln.kernels.ground_network import sort
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


class Appearing(Frame):
    """The columns in which the constants of facts appear first."""

    introduced: Ints32  # [constant of facts] the column
    arriving: Ints  # [column] the number of constants that appear first in it
    packed: Ints32  # [constant of facts] packed number
    seen: Ints  # [column] scratch: the number of early ones among them


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


@kernel
def _meet(
    batch: Batch,
    slots: Slots,
    numbered: Numbered,
    facts: Appearing,
    w: int,
    kind: int,
    mark: int,
    at: int,
    early_at: int,
    streamed: bool,
    learning: bool,
    shared: int,
) -> tuple[int, int, int]:
    """Give numbers to the own constants of a world, and to early ones, which facts name later.

    Returns where the members and the early ones end, and how many constants the world has.
    """
    columns, n = batch.own, shared
    facts.seen[:] = 0
    for slot in range(batch.count.shape[1]):
        first = slots.start[slot]
        arity = slots.start[slot + 1] - first
        stop = batch.start[w, slot] + arity * batch.count[w, slot]
        for column in range(first, first + arity):
            if slots.true[slot] or slots.type[column] != kind:
                continue
            n += facts.arriving[column] - facts.seen[column]
            for i in range(batch.start[w, slot] + column - first, stop, arity):
                c = batch.data[i]
                fact = numbered.shared[c] if c < len(numbered.shared) else -1
                if numbered.stamp[c] == mark or 0 <= fact < shared:
                    continue
                if fact >= 0 and facts.introduced[fact - shared] <= column:
                    continue
                numbered.stamp[c], numbered.place[c] = mark, n
                batch.member[at], columns.number[at], columns.shared[at] = c, n, fact
                if fact >= 0:
                    facts.seen[facts.introduced[fact - shared]] += 1
                    columns.early[early_at] = fact
                    early_at += 1
                number = numbered.stream[c]
                if streamed:
                    number = _in_stream(batch, numbered, w, c, learning)
                batch.stream[at] = number
                at, n = at + 1, n + 1
    return at, early_at, n


@kernel
def _rewrite(
    batch: Batch, slots: Slots, numbered: Numbered, w: int, kind: int, mark: int, shared: int
) -> None:
    """Write a world's numbers in place of the packed ones."""
    for slot in range(batch.count.shape[1]):
        first = slots.start[slot]
        arity = slots.start[slot + 1] - first
        stop = batch.start[w, slot] + arity * batch.count[w, slot]
        for column in range(first, first + arity):
            if slots.type[column] != kind:
                continue
            for i in range(batch.start[w, slot] + column - first, stop, arity):
                c = batch.data[i]
                fact = numbered.shared[c] if c < len(numbered.shared) else -1
                if 0 <= fact < shared:
                    batch.data[i] = fact
                elif numbered.stamp[c] == mark:
                    batch.data[i] = numbered.place[c]
                elif fact >= 0:
                    batch.data[i] = number_beside(batch.own, batch.member_start, w, kind, fact)
                else:
                    batch.data[i] = -2 - c


@threaded
def localise_beside(
    batch: Batch,
    slots: Slots,
    numbered: Numbered,
    facts: Appearing,
    kind: int,
    worlds_before: int,
    at: int,
    early_at: int,
    streamed: bool,
    learning: bool,
    shared: int,
) -> tuple[int, int]:
    """Do as ``localise`` for a type that occurs in facts.

    ``shared`` is the number of shared constants without those of facts. Returns where the members and the
    early constants end.
    """
    columns = batch.own
    for w in range(len(batch.labelled)):
        mark, first, begun = worlds_before + w + 1, early_at, at
        batch.member_start[w, kind], columns.early_start[w, kind] = at, early_at
        at, early_at, batch.domain[w, kind] = _meet(
            batch, slots, numbered, facts, w, kind, mark, at, early_at, streamed, learning, shared
        )
        columns.count[w, kind] = at - begun
        columns.early_count[w, kind] = early_at - first
        sort(columns.early, first, early_at)
        for e in range(first, early_at):
            columns.early_number[e] = numbered.place[facts.packed[columns.early[e] - shared]]
        _rewrite(batch, slots, numbered, w, kind, mark, shared)
    return at, early_at
