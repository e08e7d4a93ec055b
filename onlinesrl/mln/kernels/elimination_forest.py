"""Messages of factors that come and go, of maxima and of sums, by an elimination that depends on names alone.

Variables are eliminated in rounds. In a round go those whose table is smaller than that of each neighbour;
ties are decided by a hash of their names. So a chain is left after some log n rounds, and a tree is, too. The
round and the clique of a variable depend only on its surroundings. After a change, ``eliminate`` decides
again where these differ, as self-adjusting contraction does (Acar, Ihler, Mettu & Sumer, "Adaptive exact
inference in graphical models", JMLR 12, 2011). The result is that of an elimination from the start.

``solve`` sends the messages again that have changed, towards the last variable of a component, and decodes
where a choice or the value of a neighbour has changed. A sum is added up in the order of weights and
hashes, so its bits do not depend on the history. Where tables would be too large, a component is left
unsolved.

``sum_products`` does the same for probabilities, over the same cliques: messages of sums go up, and the
distribution of a variable with its clique is passed down to the cliques of its senders (Koller & Friedman,
"Probabilistic Graphical Models", 2009, algorithm 10.3). The largest entry of a message of sums is 0. What is
passed down adds up to 1, and has ``BITS`` bits, so that it does not spread rounding errors that a change
moves. So what is far from a change keeps its bits, and the work ends there.
"""

import math
from typing import Annotated

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.weight_magnitude import HIGHEST, TOLERANCE, UNIT

MOST = 14
"""The most neighbours of a variable when it is eliminated."""
MOST_CELLS = 1 << 16
"""The most cells of a table."""
MOST_LOAD = 1 << 22
"""The most cells of the tables of a component."""
ROUNDS = 1 << 10
NEVER = ROUNDS
"""The round of a variable whose table would be too large."""
BITS = 47
"""Of a probability that is passed down."""
SPLIT = 2.0 ** (53 - BITS) + 1
UNSOLVED, UNKNOWN, NONE = -1, -2, -3
"""Values of variables whose component is not solved, of new ones, and of atoms without a variable."""
LAST, STAMP, CELLS, INFEASIBLE, UNCERTIFIED, MOVED, FLIPPED, STALE, BROKEN = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
)
CONTRADICTS, UNPROVEN, OVERFLOWS = 1, 2, 4
"""What the last variable of a component knows: no state is possible, sums are rounded too much."""
POSITIVE, CLOSES = 1, 2
"""Bits of a literal: its sign, and whether it is the last one of its conjunction."""


class Forest(Frame):
    """Factors, the elimination of their variables, its messages and the best state."""

    size: Annotated[Ints, "9"]
    name: Annotated[Ints, "variable"]  # a hash of its name
    values: Annotated[Ints32, "variable"]  # how many it has
    first: Annotated[Ints32, "variable"]  # its first literal
    round: Annotated[Ints32, "variable"]  # -1: it is no more
    degree: Annotated[Ints32, "variable"]  # variables of its clique
    sender: Annotated[Ints32, "variable"]  # its first arc from another one's clique
    value: Annotated[Ints32, "variable"]
    message: Annotated[Ints, "variable"]  # first cell of its message
    block: Annotated[Ints32, "variable"]  # size class of its message's cells, -1: none
    load: Annotated[Ints, "variable"]  # cells of tables up to here
    wide: Annotated[Bytes, "variable"]  # its component is not solved
    total: Annotated[Floats, "variable"]  # sum of absolute weights up to here
    least: Annotated[Floats, "variable"]
    terms: Annotated[Ints, "variable"]
    known: Annotated[Bytes, "variable"]
    clique: Annotated[Ints32, "variable * place"]
    next_arc: Annotated[Ints32, "variable * place"]
    last_arc: Annotated[Ints32, "variable * place"]
    # while variables are eliminated again
    touched: Annotated[Bytes, "variable"]
    old_round: Annotated[Ints32, "variable"]
    old_degree: Annotated[Ints32, "variable"]
    old_clique: Annotated[Ints32, "variable * place"]
    work: Annotated[Ints32, "variable"]  # touched variables
    candidate: Annotated[Ints32, "variable"]
    chosen: Annotated[Ints32, "variable"]
    table_size: Annotated[Ints, "variable"]
    table_stamp: Annotated[Ints, "variable"]
    seen: Annotated[Ints, "variable"]
    marked: Annotated[Ints, "variable"]
    # while messages are sent
    queue: Ints32  # [round]
    queue_next: Annotated[Ints32, "variable"]
    queued: Annotated[Bytes, "variable"]
    trial: Annotated[Ints32, "variable"]
    moved: Annotated[Ints32, "variable"]  # variables whose value changed
    before: Annotated[Ints32, "variable"]
    is_stale: Annotated[Bytes, "variable"]  # its probabilities are those before a change
    stale: Annotated[Ints32, "variable"]  # a list of these
    variable: Annotated[Ints32, "literal"]
    holds: Annotated[Ints32, "literal"]  # the value of which it speaks
    bits: Annotated[Bytes, "literal"]
    factor: Annotated[Ints32, "literal"]
    next: Annotated[Ints32, "literal"]
    previous: Annotated[Ints32, "literal"]
    # clauses before facts decide some of their atoms
    fixed: Annotated[Floats, "atom"]  # its value, NaN: it is open
    place: Annotated[Ints32, "atom"]  # its variable
    holding: Annotated[Ints32, "atom"]  # the variable's value by which it is true
    mention: Annotated[Ints32, "atom"]  # its first literal
    spoken: Annotated[Ints, "atom"]
    atom: Annotated[Ints32, "literal"]
    sign: Annotated[Bytes, "literal"]  # the bits
    next_mention: Annotated[Ints32, "literal"]
    last_mention: Annotated[Ints32, "literal"]
    folded: Annotated[Ints32, "3 * literal"]
    size_of: Annotated[Ints32, "factor"]  # literals
    begin: Annotated[Ints, "factor"]  # where they begin; ``start`` once they are folded
    listed: Annotated[Ints, "factor"]
    start: Annotated[Ints, "factor"]
    length: Annotated[Ints32, "factor"]
    weight: Annotated[Floats, "factor"]  # infinite: hard
    true: Annotated[Bytes, "factor"]
    order: Annotated[Ints32, "factor + variable"]
    flipped: Annotated[Ints32, "factor"]
    cell: Annotated[Floats, "cell"]
    choice: Annotated[Ints32, "cell"]
    log_sum: Annotated[Floats, "cell"]  # of a clique's values: the message of sums
    share: Annotated[Floats, "cell"]  # of a clique's values: the probability
    probability: Annotated[Floats, "cell"]  # of a variable's own values
    free: Ints32  # [size class] first block
    unary: Annotated[Floats, "table"]
    pair: Annotated[Floats, "table"]
    table: Annotated[Floats, "table"]
    neighbour: Annotated[Ints32, "3 * place + 3"]
    stride: Annotated[Ints, "place"]
    digit: Annotated[Ints, "place"]


