"""The ground clauses of a left-out clause that a state violates, by a join over its true atoms.

The plan for worlds that list their open atoms joins the negative query literals with the listed atoms. If
the atoms of positive value are listed, it binds every grounding that may be violated, and no other whose
negative literals are true.
"""

import numpy as np

from onlinesrl.core.arrays import Floats, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.kernels import averaging
from onlinesrl.mln.kernels.ground import emit, emit_key, literal_atom
from onlinesrl.mln.kernels.ground_network import FALSE, GROUNDINGS, ROWS, TRUE, Network
from onlinesrl.mln.kernels.grounding_frames import ALL, DOMAIN, OK, Batch, Plans, Scratch
from onlinesrl.mln.kernels.joins import next_binding
from onlinesrl.mln.kernels.weight_lookup import Weights, number

TOLERANCE = 1e-6
"""By how much the literals of a violated clause come to less, for values between 0 and 1."""


@kernel
def _truth(
    plans: Plans, batch: Batch, w: int, c: int, value: Floats, net: Network, s: Scratch
) -> float:
    """Return the sum of the values of a ground clause's distinct literals, inf: it holds by itself."""
    total = 0.0
    for x in range(plans.literal_start[c], plans.literal_start[c + 1]):
        atom, _ = literal_atom(plans, batch, w, x, -1, net, s)
        positive, again = plans.literal_positive[x], False
        if atom < 0:
            if not positive:
                return np.inf
            continue
        for y in range(plans.literal_start[c], x):
            if literal_atom(plans, batch, w, y, -1, net, s)[0] == atom:
                if plans.literal_positive[y] != positive:
                    return np.inf
                again = True
        if not again:
            total += value[atom] if positive else 1.0 - value[atom]
    return total


@kernel
def violated(
    plans: Plans,
    batch: Batch,
    w: int,
    c: int,
    value: Floats,
    net: Network,
    s: Scratch,
    bindings: Ints32,
    least: int,
) -> int:
    """Write the groundings that values of the atoms violate; returns their number.

    Their literals come to less than ``least``: 2 also finds those that one literal alone makes true. A row
    of ``bindings`` has the constants of the clause's variables. The search ends at its last row.
    """
    first, stop = plans.step_start[2 * c + 1], plans.step_start[2 * c + 2]
    n, began = 0, False
    while n < len(bindings) and next_binding(plans, batch, w, first, stop, 0, began, s):
        began = True
        if _truth(plans, batch, w, c, value, net, s) < least - TOLERANCE:
            for j in range(bindings.shape[1]):
                bindings[n, j] = s.variable[j]
            n += 1
    return n


@kernel
def write(
    plans: Plans, batch: Batch, w: int, c: int, bindings: Ints32, net: Network, s: Scratch
) -> int:
    """Write the rows of groundings, as ``violated`` finds them; returns a status."""
    for i in range(len(bindings)):
        for j in range(bindings.shape[1]):
            s.variable[j] = bindings[i, j]
        net.size[GROUNDINGS] += 1
        status = emit(plans, batch, w, c, -1, 1, 0, net, s, net.size[GROUNDINGS])
        if status != OK:
            return status
    return OK


@kernel
def _weight(
    plans: Plans,
    batch: Batch,
    w: int,
    c: int,
    row: Network,
    s: Scratch,
    weights: Weights,
    learning: bool,
) -> int:
    """Return the weight of the bound ground clause, -1: there is no room for a new one."""
    row.row_clause[0], row.row_weight[0], row.size[ROWS] = c, 0, 1
    emit_key(plans, batch, w, c, -1, 0, row, s)
    return row.row_weight[0] if number(plans, row, weights, learning) else -1


@kernel
def _is_template(plans: Plans, c: int, variable: int) -> bool:
    """Tell whether the weights of a clause differ by a variable."""
    for p in range(plans.template_start[c], plans.template_start[c + 1]):
        if plans.template_variable[p] == variable:
            return True
    return False


