"""Existential quantifiers in ground clauses: one literal per binding, or an atom defined as a conjunction."""

from onlinesrl.core.jit.decorators import kernel, kernel_of
from onlinesrl.mln.kernels.atoms import find_atom
from onlinesrl.mln.kernels.ground_network import (
    ATOMS,
    DEFINED,
    GROUNDINGS,
    LITERALS,
    ROWS,
    SETTLED,
    VARIABLES,
    Network,
)
from onlinesrl.mln.kernels.grounding_frames import (
    ALL,
    FOUND,
    GROW_ATOMS,
    GROW_ROWS,
    LITERALS_EACH,
    OK,
    SATISFIED,
    TOO_MANY_GROUNDINGS,
    Batch,
    Plans,
    Scratch,
)
from onlinesrl.mln.kernels.joins import next_binding, term_value


@kernel
def _conjunction(
    plans: Plans, batch: Batch, w: int, e: int, at: int, net: Network, s: Scratch
) -> int:
    """Write the open literals of an existential's binding; returns how many, -1: the binding is false."""
    n = 0
    for x in range(plans.exist_literal_start[e], plans.exist_literal_start[e + 1]):
        q, key = plans.literal_query[x], 0
        for p in range(plans.literal_term_start[x], plans.literal_term_start[x + 1]):
            stride = net.query_stride[plans.query_start[q] + p - plans.literal_term_start[x]]
            key += term_value(s, plans.literal_term[p]) * stride
        atom, positive = find_atom(batch, w, q, key, net), plans.literal_positive[x]
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
    """Append an existential's binding to a row; OK, SATISFIED, GROW_ROWS or GROW_ATOMS.

    A conjunction of several literals gets an atom, which ``_define`` defines.
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
        net.exactly[v], net.fixed[atom], net.latent[atom] = 0, DEFINED, 0
        net.size[ATOMS] += 1
        net.size[VARIABLES] += 1
        net.lit_atom[at], net.lit_positive[at] = atom, 1
    net.lit_step[at] = 0
    net.size[LITERALS] += 1
    return OK


@kernel
def _define(plans: Plans, batch: Batch, w: int, c: int, e: int, net: Network, s: Scratch) -> int:
    """Write the rows that define the atom of an existential's binding, if it has one; OK or GROW_ROWS.

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
    net.lit_start[row + 1], net.clause_start[row + 1] = at, net.clause_start[row] + 1
    for p in range(start + 1, start + 1 + literals):
        net.lit_atom[at], net.lit_positive[at] = atom, 0
        net.lit_atom[at + 1], net.lit_positive[at + 1] = net.lit_atom[p], net.lit_positive[p]
        net.lit_positive[p] = 1 - net.lit_positive[p]
        at += 2
        net.lit_start[row + 1 + p - start] = at
        net.clause_start[row + 1 + p - start] = net.clause_start[row + p - start] + 1
    net.lit_step[start:at] = 0
    net.row_len[row : row + literals + 1] = 1
    net.row_clause[row : row + literals + 1] = c
    net.row_weight[row : row + literals + 1] = -1
    net.row_step[row : row + literals + 1] = 0
    net.row_factor[row : row + literals + 1] = 1.0
    net.size[ROWS] += literals + 1
    net.size[LITERALS] = at
    net.size[GROUNDINGS] += literals + 1
    net.size[SETTLED] += 1
    return OK


@kernel_of("existentials", OK)
def each_existential(
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
    """Append the bindings of all existentials of a clause to a row, or define their atoms.

    Returns OK, or the first other status.
    """
    for e in range(plans.exist_start[c], plans.exist_start[c + 1]):
        variant, bindings = 2 * e + (batch.listed[w] != ALL), 0
        first, stop = plans.exist_step_start[variant], plans.exist_step_start[variant + 1]
        while next_binding(plans, batch, w, first, stop, base, bindings > 0, s):
            bindings += 1
            net.size[GROUNDINGS] += bindings % LITERALS_EACH == 0
            if net.size[GROUNDINGS] > limit:
                return TOO_MANY_GROUNDINGS
            if defining:
                status = _define(plans, batch, w, c, e, net, s)
            else:
                status = _append_binding(plans, batch, w, e, net, s)
            if status != OK:
                return int(status)
    return OK


@kernel_of("existentials", False)
def _some_binding(plans: Plans, batch: Batch, w: int, c: int, depth: int, s: Scratch) -> bool:
    """Tell whether an existential of a clause with query literals has a binding."""
    for e in range(plans.exist_start[c], plans.exist_start[c + 1]):
        if plans.exist_literal_start[e] < plans.exist_literal_start[e + 1]:
            first, stop = plans.exist_step_start[2 * e], plans.exist_step_start[2 * e + 1]
            if next_binding(plans, batch, w, first, stop, depth, False, s):
                return True
    return False


@kernel
def undone(plans: Plans, batch: Batch, w: int, c: int, depth: int, s: Scratch) -> bool:
    """Tell whether hard rules have made all literals of a clause false, so that the rules contradict."""
    if batch.listed[w] != FOUND:
        return False
    lost = plans.literal_start[c] < plans.literal_start[c + 1]
    return bool(lost or _some_binding(plans, batch, w, c, depth, s))