def forest(
    variable: int = 64, factor: int = 64, literal: int = 128, cell: int = 256, atom: int = 64
) -> Forest:
    """Return a forest without variables, with arrays for so many."""
    empty = {"queue": np.full(ROUNDS + 1, -1, np.int32), "free": np.full(64, -1, np.int32)}
    sizes = {"variable": variable, "factor": factor, "literal": literal, "cell": cell, "atom": atom}
    return Forest.zeros(empty, **sizes, place=MOST, table=MOST_CELLS)


# lists -------------------------------------------------------------------------------------------


@kernel
def _insert(first: Ints32, after: Ints32, before: Ints32, i: int, p: int) -> None:
    """Put ``p`` at the beginning of list ``i``; entries know the ones ``after`` and ``before`` them."""
    before[p], after[p] = -1, first[i]
    if first[i] >= 0:
        before[first[i]] = p
    first[i] = p


@kernel
def _remove(first: Ints32, after: Ints32, before: Ints32, i: int, p: int) -> None:
    """Take ``p`` off list ``i``."""
    if after[p] >= 0:
        before[after[p]] = before[p]
    if before[p] >= 0:
        after[before[p]] = after[p]
    else:
        first[i] = after[p]


# clauses -----------------------------------------------------------------------------------------


@kernel
def mention(fr: Forest, factors: Ints32) -> None:
    """List the literals of clauses at their atoms."""
    for i in range(len(factors)):
        f = factors[i]
        for p in range(fr.begin[f], fr.begin[f] + fr.size_of[f]):
            fr.factor[p] = f
            _insert(fr.mention, fr.next_mention, fr.last_mention, fr.atom[p], p)


@kernel
def withdraw(fr: Forest, factors: Ints32) -> None:
    """Take the literals of clauses off the lists of their atoms."""
    for i in range(len(factors)):
        f = factors[i]
        for p in range(fr.begin[f], fr.begin[f] + fr.size_of[f]):
            _remove(fr.mention, fr.next_mention, fr.last_mention, fr.atom[p], p)


@kernel
def clauses_of(fr: Forest, atoms: Ints32) -> None:
    """Write the clauses of atoms to ``flipped``, each once."""
    fr.size[STAMP] += 1
    fr.size[FLIPPED] = 0
    for i in range(len(atoms)):
        p = fr.mention[atoms[i]]
        while p >= 0:
            f = fr.factor[p]
            if fr.listed[f] != fr.size[STAMP]:
                fr.listed[f] = fr.size[STAMP]
                fr.flipped[fr.size[FLIPPED]] = f
                fr.size[FLIPPED] += 1
            p = fr.next_mention[p]


@kernel
def fold(fr: Forest, factors: Ints32) -> int:
    """Leave the atoms that facts decide out of clauses; return the number of variables touched, in ``work``.

    ``flipped`` lists the clauses that differ from before, ``order`` the hard ones that facts break.
    """
    fr.size[STAMP] += 1
    stamp, count = fr.size[STAMP], 0
    fr.size[FLIPPED] = fr.size[BROKEN] = 0
    for i in range(len(factors)):
        f = factors[i]
        length = 0
        if fr.weight[f] != 0:
            length = _left(fr, f)
            if length == 0 and fr.weight[f] == np.inf:
                fr.order[fr.size[BROKEN]] = f
                fr.size[BROKEN] += 1
        length = max(length, 0)
        same = length == fr.length[f]
        for n in range(length):
            if not same:
                break
            p = fr.start[f] + n
            same = (
                fr.variable[p] == fr.folded[3 * n]
                and fr.holds[p] == fr.folded[3 * n + 1]
                and fr.bits[p] == fr.folded[3 * n + 2]
            )
        if same and fr.start[f] == fr.begin[f]:
            continue
        if not same:
            fr.flipped[fr.size[FLIPPED]] = f
            fr.size[FLIPPED] += 1
            for p in range(fr.start[f], fr.start[f] + fr.length[f]):
                count = _reach(fr, fr.variable[p], stamp, count)
        _unlink(fr, f)
        fr.start[f], fr.length[f] = fr.begin[f], length
        for n in range(length):
            p = fr.start[f] + n
            fr.variable[p], fr.holds[p] = fr.folded[3 * n], fr.folded[3 * n + 1]
            fr.bits[p] = fr.folded[3 * n + 2]
            if not same:
                count = _reach(fr, fr.variable[p], stamp, count)
        _link(fr, f)
    return count