@kernel
def add(
    plans: Plans,
    batch: Batch,
    w: int,
    c: int,
    value: Floats,
    net: Network,
    row: Network,
    s: Scratch,
    weights: Weights,
    n: int,
    share: float,
    learning: bool,
) -> tuple[int, bool]:
    """Add ``share`` to ``delta`` for each grounding that values of the atoms violate; no ``value``: for all.

    ``n`` weights were touched before. Returns how many are now, and False if there is no room for a weight.
    Of all groundings, those by last variables that no weight depends on are multiplied. ``row`` is a network
    of one row, for keys.
    """
    every = len(value) == 0
    variant = 2 * c + (not every or batch.listed[w] != ALL)
    first, stop, times = plans.step_start[variant], plans.step_start[variant + 1], 1
    while every and stop > first and plans.op[stop - 1] == DOMAIN:
        if _is_template(plans, c, plans.term[plans.term_start[stop - 1]]):
            break
        stop -= 1
        times *= batch.domain[w, plans.slot[stop]]
    began = False
    while next_binding(plans, batch, w, first, stop, 0, began, s):
        began = True
        if every or _truth(plans, batch, w, c, value, net, s) < 1.0 - TOLERANCE:
            i = _weight(plans, batch, w, c, row, s, weights, learning)
            if i < 0:
                return n, False
            n = averaging.add(weights, n, i, share * times * plans.sign[c])
    return n, True


@kernel
def _is_open(plans: Plans, batch: Batch, w: int, c: int, net: Network, s: Scratch) -> bool:
    """Tell whether evidence decides no ground clause, and no atom stands in it with both signs."""
    some = False
    for x in range(plans.literal_start[c], plans.literal_start[c + 1]):
        atom, _ = literal_atom(plans, batch, w, x, -1, net, s)
        positive = plans.literal_positive[x]
        if atom < 0:
            if not positive:
                return False
            continue
        if net.fixed[atom] == (TRUE if positive else FALSE):
            return False
        some |= net.fixed[atom] != TRUE and net.fixed[atom] != FALSE
        for y in range(plans.literal_start[c], x):
            if plans.literal_positive[y] != positive:
                other, _ = literal_atom(plans, batch, w, y, -1, net, s)
                if other == atom:
                    return False
    return some


@kernel
def _has(s: Scratch, constant: int, variables: int, last: int) -> bool:
    """Tell whether one of the first variables, but for the last one, has a constant."""
    for j in range(variables):
        if j != last and s.variable[j] == constant:
            return True
    return False


@kernel
def count_open(
    plans: Plans, batch: Batch, w: int, c: int, net: Network, s: Scratch, alike: int
) -> int:
    """Return the number of ground clauses of a clause that evidence does not decide.

    ``alike`` is the number of its variables, if no constant stands in it and no atom is fixed: then all
    constants of the last variable that no other variable has are counted by one of them. Else it is 0.
    """
    variant = 2 * c + (batch.listed[w] != ALL)
    first, stop = plans.step_start[variant], plans.step_start[variant + 1]
    n, began, last, size = 0, False, -1, 0
    if alike and batch.listed[w] == ALL and stop > first and plans.op[stop - 1] == DOMAIN:
        stop -= 1
        last, size = plans.term[plans.term_start[stop]], batch.domain[w, plans.slot[stop]]
    while next_binding(plans, batch, w, first, stop, 0, began, s):
        began = True
        if last < 0:
            n += _is_open(plans, batch, w, c, net, s)
            continue
        others, other = size, 0
        for j in range(alike):
            constant = s.variable[j]
            if j != last and 0 <= constant < size and not _has(s, constant, j, last):
                s.variable[last] = constant
                n += _is_open(plans, batch, w, c, net, s)
                others -= 1
        if others > 0:
            while _has(s, other, alike, last):
                other += 1
            s.variable[last] = other
            n += others * _is_open(plans, batch, w, c, net, s)
    return n
