"""The constants of a batch, numbered by world and by stream."""

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.core.kernels.jit import kernel
from onlinesrl.mln.kernels.plans import Batch


@kernel
def localise(
    batch: Batch,
    kind: int,
    at: int,
    local: bool,
    stream: bool,
    learning: bool,
    shared: int,
    shared_place: Ints32,
    slot_start: Ints32,
    slot_type: Ints32,
    slot_true: Bytes,
    worlds_before: int,
    stamp: Ints,
    place: Ints32,
    stream_id: Ints32,
    next_id: int,
    fresh: Ints32,
) -> tuple[int, int]:
    """Renumber the constants of one type: by world (``local``), by stream, or both.

    Shared constants have the numbers in ``shared_place`` [packed number]; others follow in order of
    first appearance, in the stream only those of labelled worlds while ``learning`` (listed in
    ``fresh``), and those it does not know get negative numbers. The truth (``slot_true``) adds no
    constants: those that only it names get negative numbers, too. ``stamp``, ``place`` and
    ``stream_id`` are [packed number]; stamps are never cleared, a world's is its number ever. Members
    are written from ``at`` on. Returns where they end and the stream's next number.
    """
    first = next_id
    for w in range(len(batch.listed)):
        mark, n = worlds_before + w + 1, shared
        if local:
            batch.member_start[w, kind] = at
        for turn in range(2 * batch.count.shape[1]):
            slot, true = turn % batch.count.shape[1], turn >= batch.count.shape[1]
            if slot_true[slot] != true:
                continue
            arity = slot_start[slot + 1] - slot_start[slot]
            stop = batch.start[w, slot] + arity * batch.count[w, slot]
            for k in range(arity):
                if slot_type[slot_start[slot] + k] != kind:
                    continue
                for i in range(batch.start[w, slot] + k, stop, arity):
                    c = batch.data[i]
                    if c < len(shared_place) and shared_place[c] >= 0:
                        batch.data[i] = shared_place[c]
                        continue
                    if true:
                        batch.data[i] = place[c] if stamp[c] == mark else -2 - c
                        continue
                    known = stream_id[c]
                    if stream and known < 0:
                        known = -2 - c
                        if learning and batch.labelled[w]:
                            known = next_id
                            stream_id[c] = known
                            fresh[next_id - first] = c
                            next_id += 1
                    if local:
                        if stamp[c] != mark:
                            stamp[c], place[c] = mark, n
                            batch.member[at], batch.stream[at] = c, known
                            at += 1
                            n += 1
                        batch.data[i] = place[c]
                    else:
                        batch.data[i] = known
        batch.domain[w, kind] = n
    return at, next_id
