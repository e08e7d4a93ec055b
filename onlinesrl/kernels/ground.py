"""Grounding of one world: open atoms, indexes, and the join plans run by backtracking.

All constants are integers. Types that are joined on, enumerated or queried are numbered anew in every
world (dense, in order of first appearance, those that all worlds share first), so relations are indexed
by counting and atoms are numbered by mixed radix. Work is proportional to the tuples read and the rows
written.
"""

import numpy as np

from onlinesrl.kernels.background import (
    Facts,
    Own,
    match_fact,
    number_beside,
    shared_beside,
    without_facts,
)
from onlinesrl.kernels.frames import Frame
from onlinesrl.kernels.jit import kernel
from onlinesrl.kernels.network import (
    ATOMS,
    DEFINED,
    FALSE,
    GROUNDINGS,
    LITERALS,
    OPEN,
    ROWS,
    SETTLED,
    TRUE,
    VARIABLES,
    Bytes,
    Ints,
    Ints32,
    Network,
    sort,
)

# What a world can come back with.
OK = 0
GROW_ATOMS, GROW_ROWS, GROW_INDEX = 1, 2, 3
GROW_DATA = 7
TOO_MANY_ATOMS, TOO_MANY_GROUNDINGS, EVIDENCE_BREAKS_RULE = 11, 12, 13
SATISFIED = 19

SCAN, ABSENT, DOMAIN, EQUAL, UNEQUAL = 0, 1, 2, 3, 4
LESS, AT_MOST, SAME, OTHER, COMPUTE = 5, 6, 7, 8, 9  # on whole numbers
PLUS, MINUS, TIMES, OVER, MODULO = 0, 1, 2, 3, 4
NO_NUMBER = -(1 << 62)
SPARSE = 64  # the cells of an index on few tuples, where a type has many more constants
NO_GROUP, AT_MOST_ONE, EXACTLY_ONE = 0, 1, 2
ALL, LISTED, FOUND = 0, 1, 2
"""Which atoms of a world are open: all; those that it lists; those that hard rules leave."""
LITERALS_EACH = 8
"""So many literals, and bindings of existentials, count as one more ground clause against the limit."""


class Plans(Frame):
    """The compiled rules. A term is coded as its variable's slot, or -1 - constant."""

    # query predicates; arguments in radix order: the grouped ones last
    query_start: Ints32  # [query + 1] into query_type
    query_type: Ints32
    query_argument: Ints32  # position of the argument in the predicate
    query_group: Ints32  # [query] NO_GROUP, AT_MOST_ONE, EXACTLY_ONE
    query_grouped: Ints32  # [query] number of grouped arguments
    query_evidence: Ints32  # [query] slot of its evidence relation
    query_listed: Ints32  # [query] slot of its listed atoms, the observed among them
    query_false: Ints32  # [query] slot of its atoms false by evidence
    query_truth: Ints32  # [query] slot of its true atoms
    query_denied: Ints32  # [query] slot of the atoms that its truth says are false
    # relations
    arity: Ints32  # [slot]
    index_slot: Ints32  # [index]
    index_argument: Ints32  # [index]
    index_type: Ints32  # [index]
    # join steps; clause c has variant 2c for full worlds, 2c + 1 for listed ones
    step_start: Ints32  # [variant + 1]
    op: Ints32  # [step]
    slot: Ints32  # [step] relation of SCAN and ABSENT, type of DOMAIN, operation of COMPUTE
    probe: Ints32  # [step] index to look in, -1: read the whole relation
    probe_term: Ints32  # [step]
    run: Bytes  # [step] 1: this DOMAIN may be left to a run
    term_start: Ints32  # [step + 1]
    term: Ints32
    binds: Bytes  # [term]
    term_type: Ints32  # [term] of steps on whole numbers, whose constants are -1 - place in number
    number: Ints
    # clauses
    hard: Bytes  # [clause]
    sign: Ints32  # [clause]
    literal_start: Ints32  # [clause + 1]
    literal_query: Ints32  # [literal]
    literal_positive: Bytes
    literal_term_start: Ints32  # [literal + 1]
    literal_term: Ints32
    # existential disjuncts, each a plan with a conjunction of query literals
    exist_start: Ints32  # [clause + 1]
    exist_step_start: Ints32  # [2 * existential + variant, and one more]
    exist_literal_start: Ints32  # [existential + 1] into the literals
    # what finds the open atoms; of its parts the first binds an atom's arguments (the first variables),
    # the others are exclusions that start from these, each followed by its existentials
    found_query: Ints32  # [candidates] query predicate
    found_again: Bytes  # [candidates] 1: joins with what candidates before it found
    found_part: Ints32  # [candidates + 1]
    part_exists: Bytes  # [part] 1: an existential of the exclusion before it
    part_step_start: Ints32  # [part + 1]
    # templates
    first_weight: Ints  # [clause] its weight; those of declared constants
    unseen_weight: Ints  # [clause] weights of template constants that are not in the table
    template_start: Ints32  # [clause + 1]
    template_variable: Ints32
    template_type: Ints32
    template_stride: Ints32  # > 0: offset stride within a block of weights; 0: part of the key
    declared: Ints32  # [type] number of declared constants


