"""The ground clauses of a left-out clause that a state violates, by a join over its true atoms.

The plan for worlds that list their open atoms joins the negative query literals with the listed atoms. If
the atoms of positive value are listed, it binds every grounding that may be violated, and no other whose
negative literals are true.
"""

from onlinesrl.core.arrays import Floats, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.mln.kernels.ground import emit, literal_atom
from onlinesrl.mln.kernels.ground_network import FALSE, GROUNDINGS, TRUE, Network
from onlinesrl.mln.kernels.grounding_frames import ALL, OK, Batch, Plans, Scratch
from onlinesrl.mln.kernels.joins import next_binding

TOLERANCE = 1e-6
"""By how much the literals of a violated clause come to less than 1, for values between 0 and 1."""


@kernel
def _truth(
    plans: Plans, batch: Batch, w: int, c: int, value: Floats, net: Network, s: Scratch
) -> float:
    """Return the sum of the values of a ground clause's literals, at most 1."""
    total = 0.0
    for x in range(plans.literal_start[c], plans.literal_start[c + 1]):
        atom, _ = literal_atom(plans, batch, w, x, -1, net, s)
        positive = plans.literal_positive[x]
        if atom >= 0:
            total += value[atom] if positive else 1.0 - value[atom]
        elif not positive:
            return 1.0
    return min(total, 1.0)


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
) -> int:
    """Write the groundings that values of the atoms violate; returns their number.

    A row of ``bindings`` has the constants of the clause's variables. The search ends at its last row.
    """
    first, stop = plans.step_start[2 * c + 1], plans.step_start[2 * c + 2]
    n, began = 0, False
    while n < len(bindings) and next_binding(plans, batch, w, first, stop, 0, began, s):
        began = True
        if _truth(plans, batch, w, c, value, net, s) < 1.0 - TOLERANCE:
            for j in range(bindings.shape[1]):
                bindings[n, j] = s.variable[j]
            n += 1
    return n


@kernel
def write(
    plans: Plans,
    batch: Batch,
    w: int,
    c: int,
    bindings: Ints32,
    net: Network,
    s: Scratch,
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
def count_open(plans: Plans, batch: Batch, w: int, c: int, net: Network, s: Scratch) -> int:
    """Return the number of ground clauses of a clause that evidence does not decide."""
    variant = 2 * c + (batch.listed[w] != ALL)
    first, stop = plans.step_start[variant], plans.step_start[variant + 1]
    n, began = 0, False
    while next_binding(plans, batch, w, first, stop, 0, began, s):
        began = True
        n += _is_open(plans, batch, w, c, net, s)
    return n