@kernel
def _left(fr: Forest, f: int) -> int:
    """Write what is left of a clause to ``folded``; returns the number of literals, -1 if it is true."""
    fr.size[STAMP] += 1
    length, last, first, possible = 0, 0, 0, True  # the first place of the present conjunction
    for p in range(fr.begin[f], fr.begin[f] + fr.size_of[f]):
        a, bits = fr.atom[p], fr.sign[p]
        if fr.place[a] >= 0:
            fr.folded[3 * length], fr.folded[3 * length + 1] = fr.place[a], fr.holding[a]
            fr.folded[3 * length + 2] = bits & POSITIVE
            length += 1
            last = a
        elif (fr.fixed[a] == 1) != ((bits & POSITIVE) != 0):
            possible = False
        if not bits & CLOSES:
            continue
        if not possible:
            length = first
        elif length == first:
            return -1
        else:
            fr.folded[3 * length - 1] |= CLOSES
            if length == first + 1:  # a literal alone, whose opposite makes the clause true
                spoken = 2 * fr.size[STAMP] + (fr.folded[3 * length - 1] & POSITIVE)
                if fr.spoken[last] == spoken ^ POSITIVE:
                    return -1
                fr.spoken[last] = spoken
        first, possible = length, True
    return length


@kernel
def link(fr: Forest, factors: Ints32) -> None:
    """List the literals of factors at their variables."""
    for i in range(len(factors)):
        _link(fr, factors[i])


@kernel
def _link(fr: Forest, f: int) -> None:
    for p in range(fr.start[f], fr.start[f] + fr.length[f]):
        fr.factor[p] = f
        _insert(fr.first, fr.next, fr.previous, fr.variable[p], p)


@kernel
def _unlink(fr: Forest, f: int) -> None:
    """Take the literals of a factor off the lists of their variables."""
    for p in range(fr.start[f], fr.start[f] + fr.length[f]):
        _remove(fr.first, fr.next, fr.previous, fr.variable[p], p)


@kernel
def variables_of(fr: Forest, factors: Ints32) -> int:
    """Write the variables of factors to ``work``, each once; returns their number."""
    fr.size[STAMP] += 1
    count = 0
    for i in range(len(factors)):
        f = factors[i]
        for p in range(fr.start[f], fr.start[f] + fr.length[f]):
            count = _reach(fr, fr.variable[p], fr.size[STAMP], count)
    return count


# components --------------------------------------------------------------------------------------


@kernel
def component(fr: Forest, v: int) -> int:
    """Write the variables of a component to ``work``, and its factors to ``flipped``.

    Returns how many variables they are; ``size[FLIPPED]`` is the number of factors. The cost is that of the
    component's literals: a factor is read at its first literal, to which its other literals lead.
    """
    fr.size[STAMP] += 1
    fr.size[FLIPPED] = 0
    stamp = fr.size[STAMP]
    count, i = _reach(fr, v, stamp, 0), 0
    while i < count:
        p = fr.first[fr.work[i]]
        while p >= 0:
            f = fr.factor[p]
            count = _reach(fr, fr.variable[fr.start[f]], stamp, count)
            if p == fr.start[f]:
                fr.flipped[fr.size[FLIPPED]] = f
                fr.size[FLIPPED] += 1
                for other in range(p + 1, p + fr.length[f]):
                    count = _reach(fr, fr.variable[other], stamp, count)
            p = fr.next[p]
        i += 1
    return count


@kernel
def _reach(fr: Forest, v: int, stamp: int, count: int) -> int:
    """Write a variable to ``work`` that the stamp has not yet; returns how many it has."""
    if fr.seen[v] == stamp:
        return count
    fr.seen[v] = stamp
    fr.work[count] = v
    return count + 1


# elimination -------------------------------------------------------------------------------------


@kernel
def _touch(fr: Forest, v: int, count: int) -> int:
    """Make a variable's elimination undecided; returns the number of those that are touched."""
    if fr.touched[v]:
        return count
    fr.touched[v] = 1
    fr.work[count] = v
    fr.old_round[v], fr.old_degree[v] = fr.round[v], fr.degree[v]
    for arc in range(v * MOST, v * MOST + fr.degree[v]):
        u = fr.clique[arc]
        fr.old_clique[arc] = u
        _remove(fr.sender, fr.next_arc, fr.last_arc, u, arc)
    fr.round[v], fr.degree[v] = NEVER, 0
    return count + 1


@kernel
def _gather(fr: Forest, v: int, number: int) -> int:
    """Write the neighbours of a variable in a round to ``neighbour``; returns the cells of its table.

    The cells are more than ``MOST_CELLS`` where there are too many; then the neighbours are incomplete.
    """
    fr.size[STAMP] += 1
    fr.seen[v] = fr.size[STAMP]
    fr.neighbour[MOST] = 0
    cells = 1
    cells *= fr.values[v]
    p = fr.first[v]
    while p >= 0:
        f = fr.factor[p]
        for q in range(fr.start[f], fr.start[f] + fr.length[f]):
            cells = _meet(fr, fr.variable[q], number, cells)
            if cells > MOST_CELLS:
                return cells
        p = fr.next[p]
    arc = fr.sender[v]
    while arc >= 0:
        w = arc // MOST
        if fr.round[w] < number:
            for other in range(w * MOST, w * MOST + fr.degree[w]):
                cells = _meet(fr, fr.clique[other], number, cells)
                if cells > MOST_CELLS:
                    return cells
        arc = fr.next_arc[arc]
    return cells