class Batch(Frame):
    """Packed worlds: relations of integers, row after row."""

    start: Ints  # [world, slot] into data
    count: Ints  # [world, slot]
    data: Ints32
    domain: Ints32  # [world, type] number of constants
    member_start: Ints  # [world, type] into member, -1: the type is not numbered by world
    member: Ints32  # packed number of a world's constants beyond the shared ones, by world number
    stream: Ints32  # the same constants' stream-wide number, negative: unknown
    number: Ints  # the whole numbers that they are, or NO_NUMBER (only where plans compute)
    shared: Ints32  # [type] number of constants that all worlds have: declared, shown, of facts
    shared_start: Ints  # [type] into the next two
    shared_stream: Ints32  # the stream-wide number of shared constants, negative: unknown
    shared_number: Ints  # the whole numbers that they are, or NO_NUMBER (only where plans compute)
    listed: Bytes  # [world] ALL, LISTED or FOUND
    labelled: Bytes  # [world] 1: the truth is known
    facts: Facts
    own: Own


class Scratch(Frame):
    """Working memory of grounding, reused from world to world."""

    query_base: Ints  # [query + 1] first atom
    query_stride: Ints  # [query_type]
    index_start: Ints32
    index_row: Ints32
    index_start_at: Ints  # [index]
    index_row_at: Ints  # [index]
    index_mask: Ints  # [index] the bits of a constant that say its cell
    table: Ints32  # hash table of duplicate removal
    variable: Ints  # [rule variable]
    cursor: Ints  # [step]
    stop: Ints  # [step]
    own_cursor: (
        Ints  # [step] where the world's own tuples begin, once the facts are read; -1: they are
    )
    own_stop: Ints  # [step]
    row_key: Ints32  # [row, template variable]
    row_offset: Ints32  # [row]


def scratch(
    queries: int,
    arguments: int,
    indexes: int,
    cells: int,
    depth: int,
    variables: int,
    keys: int,
    rows: int,
) -> Scratch:
    """Return working memory for so many query predicates, index cells, join steps and rows."""
    return Scratch(
        np.zeros(queries + 1, np.int64),
        np.zeros(arguments + 1, np.int64),
        np.zeros(cells, np.int32),
        np.zeros(cells, np.int32),
        np.zeros(indexes + 1, np.int64),
        np.zeros(indexes + 1, np.int64),
        np.zeros(indexes + 1, np.int64),
        np.zeros(cells, np.int32),
        np.zeros(variables + 1, np.int64),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros((rows, keys), np.int32),
        np.zeros(rows, np.int32),
    )


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


@kernel
def _same_tuple(batch: Batch, start: int, arity: int, i: int, j: int) -> bool:
    for k in range(arity):
        if batch.data[start + i * arity + k] != batch.data[start + j * arity + k]:
            return False
    return True


@kernel
def deduplicate(batch: Batch, w: int, slot: int, arity: int, table: Ints32) -> None:
    """Make a relation a set: repeated tuples are dropped, first places kept."""
    n, start = batch.count[w, slot], batch.start[w, slot]
    mask = 1
    while mask < 2 * n:
        mask *= 2
    table[:mask] = -1
    mask -= 1
    kept = 0
    for i in range(n):
        h = np.uint64(14695981039346656037)
        for k in range(arity):
            h = (h ^ np.uint64(batch.data[start + i * arity + k])) * np.uint64(1099511628211)
        at = np.int64((h ^ (h >> np.uint64(29))) & np.uint64(mask))
        while table[at] >= 0 and not _same_tuple(batch, start, arity, table[at], i):
            at = (at + 1) & mask
        if table[at] < 0:
            table[at] = kept
            for k in range(arity):
                batch.data[start + kept * arity + k] = batch.data[start + i * arity + k]
            kept += 1
    batch.count[w, slot] = kept


