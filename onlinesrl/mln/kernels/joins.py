"""Join plans, run step by step by backtracking; steps on whole numbers compare or compute."""

from onlinesrl.core.jit.decorators import kernel, kernel_of
from onlinesrl.logic.kernels.whole_numbers import NO_NUMBER, compares, computed
from onlinesrl.mln.kernels.grounding_frames import (
    ABSENT,
    COMPUTE,
    DOMAIN,
    EQUAL,
    LESS,
    SCAN,
    Batch,
    Plans,
    Scratch,
)


@kernel
def shared_constant(batch: Batch, kind: int, number: int) -> int:
    """Return the shared number of a world's constant; without one, -1 - its place among the own ones."""
    shared = batch.shared[kind]
    return number if number < shared else shared - 1 - number


@kernel
def _constant_number(plans: Plans, batch: Batch, w: int, kind: int, constant: int) -> int:
    """Return the whole number that a world's constant is, or NO_NUMBER."""
    shared = shared_constant(batch, kind, constant)
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
            return guess
    for constant in range(batch.domain[w, kind]):
        if _constant_number(plans, batch, w, kind, constant) == number:
            return constant
    return -1


@kernel_of("numbers", False)
def holds(plans: Plans, batch: Batch, w: int, step: int, s: Scratch) -> bool:
    """Decide a step on whole numbers; COMPUTE may bind its first term."""
    p, op = plans.term_start[step], plans.op[step]
    if op != COMPUTE:
        a, b = _number(plans, batch, w, p, s), _number(plans, batch, w, p + 1, s)
        return compares(op - LESS, a, b)
    a, b = _number(plans, batch, w, p + 1, s), _number(plans, batch, w, p + 2, s)
    result = computed(plans.slot[step], a, b)
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
def term_value(s: Scratch, term: int) -> int:
    """Return the constant that a term stands for."""
    return s.variable[term] if term >= 0 else -1 - term


@kernel
def open_step(plans: Plans, batch: Batch, w: int, step: int, depth: int, s: Scratch) -> None:
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
            at = s.index_start_at[x] + (term_value(s, plans.probe_term[step]) & s.index_mask[x])
            s.cursor[depth], s.stop[depth] = s.index_start[at], s.index_start[at + 1]
        s.own_cursor[depth] = -1
        if batch.facts.count[slot] > 0:
            _open_facts(plans, batch, step, depth, s)


@kernel_of("facts", None)
def _open_facts(plans: Plans, batch: Batch, step: int, depth: int, s: Scratch) -> None:
    """Let a step read the matching facts first, then the world's own tuples."""
    x, facts = plans.probe[step], batch.facts
    first, stop = 0, int(facts.count[plans.slot[step]])
    if x >= 0:
        constant = term_value(s, plans.probe_term[step])
        if constant >= batch.shared[plans.index_type[x]]:
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
        elif value != term_value(s, plans.term[p]):
            return False
    return True


@kernel_of("facts", -1)
def _next_fact(plans: Plans, batch: Batch, step: int, depth: int, s: Scratch) -> int:
    """Return the place after the next fact that matches, binding the free terms; -1: there is none."""
    facts, slot = batch.facts, plans.slot[step]
    first, last = plans.term_start[step], plans.term_start[step + 1]
    for i in range(s.cursor[depth], s.stop[depth]):
        row = facts.row[i] if plans.probe[step] >= 0 else i
        at = facts.start[slot] + row * (last - first) - first
        fits, p = True, first
        while fits and p < last:
            value = facts.data[at + p]
            if plans.binds[p]:
                s.variable[plans.term[p]] = value
            else:
                fits = value == term_value(s, plans.term[p])
            p += 1
        if fits:
            return i + 1
    return -1


@kernel
def _next_match(plans: Plans, batch: Batch, w: int, step: int, depth: int, s: Scratch) -> bool:
    """Move to a relation's next tuple that matches, first among facts; False: there is none."""
    if s.own_cursor[depth] >= 0:
        row = _next_fact(plans, batch, step, depth, s)
        if row >= 0:
            s.cursor[depth] = row
            return True
        s.cursor[depth], s.stop[depth] = s.own_cursor[depth], s.own_stop[depth]
        s.own_cursor[depth] = -1
    while s.cursor[depth] < s.stop[depth]:
        s.cursor[depth] += 1
        if _matches(plans, batch, w, step, s.cursor[depth] - 1, s):
            return True
    return False


@kernel
def advance(plans: Plans, batch: Batch, w: int, step: int, depth: int, s: Scratch) -> bool:
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
            return holds(plans, batch, w, step, s)
        if plans.binds[p]:  # EQUAL that binds its first term
            s.variable[plans.term[p]] = term_value(s, plans.term[p + 1])
            return True
        same = term_value(s, plans.term[p]) == term_value(s, plans.term[p + 1])
        return same == (op == EQUAL)
    return False


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
        open_step(plans, batch, w, first, base, s)
    while depth >= 0:
        if not advance(plans, batch, w, first + depth, base + depth, s):
            depth -= 1
        elif depth == steps - 1:
            return True
        else:
            depth += 1
            open_step(plans, batch, w, first + depth, base + depth, s)
    return False
