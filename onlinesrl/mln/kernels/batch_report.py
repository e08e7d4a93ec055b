"""Counts over the worlds of a batch, and their predicted atoms as JSON text."""

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel, threaded
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.grounding_frames import OK, Batch, Plans
from onlinesrl.mln.kernels.prediction_counts import By, Output

PREDICTED, TRUE, LATENT = 1, 2, 4
"""The bits of an atom's mark."""
COMMA, COLON, OPEN_LIST, CLOSE_LIST = ord(","), ord(":"), ord("["), ord("]")
OPEN_MAP, CLOSE_MAP = ord("{"), ord("}")


class Counts(Frame):
    """Counts over the labelled good worlds of a batch."""

    by_query: Ints  # [query predicate, 3] hits, false alarms, misses
    by_class: Ints  # [class, 3] hits, false alarms, misses
    pairs: Ints  # [1 + class, 1 + class] units by true and by predicted class, 0: no class


@kernel
def _outcome(mark: int) -> int:
    """Return the column of a mark: hits, false alarms, misses."""
    return 0 if mark == PREDICTED | TRUE else 1 if mark == PREDICTED else 2


@threaded
def count(batch: Batch, by: By, out: Output, c: Counts) -> bool:
    """Count over a batch whose worlds list no atoms and have the same classes.

    The classes are the values of the argument of ``by``, the last one in radix order, so that the atoms of a
    unit are adjacent. Returns whether each unit has at most one class; otherwise ``pairs`` is meaningless.
    """
    classes, single = len(c.by_class), True
    for w in range(len(out.status)):
        if out.status[w] != OK or not batch.labelled[w]:
            continue
        unit, true, predicted = -1, 0, 0
        for at in range(out.true_start[w], out.true_start[w + 1]):
            q, mark = out.true_query[at], out.true_mark[at]
            if mark & LATENT:
                continue
            c.by_query[q, _outcome(mark)] += 1
            if q != by.query:
                continue
            unit_of_atom, k = out.true_key[at] // classes, out.true_key[at] % classes
            c.by_class[k, _outcome(mark)] += 1
            if unit_of_atom != unit:
                c.pairs[true, predicted] += 1
                unit, true, predicted = unit_of_atom, 0, 0
            if mark & TRUE:
                single &= true == 0
                true = 1 + k
            if mark & PREDICTED:
                single &= predicted == 0
                predicted = 1 + k
        c.pairs[true, predicted] += 1
    c.pairs[0, 0] = 0
    return single


class Spelling(Frame):
    """The JSON text of constants and predicates, and room for that of predictions."""

    start: Ints  # [packed constant + 1] into byte
    byte: Bytes
    shared: Ints32  # the packed numbers of shared constants, as in batch.shared_start
    key_start: Ints  # [query predicate + 1] into key
    key: Bytes  # the names of query predicates
    constant: Ints  # [argument] scratch: packed numbers
    text: Bytes
    text_start: Ints  # [world + 1] into text


@kernel
def _write(s: Spelling, at: int, byte: int) -> int:
    """Write a byte; returns the next position."""
    s.text[at] = byte
    return at + 1


@kernel
def _copy(s: Spelling, at: int, byte: Bytes, first: int, stop: int) -> int:
    """Write some bytes; returns the next position."""
    for k in range(first, stop):
        s.text[at + k - first] = byte[k]
    return at + stop - first


@kernel
def _constants(plans: Plans, batch: Batch, s: Spelling, w: int, q: int, key: int) -> int:
    """Write the packed constants of an atom to ``s.constant``; returns the most bytes of its text."""
    first, stop, size = plans.query_start[q], plans.query_start[q + 1], 3
    for j in range(stop - 1, first - 1, -1):
        kind = plans.query_type[j]
        n = batch.domain[w, kind]
        digit, shared = key % n, batch.shared[kind]
        key //= n
        if digit < shared:
            constant = s.shared[batch.shared_start[kind] + digit]
        else:
            constant = batch.member[batch.member_start[w, kind] + digit - shared]
        s.constant[plans.query_argument[j]] = constant
        size += s.start[constant + 1] - s.start[constant] + 1
    return size


@kernel
def _spell_atom(s: Spelling, at: int, arity: int) -> int:
    """Write the list of an atom's constants; returns the next position."""
    at = _write(s, at, OPEN_LIST)
    for j in range(arity):
        if j:
            at = _write(s, at, COMMA)
        c = s.constant[j]
        at = _copy(s, at, s.byte, s.start[c], s.start[c + 1])
    return _write(s, at, CLOSE_LIST)


@threaded
def spell(plans: Plans, batch: Batch, out: Output, s: Spelling) -> bool:
    """Write the predicted atoms of each good world as JSON; False: the text has not enough room."""
    at, spare = 0, len(s.key) + 8 * len(plans.query_group) + 8
    for w in range(len(out.status)):
        s.text_start[w] = at
        if out.status[w] != OK:
            continue
        if at + spare > len(s.text):
            return False
        at, i = _write(s, at, OPEN_MAP), out.true_start[w]
        for q in range(len(plans.query_group)):
            if q:
                at = _write(s, at, COMMA)
            at = _copy(s, at, s.key, s.key_start[q], s.key_start[q + 1])
            at = _write(s, _write(s, at, COLON), OPEN_LIST)
            first = True
            while i < out.true_start[w + 1] and out.true_query[i] == q:
                if out.true_mark[i] & PREDICTED:
                    size = _constants(plans, batch, s, w, q, out.true_key[i])
                    if at + size + spare > len(s.text):
                        return False
                    if not first:
                        at = _write(s, at, COMMA)
                    first = False
                    at = _spell_atom(s, at, plans.query_start[q + 1] - plans.query_start[q])
                i += 1
            at = _write(s, at, CLOSE_LIST)
        at = _write(s, at, CLOSE_MAP)
    s.text_start[len(out.status)] = at
    return True