@kernel
def index_relations(plans: Plans, batch: Batch, w: int, s: Scratch) -> int:
    """Make every relation a set and index the arguments that plans look up."""
    for slot in range(len(plans.arity)):
        if batch.facts.count[slot] > 0 and batch.count[w, slot] > 0:
            batch.count[w, slot] = without_facts(
                batch.facts,
                batch.own,
                batch.member_start,
                w,
                slot,
                batch.data,
                batch.start[w, slot],
                batch.count[w, slot],
                plans.arity[slot],
            )
        if batch.count[w, slot] > 1:
            if 4 * batch.count[w, slot] > len(s.table):
                return GROW_INDEX
            deduplicate(batch, w, slot, plans.arity[slot], s.table)
    at, row_at = 0, 0
    for x in range(len(plans.index_slot)):
        slot, argument = plans.index_slot[x], plans.index_argument[x]
        n, cells, mask = batch.count[w, slot], batch.domain[w, plans.index_type[x]], -1
        if cells > 4 * n + SPARSE:  # several constants share a cell
            cells = SPARSE
            while cells < n:
                cells *= 2
            mask = cells - 1
        if at + cells + 2 > len(s.index_start) or row_at + n > len(s.index_row):
            return GROW_INDEX
        s.index_start_at[x], s.index_row_at[x], s.index_mask[x] = at, row_at, mask
        column, arity = batch.start[w, slot] + argument, plans.arity[slot]
        s.index_start[at : at + cells + 2] = 0
        for i in range(n):
            s.index_start[at + (batch.data[column + i * arity] & mask) + 2] += 1
        for c in range(at + 2, at + cells + 2):
            s.index_start[c] += s.index_start[c - 1]
        for i in range(n):
            c = at + (batch.data[column + i * arity] & mask) + 1
            s.index_row[row_at + s.index_start[c]] = i
            s.index_start[c] += 1
        at += cells + 2
        row_at += n
    return OK


@kernel
def radix_key(plans: Plans, batch: Batch, w: int, q: int, slot: int, i: int, s: Scratch) -> int:
    """Return the number of tuple i of a relation among all groundings of query predicate q."""
    key = 0
    row = batch.start[w, slot] + i * plans.arity[slot]
    for j in range(plans.query_start[q], plans.query_start[q + 1]):
        key += batch.data[row + plans.query_argument[j]] * s.query_stride[j]
    return key