@kernel
def _meet(fr: Forest, u: int, number: int, cells: int) -> int:
    """Add to ``neighbour`` a variable that is new and left in a round; returns the cells with it."""
    if fr.seen[u] == fr.size[STAMP]:
        return cells
    fr.seen[u] = fr.size[STAMP]
    if fr.round[u] < number:
        return cells
    count = fr.neighbour[MOST]
    if count == MOST:
        return MOST_CELLS + 1
    fr.neighbour[count] = u
    fr.neighbour[MOST] = count + 1
    return cells * fr.values[u]


@kernel
def _table_size(fr: Forest, v: int, number: int, stamp: int) -> int:
    """Return the cells of a variable's table in a round; ``stamp`` is that of the round."""
    if fr.table_stamp[v] != stamp:
        fr.table_stamp[v] = stamp
        fr.table_size[v] = _gather(fr, v, number)
    return fr.table_size[v]


@kernel
def _goes(fr: Forest, v: int, number: int, stamp: int) -> bool:
    """Tell whether a variable is eliminated in a round."""
    cells = _gather(fr, v, number)
    fr.table_stamp[v], fr.table_size[v] = stamp, cells
    if cells > MOST_CELLS:
        return False
    count = fr.neighbour[MOST]
    for i in range(count):
        fr.neighbour[MOST + 1 + i] = fr.neighbour[i]
    for i in range(count):
        u = fr.neighbour[MOST + 1 + i]
        others = _table_size(fr, u, number, stamp)
        if others < cells or (others == cells and fr.name[u] < fr.name[v]):
            return False
    return True


@kernel
def _mark(fr: Forest, v: int, stamp: int, count: int) -> int:
    if fr.marked[v] != stamp:
        fr.marked[v] = stamp
        fr.candidate[count] = v
        count += 1
    return count


@kernel
def _candidates(fr: Forest, v: int, number: int, stamp: int, count: int) -> int:
    """Mark a variable and its neighbours in a round; returns the number of those that are marked."""
    count = _mark(fr, v, stamp, count)
    p = fr.first[v]
    while p >= 0:
        f = fr.factor[p]
        for q in range(fr.start[f], fr.start[f] + fr.length[f]):
            if fr.round[fr.variable[q]] >= number:
                count = _mark(fr, fr.variable[q], stamp, count)
        p = fr.next[p]
    arc = fr.sender[v]
    while arc >= 0:
        w = arc // MOST
        if fr.round[w] < number:
            for other in range(w * MOST, w * MOST + fr.degree[w]):
                if fr.round[fr.clique[other]] >= number:
                    count = _mark(fr, fr.clique[other], stamp, count)
        arc = fr.next_arc[arc]
    return count


@kernel
def _by_name(fr: Forest, count: int) -> None:
    """Sort neighbours by their names."""
    for i in range(1, count):
        u, j = fr.neighbour[i], i
        while j > 0 and fr.name[fr.neighbour[j - 1]] > fr.name[u]:
            fr.neighbour[j] = fr.neighbour[j - 1]
            j -= 1
        fr.neighbour[j] = u


@kernel
def _same_clique(fr: Forest, v: int) -> bool:
    """Tell whether a variable has the old clique."""
    if fr.degree[v] != fr.old_degree[v]:
        return False
    for arc in range(v * MOST, v * MOST + fr.degree[v]):
        if fr.clique[arc] != fr.old_clique[arc]:
            return False
    return True


@kernel
def eliminate(fr: Forest, changed: Ints32, gone: Ints32) -> int:
    """Eliminate variables again where something differs; see ``_settle`` for what is returned.

    ``changed`` are variables of factors that came or went, ``gone`` such that are no more.
    """
    count = 0
    for i in range(len(changed)):
        count = _touch(fr, changed[i], count)
    for i in range(len(gone)):
        count = _touch(fr, gone[i], count)
        fr.round[gone[i]] = -1
    for number in range(ROUNDS):
        fr.size[STAMP] += 1
        stamp = fr.size[STAMP]
        marked, waiting, later = 0, False, number <= fr.size[LAST]
        for i in range(count):
            v = fr.work[i]
            waiting |= number <= fr.old_round[v] < NEVER
            if fr.round[v] == NEVER:
                waiting = True
                marked = _candidates(fr, v, number, stamp, marked)
        if not waiting:
            break
        chosen = 0
        for i in range(marked):
            v = fr.candidate[i]
            goes = _goes(fr, v, number, stamp)
            if goes and (fr.touched[v] or fr.round[v] != number):
                fr.chosen[chosen] = v
                chosen += 1
                fr.size[LAST] = max(fr.size[LAST], number)
            elif not goes and not fr.touched[v] and fr.round[v] == number:
                fr.marked[v] = -1  # it stays longer than before
            later |= goes
        for i in range(marked):
            if fr.marked[fr.candidate[i]] == -1:
                count = _touch(fr, fr.candidate[i], count)
        for c in range(chosen):
            v = fr.chosen[c]
            count = _touch(fr, v, count)
            _gather(fr, v, number)
            fr.round[v], fr.degree[v] = number, fr.neighbour[MOST]
            _by_name(fr, fr.degree[v])
            for k in range(fr.degree[v]):
                u, arc = fr.neighbour[k], v * MOST + k
                fr.clique[arc] = u
                _insert(fr.sender, fr.next_arc, fr.last_arc, u, arc)
        for i in range(count):
            v = fr.work[i]
            goes, went = fr.round[v] == number, fr.old_round[v] == number
            if (goes or went) and not (goes and went and _same_clique(fr, v)):
                if goes:
                    for arc in range(v * MOST, v * MOST + fr.degree[v]):
                        count = _touch(fr, fr.clique[arc], count)
                if went:
                    for arc in range(v * MOST, v * MOST + fr.old_degree[v]):
                        count = _touch(fr, fr.old_clique[arc], count)
        if not later:
            break
    return _settle(fr, count)


