"""Steps of join plans on whole numbers: comparisons and arithmetic."""

from onlinesrl.core.jit.decorators import kernel, kernel_of
from onlinesrl.mln.kernels.background import number_beside, shared_beside
from onlinesrl.mln.kernels.grounding_frames import (
    COMPUTE,
    LESS,
    MINUS,
    NO_NUMBER,
    OTHER,
    OVER,
    PLUS,
    SAME,
    TIMES,
    Batch,
    Plans,
    Scratch,
)


@kernel_of("facts", 0)
def _beside_facts(batch: Batch, w: int, kind: int, number: int) -> int:
    return shared_beside(batch.own, batch.member_start, w, kind, number)


@kernel
def shared_constant(batch: Batch, w: int, kind: int, number: int) -> int:
    """Return the shared number of a world's constant, -1 - its place among its own if it has none."""
    if batch.facts.constants[kind] > 0:
        return _beside_facts(batch, w, kind, number)
    shared = batch.shared[kind]
    return number if number < shared else shared - 1 - number


@kernel
def _constant_number(plans: Plans, batch: Batch, w: int, kind: int, constant: int) -> int:
    """Return the whole number that a world's constant is, or NO_NUMBER."""
    shared = shared_constant(batch, w, kind, constant)
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


@kernel_of("numbers", False)
def holds(plans: Plans, batch: Batch, w: int, step: int, s: Scratch) -> bool:
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