@kernel
def find_atom(batch: Batch, w: int, q: int, key: int, net: Network, s: Scratch) -> int:
    """Return the atom of a radix key, -1 where the world does not list it."""
    if not batch.listed[w]:
        return s.query_base[q] + key
    low, high = s.query_base[q], s.query_base[q + 1]
    while low < high:
        middle = (low + high) // 2
        if net.key[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < s.query_base[q + 1] and net.key[low] == key else -1


@kernel
def _list_keys(plans: Plans, batch: Batch, w: int, q: int, net: Network, s: Scratch) -> None:
    """Write the sorted keys of the listed atoms of q."""
    first, slot = s.query_base[q], plans.query_listed[q]
    for i in range(batch.count[w, slot]):
        net.key[first + i] = radix_key(plans, batch, w, q, slot, i, s)
    sort(net.key, first, first + batch.count[w, slot])


@kernel
def _place_variables(plans: Plans, batch: Batch, w: int, q: int, net: Network, s: Scratch) -> None:
    """Put the atoms of q in variables: the values of a grouped argument in one, else one each."""
    group, stop = plans.query_group[q], plans.query_start[q + 1]
    width = 1
    for j in range(stop - plans.query_grouped[q], stop):
        width *= batch.domain[w, plans.query_type[j]]
    v, last = net.size[VARIABLES], -1
    base = s.query_base[q]
    for a in range(base, s.query_base[q + 1]):
        key = (net.key[a] if batch.listed[w] else a - base) // width
        if key != last:
            net.var_start[v] = a
            net.exactly[v] = group == EXACTLY_ONE
            v += 1
            last = key
        net.var_of[a] = v - 1
        net.fixed[a] = OPEN
    net.var_start[v] = s.query_base[q + 1]
    net.size[VARIABLES] = v


@kernel
def _fix(plans: Plans, batch: Batch, w: int, q: int, net: Network, s: Scratch) -> None:
    for slot, value in ((plans.query_false[q], FALSE), (plans.query_evidence[q], TRUE)):
        for i in range(batch.count[w, slot]):
            atom = find_atom(batch, w, q, radix_key(plans, batch, w, q, slot, i, s), net, s)
            net.fixed[atom] = value


@kernel
def number_atoms(
    plans: Plans, batch: Batch, w: int, net: Network, s: Scratch, max_atoms: int
) -> int:
    """Give a world's query atoms their numbers and variables."""
    net.size[:] = 0
    queries = len(plans.query_group)
    for q in range(queries):
        full = 1
        for j in range(plans.query_start[q + 1] - 1, plans.query_start[q] - 1, -1):
            s.query_stride[j] = full
            if full > (1 << 62) // max(1, batch.domain[w, plans.query_type[j]]):
                return TOO_MANY_ATOMS
            full *= batch.domain[w, plans.query_type[j]]
        n = batch.count[w, plans.query_listed[q]] if batch.listed[w] else full
        s.query_base[q] = net.size[ATOMS]
        if net.size[ATOMS] + n > max_atoms:
            return TOO_MANY_ATOMS
        if net.size[ATOMS] + n + 1 > len(net.var_of):
            return GROW_ATOMS
        if batch.listed[w]:
            _list_keys(plans, batch, w, q, net, s)
        net.size[ATOMS] += n
        s.query_base[q + 1] = net.size[ATOMS]
        _place_variables(plans, batch, w, q, net, s)
        _fix(plans, batch, w, q, net, s)
    net.var_start[net.size[VARIABLES]] = net.size[ATOMS]
    net.size[SETTLED] = net.size[ATOMS]
    return OK


@kernel
def _value(s: Scratch, term: int) -> int:
    return s.variable[term] if term >= 0 else -1 - term


@kernel
def _shared(batch: Batch, w: int, kind: int, number: int) -> int:
    """Return the shared number of a world's constant, -1 - its place among its own if it has none."""
    if batch.facts.constants[kind] > 0:
        return shared_beside(batch.own, batch.member_start, w, kind, number)
    shared = batch.shared[kind]
    return number if number < shared else shared - 1 - number


@kernel
def _open(plans: Plans, batch: Batch, w: int, step: int, depth: int, s: Scratch) -> None:
    """Set the cursor of a step to its first candidate."""
    op = plans.op[step]
    s.cursor[depth], s.stop[depth] = 0, 1
    if op == DOMAIN:
        s.stop[depth] = batch.domain[w, plans.slot[step]]
    elif op in (SCAN, ABSENT):
        x, slot = plans.probe[step], plans.slot[step]
        if x < 0:
            s.stop[depth] = batch.count[w, slot]
        else:
            at = s.index_start_at[x] + (_value(s, plans.probe_term[step]) & s.index_mask[x])
            s.cursor[depth], s.stop[depth] = s.index_start[at], s.index_start[at + 1]
        s.own_cursor[depth] = -1
        if batch.facts.count[slot] > 0:
            _open_facts(plans, batch, w, step, depth, s)


@kernel
def _open_facts(plans: Plans, batch: Batch, w: int, step: int, depth: int, s: Scratch) -> None:
    """Let the candidates among facts come before those of the world's own tuples."""
    x, facts = plans.probe[step], batch.facts
    first, stop = 0, int(facts.count[plans.slot[step]])
    if x >= 0:
        constant = _shared(batch, w, plans.index_type[x], _value(s, plans.probe_term[step]))
        if constant < 0:
            return
        cell = facts.index_start[x] + constant
        first, stop = facts.cell[cell], facts.cell[cell + 1]
    s.own_cursor[depth], s.own_stop[depth] = s.cursor[depth], s.stop[depth]
    s.cursor[depth], s.stop[depth] = first, stop


@kernel
def _matches(plans: Plans, batch: Batch, w: int, step: int, i: int, s: Scratch) -> bool:
    """Compare a tuple with the bound terms of a step, and bind the others."""
    slot = plans.slot[step]
    x = plans.probe[step]
    row = s.index_row[s.index_row_at[x] + i] if x >= 0 else i
    at = batch.start[w, slot] + row * plans.arity[slot] - plans.term_start[step]
    for p in range(plans.term_start[step], plans.term_start[step + 1]):
        value = batch.data[at + p]
        if plans.binds[p]:
            s.variable[plans.term[p]] = value
        elif value != _value(s, plans.term[p]):
            return False
    return True


@kernel
def _next_match(plans: Plans, batch: Batch, w: int, step: int, depth: int, s: Scratch) -> bool:
    """Move to a relation's next tuple that matches, first among facts; False: there is none."""
    if s.own_cursor[depth] >= 0:
        found = match_fact(
            batch.facts,
            batch.own,
            batch.member_start,
            w,
            plans.slot[step],
            plans.probe[step] >= 0,
            s.cursor[depth],
            s.stop[depth],
            plans.term_start[step],
            plans.term_start[step + 1],
            plans.term,
            plans.binds,
            s.variable,
        )
        if found >= 0:
            s.cursor[depth] = found
            return True
        s.cursor[depth], s.stop[depth] = s.own_cursor[depth], s.own_stop[depth]
        s.own_cursor[depth] = -1
    while s.cursor[depth] < s.stop[depth]:
        s.cursor[depth] += 1
        if _matches(plans, batch, w, step, s.cursor[depth] - 1, s):
            return True
    return False


@kernel
def _constant_number(plans: Plans, batch: Batch, w: int, kind: int, constant: int) -> int:
    """Return the whole number that a world's constant is, or NO_NUMBER."""
    shared = _shared(batch, w, kind, constant)
    if shared >= 0:
        return batch.shared_number[batch.shared_start[kind] + shared]
    return batch.number[batch.member_start[w, kind] - 1 - shared]


@kernel
def _number(plans: Plans, batch: Batch, w: int, p: int, s: Scratch) -> int:
    """Return the whole number that a term stands for."""
    term = plans.term[p]
    if term < 0:
        return plans.number[-1 - term]
    if plans.term_type[p] < 0:  # the variable is a plain number
        return s.variable[term]
    return _constant_number(plans, batch, w, plans.term_type[p], s.variable[term])


@kernel
def _find_number(plans: Plans, batch: Batch, w: int, kind: int, number: int) -> int:
    """Return the world's constant of a type that is a whole number, or -1."""
    shared = batch.shared[kind]
    if shared > 0:  # most often a range
        guess = number - batch.shared_number[batch.shared_start[kind]]
        at = batch.shared_start[kind] + guess
        if 0 <= guess < shared and batch.shared_number[at] == number:
            if batch.facts.constants[kind] > 0:
                return number_beside(batch.own, batch.member_start, w, kind, guess)
            return guess
    for constant in range(batch.domain[w, kind]):
        if _constant_number(plans, batch, w, kind, constant) == number:
            return constant
    return -1


@kernel
def _compute(op: int, a: int, b: int) -> int:
    """Return a op b, NO_NUMBER where there is none (division by zero, overflow)."""
    if NO_NUMBER in (a, b):
        return NO_NUMBER
    if op in (PLUS, MINUS, TIMES):
        exact = a + b if op == PLUS else a - b if op == MINUS else a * b
        near = float(a) + b if op == PLUS else float(a) - b if op == MINUS else float(a) * b
        return exact if abs(near) < 4e18 else NO_NUMBER
    if b == 0:
        return NO_NUMBER
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # as in C: towards zero
    return quotient if op == OVER else a - quotient * b


@kernel
def _holds(plans: Plans, batch: Batch, w: int, step: int, s: Scratch) -> bool:
    """Decide a step on whole numbers; COMPUTE may bind its first term."""
    p, op = plans.term_start[step], plans.op[step]
    if op != COMPUTE:
        a, b = _number(plans, batch, w, p, s), _number(plans, batch, w, p + 1, s)
        if NO_NUMBER in (a, b):
            return False
        if op in (SAME, OTHER):
            return (a == b) == (op == SAME)
        return a < b if op == LESS else a <= b
    a, b = _number(plans, batch, w, p + 1, s), _number(plans, batch, w, p + 2, s)
    result = _compute(plans.slot[step], a, b)
    if result == NO_NUMBER:
        return False
    if not plans.binds[p]:
        return _number(plans, batch, w, p, s) == result
    if plans.term_type[p] < 0:
        s.variable[plans.term[p]] = result
        return True
    constant = _find_number(plans, batch, w, plans.term_type[p], result)
    s.variable[plans.term[p]] = constant
    return constant >= 0


@kernel
def _advance(plans: Plans, batch: Batch, w: int, step: int, depth: int, s: Scratch) -> bool:
    """Move a step to its next match; False: there is none."""
    op = plans.op[step]
    p = plans.term_start[step]
    if op == ABSENT:
        if s.cursor[depth] < 0 or _next_match(plans, batch, w, step, depth, s):
            return False
        s.cursor[depth], s.stop[depth] = -1, -1
        return True
    if op == SCAN:
        return _next_match(plans, batch, w, step, depth, s)
    while s.cursor[depth] < s.stop[depth]:
        i = s.cursor[depth]
        s.cursor[depth] += 1
        if op == DOMAIN:
            s.variable[plans.term[p]] = i
            return True
        if op >= LESS:
            return _holds(plans, batch, w, step, s)
        if plans.binds[p]:  # EQUAL that binds its first term
            s.variable[plans.term[p]] = _value(s, plans.term[p + 1])
            return True
        same = _value(s, plans.term[p]) == _value(s, plans.term[p + 1])
        return same == (op == EQUAL)
    return False


@kernel
def _emit_literals(
    plans: Plans, batch: Batch, w: int, c: int, run: int, net: Network, s: Scratch
) -> int:
    """Write the open literals of a ground clause; returns their number, -1: the clause is true."""
    first = net.size[LITERALS]
    at = first
    for x in range(plans.literal_start[c], plans.literal_start[c + 1]):
        q = plans.literal_query[x]
        key, step = 0, 0
        for p in range(plans.literal_term_start[x], plans.literal_term_start[x + 1]):
            stride = s.query_stride[plans.query_start[q] + p - plans.literal_term_start[x]]
            if plans.literal_term[p] == run:
                step += stride
            else:
                key += _value(s, plans.literal_term[p]) * stride
        atom = find_atom(batch, w, q, key, net, s)
        if atom >= 0:
            net.lit_atom[at] = atom
            net.lit_step[at] = step
            net.lit_positive[at] = plans.literal_positive[x]
            at += 1
        elif not plans.literal_positive[x]:
            return -1
    net.size[LITERALS] = at
    return at - first


@kernel
def _literal_atom(plans: Plans, batch: Batch, w: int, x: int, net: Network, s: Scratch) -> int:
    """Return the atom of a query literal for the bound variables, -1: it is not open."""
    q, key = plans.literal_query[x], 0
    for p in range(plans.literal_term_start[x], plans.literal_term_start[x + 1]):
        stride = s.query_stride[plans.query_start[q] + p - plans.literal_term_start[x]]
        key += _value(s, plans.literal_term[p]) * stride
    return find_atom(batch, w, q, key, net, s)


@kernel
def _conjunction(
    plans: Plans, batch: Batch, w: int, e: int, at: int, net: Network, s: Scratch
) -> int:
    """Write the open literals that an existential's binding asks for; how many, -1: it is false."""
    n = 0
    for x in range(plans.exist_literal_start[e], plans.exist_literal_start[e + 1]):
        atom, positive = _literal_atom(plans, batch, w, x, net, s), plans.literal_positive[x]
        if atom < 0 and positive:
            return -1
        new = atom >= 0
        for p in range(at, at + n):
            if net.lit_atom[p] == atom:
                new = False
                if net.lit_positive[p] != positive:
                    return -1
        if new:
            net.lit_atom[at + n], net.lit_positive[at + n] = atom, positive
            n += 1
    return n


@kernel
def _append_binding(plans: Plans, batch: Batch, w: int, e: int, net: Network, s: Scratch) -> int:
    """Append an existential's binding to a row; OK, SATISFIED, GROW_ROWS, GROW_ATOMS.

    A conjunction of several literals gets an atom; ``_define`` says what it means.
    """
    at = net.size[LITERALS]
    if at + plans.exist_literal_start[e + 1] - plans.exist_literal_start[e] >= len(net.lit_atom):
        return GROW_ROWS
    literals = _conjunction(plans, batch, w, e, at, net, s)
    if literals < 0:
        return OK
    if literals == 0:
        return SATISFIED
    if literals > 1:
        atom, v = net.size[ATOMS], net.size[VARIABLES]
        if atom + 2 > len(net.var_of):
            return GROW_ATOMS
        net.var_of[atom], net.var_start[v + 1] = v, atom + 1
        net.exactly[v], net.fixed[atom] = 0, DEFINED
        net.size[ATOMS] += 1
        net.size[VARIABLES] += 1
        net.lit_atom[at], net.lit_positive[at] = atom, 1
    net.lit_step[at] = 0
    net.size[LITERALS] += 1
    return OK


@kernel
def _define(plans: Plans, batch: Batch, w: int, c: int, e: int, net: Network, s: Scratch) -> int:
    """Write the rows that define the next atom, if an existential's binding has one; OK, GROW_ROWS.

    They are ``atom v !l1 v ... v !ln``, whose row is the atom's key, and ``!atom v l`` for each ``l``.
    """
    row, start = net.size[ROWS], net.size[LITERALS]
    most = plans.exist_literal_start[e + 1] - plans.exist_literal_start[e]
    if row + most + 2 > len(net.row_len) or start + 3 * most + 1 > len(net.lit_atom):
        return GROW_ROWS
    literals = _conjunction(plans, batch, w, e, start + 1, net, s)
    if literals < 2:
        return OK
    atom, at = net.size[SETTLED], start + 1 + literals
    net.key[atom] = row
    net.lit_atom[start], net.lit_positive[start] = atom, 1
    net.lit_start[row + 1] = at
    for p in range(start + 1, start + 1 + literals):
        net.lit_atom[at], net.lit_positive[at] = atom, 0
        net.lit_atom[at + 1], net.lit_positive[at + 1] = net.lit_atom[p], net.lit_positive[p]
        net.lit_positive[p] = 1 - net.lit_positive[p]
        at += 2
        net.lit_start[row + 1 + p - start] = at
    net.lit_step[start:at] = 0
    net.row_len[row : row + literals + 1] = 1
    net.row_clause[row : row + literals + 1] = c
    net.row_weight[row : row + literals + 1] = -1
    net.row_step[row : row + literals + 1] = 0
    net.row_sign[row : row + literals + 1] = 1.0
    net.size[ROWS] += literals + 1
    net.size[LITERALS] = at
    net.size[GROUNDINGS] += literals + 1
    net.size[SETTLED] += 1
    return OK


@kernel
def _each_binding(
    plans: Plans,
    batch: Batch,
    w: int,
    c: int,
    e: int,
    base: int,
    defining: bool,
    net: Network,
    s: Scratch,
    limit: int,
) -> int:
    """Append an existential's bindings to a row, or define their atoms; OK, or what ended it."""
    variant = 2 * e + (batch.listed[w] != ALL)
    first = plans.exist_step_start[variant]
    steps = plans.exist_step_start[variant + 1] - first
    depth, bindings = 0, 0
    if steps > 0:
        _open(plans, batch, w, first, base, s)
    while depth >= 0:
        if steps > 0 and not _advance(plans, batch, w, first + depth, base + depth, s):
            depth -= 1
        elif depth < steps - 1:
            depth += 1
            _open(plans, batch, w, first + depth, base + depth, s)
        else:
            bindings += 1
            net.size[GROUNDINGS] += bindings % LITERALS_EACH == 0
            if net.size[GROUNDINGS] > limit:
                return TOO_MANY_GROUNDINGS
            if defining:
                status = _define(plans, batch, w, c, e, net, s)
            else:
                status = _append_binding(plans, batch, w, e, net, s)
            if status != OK or steps == 0:
                return status
    return OK


@kernel
def _each_existential(
    plans: Plans,
    batch: Batch,
    w: int,
    c: int,
    base: int,
    defining: bool,
    net: Network,
    s: Scratch,
    limit: int,
) -> int:
    for e in range(plans.exist_start[c], plans.exist_start[c + 1]):
        status = _each_binding(plans, batch, w, c, e, base, defining, net, s, limit)
        if status != OK:
            return int(status)
    return OK


@kernel
def _emit_key(plans: Plans, batch: Batch, w: int, c: int, run: int, row: int, s: Scratch) -> None:
    """Write the template constants of a row: the key of its weights, and its offset in the block."""
    s.row_offset[row] = 0
    first = plans.template_start[c]
    s.row_key[row, :] = 0
    for p in range(first, plans.template_start[c + 1]):
        if plans.template_variable[p] == run:
            continue
        constant = s.variable[plans.template_variable[p]]
        kind = plans.template_type[p]
        if batch.member_start[w, kind] >= 0 and constant >= plans.declared[kind]:
            shared = _shared(batch, w, kind, constant)
            if shared >= 0:
                constant = batch.shared_stream[batch.shared_start[kind] + shared]
            else:
                constant = batch.stream[batch.member_start[w, kind] - 1 - shared]
        if plans.template_stride[p] == 0 or constant < 0:
            s.row_key[row, p - first] = constant
        elif constant < plans.declared[kind]:
            s.row_offset[row] += constant * plans.template_stride[p]
        else:
            s.row_key[row, p - first] = constant + 1


@kernel
def next_binding(
    plans: Plans, batch: Batch, w: int, first: int, stop: int, base: int, began: bool, s: Scratch
) -> bool:
    """Move the steps from first to stop to their next binding, or first one; False: there is none."""
    steps = stop - first
    if steps == 0:
        return not began
    depth = steps - 1
    if not began:
        depth = 0
        _open(plans, batch, w, first, base, s)
    while depth >= 0:
        if not _advance(plans, batch, w, first + depth, base + depth, s):
            depth -= 1
        elif depth == steps - 1:
            return True
        else:
            depth += 1
            _open(plans, batch, w, first + depth, base + depth, s)
    return False


@kernel
def _undone(plans: Plans, batch: Batch, w: int, c: int, depth: int, s: Scratch) -> bool:
    """Tell whether a clause without a literal has lost it to hard rules: they contradict each other."""
    if batch.listed[w] != FOUND:
        return False
    lost = plans.literal_start[c] < plans.literal_start[c + 1]
    for e in range(plans.exist_start[c], plans.exist_start[c + 1]):
        if plans.exist_literal_start[e] < plans.exist_literal_start[e + 1]:
            first, stop = plans.exist_step_start[2 * e], plans.exist_step_start[2 * e + 1]
            lost = lost or next_binding(plans, batch, w, first, stop, depth, False, s)
    return bool(lost)


@kernel
def _emit(
    plans: Plans,
    batch: Batch,
    w: int,
    c: int,
    run: int,
    length: int,
    depth: int,
    net: Network,
    s: Scratch,
    limit: int,
) -> int:
    """Write one row for the bound variables."""
    row = net.size[ROWS]
    literals = plans.literal_start[c + 1] - plans.literal_start[c]
    if row + 2 > len(net.row_len) or net.size[LITERALS] + literals > len(net.lit_atom):
        return GROW_ROWS
    count = _emit_literals(plans, batch, w, c, run, net, s)
    if count >= 0 and plans.exist_start[c] < plans.exist_start[c + 1]:
        start, atoms, variables = net.lit_start[row], net.size[ATOMS], net.size[VARIABLES]
        status = _each_existential(plans, batch, w, c, depth, False, net, s, limit)
        if status != OK:
            net.size[LITERALS], net.size[ATOMS], net.size[VARIABLES] = start, atoms, variables
            return OK if status == SATISFIED else status
        count = net.size[LITERALS] - start
    if count == 0 and plans.hard[c] and not _undone(plans, batch, w, c, depth, s):
        return EVIDENCE_BREAKS_RULE
    if count < 0 or (count == 0 and not plans.hard[c]):
        return OK
    net.row_len[row] = length
    net.row_clause[row] = c
    net.row_weight[row] = -1 if plans.hard[c] else 0
    net.row_step[row] = 0
    net.row_sign[row] = plans.sign[c]
    if not plans.hard[c]:
        _emit_key(plans, batch, w, c, run, row, s)
        for p in range(plans.template_start[c], plans.template_start[c + 1]):
            if plans.template_variable[p] == run:
                net.row_step[row] = 1
    net.lit_start[row + 1] = net.size[LITERALS]
    net.size[ROWS] += 1
    if net.size[SETTLED] < net.size[ATOMS]:
        return _each_existential(plans, batch, w, c, depth, True, net, s, limit)
    return OK


@kernel
def _may_run(plans: Plans, batch: Batch, w: int, c: int, step: int) -> bool:
    """Tell whether the last DOMAIN step may become a run: a template one only over declared constants."""
    if not plans.run[step]:
        return False
    variable = plans.term[plans.term_start[step]]
    kind = plans.slot[step]
    if batch.domain[w, kind] == 0:
        return False
    for p in range(plans.template_start[c], plans.template_start[c + 1]):
        if plans.template_variable[p] == variable:
            return bool(batch.domain[w, kind] == plans.declared[kind])
    return True


@kernel
def ground_clause(
    plans: Plans, batch: Batch, w: int, c: int, net: Network, s: Scratch, limit: int
) -> int:
    """Run the join plan of one clause in one world and write its rows."""
    variant = 2 * c + (batch.listed[w] != ALL)
    first, steps = plans.step_start[variant], plans.step_start[variant + 1]
    steps -= first
    run, length = -1, 1
    if steps > 0 and not batch.listed[w] and _may_run(plans, batch, w, c, first + steps - 1):
        steps -= 1
        run = plans.term[plans.term_start[first + steps]]
        length = batch.domain[w, plans.slot[first + steps]]
    if steps == 0:
        net.size[GROUNDINGS] += length
        if net.size[GROUNDINGS] > limit:
            return TOO_MANY_GROUNDINGS
        return _emit(plans, batch, w, c, run, length, 0, net, s, limit)
    depth = 0
    _open(plans, batch, w, first, 0, s)
    while depth >= 0:
        if not _advance(plans, batch, w, first + depth, depth, s):
            depth -= 1
        elif depth < steps - 1:
            depth += 1
            _open(plans, batch, w, first + depth, depth, s)
        else:
            net.size[GROUNDINGS] += length
            if net.size[GROUNDINGS] > limit:
                return TOO_MANY_GROUNDINGS
            status = _emit(plans, batch, w, c, run, length, steps, net, s, limit)
            if status != OK:
                return status
    return OK


@kernel
def ground_world(
    plans: Plans, batch: Batch, w: int, net: Network, s: Scratch, max_atoms: int, limit: int
) -> tuple[int, int]:
    """Ground all clauses of a world; returns a status and the clause it came from (or -1)."""
    status = index_relations(plans, batch, w, s)
    if status == OK:
        status = number_atoms(plans, batch, w, net, s, max_atoms)
    if status != OK:
        return status, -1
    net.lit_start[0] = 0
    for c in range(len(plans.hard)):
        status = ground_clause(plans, batch, w, c, net, s, limit)
        if status != OK:
            return status, c
    return OK, -1