@kernel
def _settle(fr: Forest, count: int) -> int:
    """Decide which components are too wide; returns the number of variables to decode, in ``candidate``.

    They are those that are touched, and those whose component has become wide, or narrow.
    """
    for i in range(count):
        v = fr.work[i]
        forget(fr, v)
        fr.load[v] = -1
        if fr.round[v] < 0:
            fr.touched[v] = 0
        _push(fr, v)
    sent = 0
    for number in range(NEVER + 1):
        v = _pop(fr, number)
        while v >= 0:
            load = fr.values[v] * _cells(fr, v)
            arc = fr.sender[v]
            while arc >= 0:
                if parent(fr, arc // MOST) == v:
                    load += fr.load[arc // MOST]
                arc = fr.next_arc[arc]
            if load != fr.load[v]:
                above = parent(fr, v)
                if above >= 0:
                    _push(fr, above)
            fr.load[v] = load
            fr.work[sent] = v
            sent += 1
            v = _pop(fr, number)
    for i in range(sent):
        _push(fr, fr.work[i])
    listed = 0
    for number in range(NEVER, -1, -1):
        v = _pop(fr, number)
        while v >= 0:
            above = parent(fr, v)
            wide = number == NEVER or (fr.wide[above] if above >= 0 else fr.load[v] > MOST_LOAD)
            if fr.touched[v] or wide != fr.wide[v]:
                fr.candidate[listed] = v
                listed += 1
            if wide != fr.wide[v]:
                fr.wide[v] = wide
                forget(fr, v)
                arc = fr.sender[v]
                while arc >= 0:
                    _push(fr, arc // MOST)
                    arc = fr.next_arc[arc]
            fr.touched[v] = 0
            v = _pop(fr, number)
    return listed


# messages ----------------------------------------------------------------------------------------


@kernel
def _push(fr: Forest, v: int) -> None:
    if fr.queued[v] or fr.round[v] < 0:
        return
    fr.queued[v] = 1
    fr.queue_next[v] = fr.queue[fr.round[v]]
    fr.queue[fr.round[v]] = v


@kernel
def _pop(fr: Forest, number: int) -> int:
    v = fr.queue[number]
    if v >= 0:
        fr.queue[number] = fr.queue_next[v]
        fr.queued[v] = 0
    return v


@kernel
def parent(fr: Forest, v: int) -> int:
    """Return the first of a variable's clique that is eliminated; -1: there is none."""
    best = -1
    for arc in range(v * MOST, v * MOST + fr.degree[v]):
        u = fr.clique[arc]
        if best < 0 or fr.round[u] < fr.round[best]:
            best = u
    return best


@kernel
def forget(fr: Forest, v: int) -> None:
    """Give back the cells of a variable's message, and what it knows."""
    if fr.block[v] >= 0:
        fr.choice[fr.message[v]] = fr.free[fr.block[v]]
        fr.free[fr.block[v]] = fr.message[v]
        fr.block[v] = -1
    _doubt(fr, v)


@kernel
def _doubt(fr: Forest, v: int) -> None:
    """Take back what a variable knows."""
    if fr.known[v] & CONTRADICTS:
        fr.size[INFEASIBLE] -= 1
    if fr.known[v] & UNPROVEN:
        fr.size[UNCERTIFIED] -= 1
    fr.known[v] = 0


@kernel
def _cells(fr: Forest, v: int) -> int:
    cells = 1
    for arc in range(v * MOST, v * MOST + fr.degree[v]):
        cells *= fr.values[fr.clique[arc]]
    return cells


@kernel
def room(fr: Forest, count: int) -> int:
    """Return an upper bound of the cells that messages of ``count`` variables of ``candidate`` need."""
    cells = 0
    for i in range(count):
        v = fr.candidate[i]
        if not fr.wide[v]:
            cells += 2 * max(_cells(fr, v), fr.values[v])
    return cells


@kernel
def _allocate(fr: Forest, v: int) -> None:
    block, cells = 0, max(_cells(fr, v), fr.values[v])
    while 1 << block < cells:
        block += 1
    if fr.free[block] >= 0:
        fr.message[v] = fr.free[block]
        fr.free[block] = fr.choice[fr.message[v]]
    else:
        fr.message[v] = fr.size[CELLS]
        fr.size[CELLS] += 1 << block
    fr.block[v] = block


@kernel
def _sort(items: Ints32, first: int, stop: int, floats: Floats, ints: Ints, by_ints: bool) -> None:
    """Sort items by a key of theirs: Shell's sort."""
    gap = 1
    while gap < (stop - first) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, stop):
            item, j = items[i], i
            while j >= first + gap:
                other = items[j - gap]
                if by_ints:
                    if ints[other // MOST] <= ints[item // MOST]:
                        break
                elif floats[other] <= floats[item]:
                    break
                items[j] = other
                j -= gap
            items[j] = item
        gap //= 3


@kernel
def _owned(fr: Forest, p: int) -> int:
    """Return 0 unless a factor is decided at the variable of its literal ``p``, 1 where it has no other."""
    f, v, count = fr.factor[p], fr.variable[p], 1
    for q in range(fr.start[f], fr.start[f] + fr.length[f]):
        u = fr.variable[q]
        if u == v:
            if q < p:
                return 0
        else:
            count = 2
            if fr.round[u] < fr.round[v]:
                return 0
    return count


@kernel
def _other(fr: Forest, f: int, v: int) -> int:
    """Return the last variable of a factor but ``v``."""
    other = -1
    for p in range(fr.start[f], fr.start[f] + fr.length[f]):
        if fr.variable[p] != v:
            other = fr.variable[p]
    return other


@kernel
def _true(fr: Forest, f: int, value: Ints32) -> bool:
    """Tell whether a factor, a disjunction of conjunctions, is true."""
    together = True
    for p in range(fr.start[f], fr.start[f] + fr.length[f]):
        bits = fr.bits[p]
        together &= (value[fr.variable[p]] == fr.holds[p]) == ((bits & POSITIVE) != 0)
        if bits & CLOSES:
            if together:
                return True
            together = True
    return False


@kernel
def _message_cell(fr: Forest, v: int, value: Ints32) -> int:
    cell = 0
    for arc in range(v * MOST, v * MOST + fr.degree[v]):
        u = fr.clique[arc]
        cell = cell * fr.values[u] + value[u]
    return fr.message[v] + cell


@kernel
def _strides(fr: Forest, v: int, u: int) -> int:
    """Write to ``stride`` how far the axes of v's clique are apart in the message of u; returns that of v."""
    begin, degree = v * MOST, fr.degree[v]
    for k in range(degree):
        fr.stride[k] = 0
    step, stride = 0, 1
    for other in range(u * MOST + fr.degree[u] - 1, u * MOST - 1, -1):
        w = fr.clique[other]
        if w == v:
            step = stride
        for k in range(degree):
            if fr.clique[begin + k] == w:
                fr.stride[k] = stride
        stride *= fr.values[w]
    return step


@kernel
def _spread(
    fr: Forest, v: int, cells: int, other: Floats, first: int, step: int, back: bool
) -> None:
    """Add another table to that of a variable and its clique, or ``back``: to the other one.

    Its axes are as ``stride`` says, that of the variable as ``step``.
    """
    begin, degree, size = v * MOST, fr.degree[v], fr.values[v]
    for k in range(degree):
        fr.digit[k] = 0
    at = first
    for cell in range(cells):
        for x in range(size):
            if back:
                other[at + x * step] += fr.table[cell * size + x]
            else:
                fr.table[cell * size + x] += other[at + x * step]
        for k in range(degree - 1, -1, -1):
            fr.digit[k] += 1
            at += fr.stride[k]
            if fr.digit[k] < fr.values[fr.clique[begin + k]]:
                break
            at -= fr.stride[k] * fr.values[fr.clique[begin + k]]
            fr.digit[k] = 0


@kernel
def _add_pairs(fr: Forest, v: int, cells: int, first: int, stop: int) -> int:
    """Add factors of ``order`` over two variables to a variable's table; returns the end of the others."""
    begin, degree, size = v * MOST, fr.degree[v], fr.values[v]
    for k in range(degree):
        u, empty = fr.clique[begin + k], True
        for i in range(first, stop):
            f = fr.order[i]
            if fr.length[f] > 2 or _other(fr, f, v) != u:
                continue
            if empty:
                for cell in range(size * fr.values[u]):
                    fr.pair[cell] = 0.0
                empty = False
            cell = 0
            for y in range(fr.values[u]):
                fr.trial[u] = y
                for x in range(size):
                    fr.trial[v] = x
                    if not _true(fr, f, fr.trial):
                        fr.pair[cell] -= fr.weight[f]
                    cell += 1
        if not empty:
            for other in range(degree):
                fr.stride[other] = 0
            fr.stride[k] = size
            _spread(fr, v, cells, fr.pair, 0, 1, False)
    long = first
    for i in range(first, stop):
        if fr.length[fr.order[i]] > 2:
            fr.order[long] = fr.order[i]
            long += 1
    return long


@kernel
def _count(fr: Forest, v: int, first: int, stop: int) -> None:
    """Add the sizes of factors to what is summed up at a variable."""
    for i in range(first, stop):
        size = abs(fr.weight[fr.order[i]])
        if size < np.inf:
            fr.total[v] += size
            fr.least[v] = min(fr.least[v], size)


@kernel
def _tabulate(fr: Forest, v: int, cells: int, messages: Floats) -> None:
    """Write the table of a variable and its clique, and add up what is known of its weights."""
    unary, stop, p = 0, len(fr.order), fr.first[v]
    pairs = stop
    while p >= 0:
        decided = _owned(fr, p)
        if decided == 1:
            fr.order[unary] = fr.factor[p]
            unary += 1
        elif decided > 1:
            pairs -= 1
            fr.order[pairs] = fr.factor[p]
        p = fr.next[p]
    _sort(fr.order, 0, unary, fr.weight, fr.name, False)
    _sort(fr.order, pairs, stop, fr.weight, fr.name, False)
    fr.total[v], fr.least[v], fr.terms[v] = 0.0, np.inf, unary + stop - pairs
    _count(fr, v, 0, unary)
    _count(fr, v, pairs, stop)
    for x in range(fr.values[v]):
        fr.unary[x] = 0.0
    for i in range(unary):
        f = fr.order[i]
        for x in range(fr.values[v]):
            fr.trial[v] = x
            if not _true(fr, f, fr.trial):
                fr.unary[x] -= fr.weight[f]
    arcs, arc = 0, fr.sender[v]
    while arc >= 0:
        if parent(fr, arc // MOST) == v:
            fr.order[arcs] = arc
            arcs += 1
        arc = fr.next_arc[arc]
    _sort(fr.order, 0, arcs, fr.weight, fr.name, True)
    senders = 0
    for i in range(arcs):
        u = fr.order[i] // MOST
        fr.total[v] += fr.total[u]
        fr.least[v] = min(fr.least[v], fr.least[u])
        fr.terms[v] += fr.terms[u]
        if fr.degree[u] == 1:
            for x in range(fr.values[v]):
                fr.unary[x] += messages[fr.message[u] + x]
        else:
            fr.order[senders] = u
            senders += 1
    size = fr.values[v]
    for cell in range(cells):
        for x in range(size):
            fr.table[cell * size + x] = fr.unary[x]
    stop = _add_pairs(fr, v, cells, pairs, stop)
    for i in range(senders):
        u = fr.order[i]
        _spread(fr, v, cells, messages, fr.message[u], _strides(fr, v, u), False)
    if pairs < stop:
        _add_long(fr, v, cells, pairs, stop)


@kernel
def _message(fr: Forest, v: int) -> bool:
    """Compute a variable's message; tells whether it, or what is summed up, is another."""
    cells, size = _cells(fr, v), fr.values[v]
    total, least, terms = fr.total[v], fr.least[v], fr.terms[v]
    _tabulate(fr, v, cells, fr.cell)
    differs = fr.total[v] != total or fr.least[v] != least or fr.terms[v] != terms
    for cell in range(cells):
        best, choice = -np.inf, 0
        for x in range(size):
            if fr.table[cell * size + x] > best:
                best, choice = fr.table[cell * size + x], x
        at = fr.message[v] + cell
        differs |= fr.cell[at] != best
        fr.cell[at], fr.choice[at] = best, choice
    return differs


@kernel
def _add_long(fr: Forest, v: int, cells: int, first: int, stop: int) -> None:
    """Add factors of ``order``, of any length, to a variable's table."""
    begin, end = v * MOST, v * MOST + fr.degree[v]
    for arc in range(begin, end):
        fr.trial[fr.clique[arc]] = 0
    for cell in range(cells):
        for x in range(fr.values[v]):
            fr.trial[v] = x
            for i in range(first, stop):
                if not _true(fr, fr.order[i], fr.trial):
                    fr.table[cell * fr.values[v] + x] -= fr.weight[fr.order[i]]
        for arc in range(end - 1, begin - 1, -1):  # the next cell
            u = fr.clique[arc]
            fr.trial[u] += 1
            if fr.trial[u] < fr.values[u]:
                break
            fr.trial[u] = 0


@kernel
def _conclude(fr: Forest, v: int) -> None:
    """Know, at the last variable of a component, whether the answer is possible and certain."""
    _doubt(fr, v)
    rounding = (fr.terms[v] + 1) * UNIT * fr.total[v]
    if not fr.total[v] <= HIGHEST:
        fr.known[v] = OVERFLOWS
    elif fr.cell[fr.message[v]] == -np.inf:
        fr.known[v] = CONTRADICTS
        fr.size[INFEASIBLE] += 1
    elif rounding > max(fr.least[v] / 2, min(1e-6 * fr.total[v], TOLERANCE)):
        fr.known[v] = UNPROVEN
        fr.size[UNCERTIFIED] += 1


@kernel
def _decode(fr: Forest, v: int) -> int:
    above = parent(fr, v)
    if fr.wide[v] or fr.known[v] & OVERFLOWS:
        return UNSOLVED
    if above >= 0 and fr.value[above] == UNSOLVED:
        return UNSOLVED
    return fr.choice[_message_cell(fr, v, fr.value)]


@kernel
def solve(fr: Forest, count: int, changed: Ints32) -> None:
    """Send messages and decode, after ``eliminate`` has listed ``count`` variables.

    ``changed`` are variables with factors of other weights. ``moved`` lists the variables whose value is
    another, ``flipped`` the factors whose truth is.
    """
    for i in range(count):
        v = fr.candidate[i]
        fr.total[v] = np.nan  # its message is new
        if not fr.wide[v]:
            _allocate(fr, v)
        _push(fr, v)
    for i in range(len(changed)):
        _push(fr, changed[i])
    sent = 0
    for number in range(NEVER + 1):
        v = _pop(fr, number)
        while v >= 0:
            fr.work[sent] = v
            sent += 1
            if not fr.is_stale[v]:
                fr.is_stale[v] = 1
                fr.stale[fr.size[STALE]] = v
                fr.size[STALE] += 1
            if not fr.wide[v] and _message(fr, v):
                above = parent(fr, v)
                if above >= 0:
                    _push(fr, above)
                else:
                    _conclude(fr, v)
            v = _pop(fr, number)
    for i in range(sent):
        _push(fr, fr.work[i])
    fr.size[MOVED] = fr.size[FLIPPED] = 0
    for number in range(NEVER, -1, -1):
        v = _pop(fr, number)
        while v >= 0:
            value = _decode(fr, v)
            if value != fr.value[v]:
                fr.moved[fr.size[MOVED]], fr.before[fr.size[MOVED]] = v, fr.value[v]
                fr.size[MOVED] += 1
                fr.value[v] = value
                arc = fr.sender[v]
                while arc >= 0:
                    _push(fr, arc // MOST)
                    arc = fr.next_arc[arc]
            v = _pop(fr, number)


@kernel
def judge(fr: Forest, factors: Ints32) -> None:
    """List the factors whose truth is another, among these and those of the variables that moved."""
    fr.size[FLIPPED] = 0
    for i in range(len(factors)):
        _judge(fr, factors[i])
    for i in range(fr.size[MOVED]):
        p = fr.first[fr.moved[i]]
        while p >= 0:
            _judge(fr, fr.factor[p])
            p = fr.next[p]


@kernel
def _judge(fr: Forest, f: int) -> None:
    if fr.weight[f] == np.inf:
        return
    true = fr.length[f] > 0 and fr.value[fr.variable[fr.start[f]]] >= 0 and _true(fr, f, fr.value)
    if true != (fr.true[f] == 1):
        fr.true[f] = true
        fr.flipped[fr.size[FLIPPED]] = f
        fr.size[FLIPPED] += 1


# probabilities -----------------------------------------------------------------------------------


@kernel
def sum_products(fr: Forest) -> None:
    """Compute probabilities again where ``solve`` has sent messages; ``moved`` lists their variables."""
    for i in range(fr.size[STALE]):
        fr.is_stale[fr.stale[i]] = 0
        _push(fr, fr.stale[i])
    fr.size[STALE] = 0
    sent = 0
    for number in range(NEVER + 1):
        v = _pop(fr, number)
        while v >= 0:
            if not fr.wide[v]:
                fr.work[sent] = v
                sent += 1
                if _log_sums(fr, v) and fr.degree[v] > 0:
                    _push(fr, parent(fr, v))
            v = _pop(fr, number)
    for i in range(sent):
        _push(fr, fr.work[i])
    fr.size[MOVED] = 0
    for number in range(NEVER, -1, -1):
        v = _pop(fr, number)
        while v >= 0:
            fr.moved[fr.size[MOVED]] = v
            fr.size[MOVED] += 1
            _distribute(fr, v)
            v = _pop(fr, number)


@kernel
def _normalise(fr: Forest, first: int, size: int) -> float:
    """Turn scores of the table to probabilities; returns the logarithm of the sum of their exponentials."""
    top, total = -np.inf, 0.0
    for i in range(first, first + size):
        top = max(top, fr.table[i])
    if top == -np.inf:
        for i in range(first, first + size):
            fr.table[i] = 0.0
        return top
    for i in range(first, first + size):
        fr.table[i] = math.exp(fr.table[i] - top)
        total += fr.table[i]
    for i in range(first, first + size):
        fr.table[i] /= total
    return top + math.log(total)


@kernel
def _log_sums(fr: Forest, v: int) -> bool:
    """Compute a variable's message of sums; tells whether it is another."""
    cells, highest, differs = _cells(fr, v), -np.inf, False
    _tabulate(fr, v, cells, fr.log_sum)
    for cell in range(cells):
        fr.pair[cell] = _normalise(fr, cell * fr.values[v], fr.values[v])
        highest = max(highest, fr.pair[cell])
    for cell in range(cells):
        at, log_sum = fr.message[v] + cell, fr.pair[cell] - highest
        differs |= fr.log_sum[at] != log_sum
        fr.log_sum[at] = log_sum
    return differs


@kernel
def _distribute(fr: Forest, v: int) -> None:
    """Compute a variable's probabilities, and pass its table's on to the cliques of its senders."""
    cells, size, first = _cells(fr, v), fr.values[v], fr.message[v]
    _tabulate(fr, v, cells, fr.log_sum)
    if fr.degree[v] == 0:
        fr.share[first] = 1.0
    for x in range(size):
        fr.probability[first + x] = 0.0
    for cell in range(cells):
        _normalise(fr, cell * size, size)
        for x in range(size):
            fr.table[cell * size + x] *= fr.share[first + cell]
            fr.probability[first + x] += fr.table[cell * size + x]
    for x in range(size):
        fr.probability[first + x] = min(fr.probability[first + x], 1.0)
    arc = fr.sender[v]
    while arc >= 0:
        u = arc // MOST
        if parent(fr, u) == v:
            _pass(fr, v, cells, u)
        arc = fr.next_arc[arc]


@kernel
def _rounded(number: float) -> float:
    """Return a number rounded to ``BITS`` bits (Dekker, Numerische Mathematik 18, 1971, section 4)."""
    large = number * SPLIT
    return large - (large - number)


@kernel
def _pass(fr: Forest, v: int, cells: int, u: int) -> None:
    """Add up the table of v to the probabilities of the clique of u."""
    alone, total, differs = fr.degree[u] == 1, 0.0, False
    for cell in range(_cells(fr, u)):
        fr.pair[cell] = fr.probability[fr.message[v] + cell] if alone else 0.0
    if not alone:
        _spread(fr, v, cells, fr.pair, 0, _strides(fr, v, u), True)
    for cell in range(_cells(fr, u)):
        total += fr.pair[cell]
    for cell in range(_cells(fr, u)):
        at, share = fr.message[u] + cell, _rounded(fr.pair[cell] / total)
        differs |= fr.share[at] != share
        fr.share[at] = share
    if differs:
        _push(fr, u)
