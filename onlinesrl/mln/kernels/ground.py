"""Grounding of one world: the rows of all clauses, and the check that its truth is one of its states."""

from onlinesrl.core.arrays import Bytes
from onlinesrl.core.jit.decorators import kernel, kernel_of
from onlinesrl.mln.kernels.atoms import find_atom, number_atoms, radix_key
from onlinesrl.mln.kernels.ground_network import (
    ATOMS,
    BARE,
    DEFINED,
    FALSE,
    GROUNDINGS,
    KEYED,
    LITERALS,
    OPEN,
    ROWS,
    SETTLED,
    TRUE,
    UNSEEN,
    VARIABLES,
    Network,
    broken_group,
    define,
    violated_hard,
)
from onlinesrl.mln.kernels.grounding_frames import (
    ALL,
    EVERY,
    EVIDENCE_BREAKS_RULE,
    FOUND,
    GROW_ATOMS,
    GROW_ROWS,
    LITERALS_EACH,
    OK,
    SATISFIED,
    TOO_MANY_GROUNDINGS,
    TRUTH_BREAKS_GROUP,
    TRUTH_BREAKS_RULE,
    TRUTH_NOT_OPEN,
    WHOLLY,
    Batch,
    Plans,
    Scratch,
)
from onlinesrl.mln.kernels.joins import next_binding, shared_constant, term_value
from onlinesrl.mln.kernels.relations import index_relations


@kernel
def literal_atom(
    plans: Plans, batch: Batch, w: int, x: int, run: int, net: Network, s: Scratch
) -> tuple[int, int]:
    """Return the atom of a query literal, -1 if it is not open, and its step in a run.

    The variables are bound, but for ``run``, which has its first constant; -1: there is no run.
    """
    q, key, step = plans.literal_query[x], 0, 0
    for p in range(plans.literal_term_start[x], plans.literal_term_start[x + 1]):
        stride = net.query_stride[plans.query_start[q] + p - plans.literal_term_start[x]]
        if plans.literal_term[p] == run:
            step += stride
        else:
            key += term_value(s, plans.literal_term[p]) * stride
    return find_atom(batch, w, q, key, net), step


@kernel
def _emit_literals(
    plans: Plans, batch: Batch, w: int, c: int, run: int, net: Network, s: Scratch
) -> int:
    """Write the open literals of a ground clause; returns their number, -1 if the clause is true."""
    first = net.size[LITERALS]
    at = first
    for x in range(plans.literal_start[c], plans.literal_start[c + 1]):
        atom, step = literal_atom(plans, batch, w, x, run, net, s)
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
def emit_key(
    plans: Plans, batch: Batch, w: int, c: int, run: int, row: int, net: Network, s: Scratch
) -> None:
    """Write the key of a row's weights, their step and their offset in the block, by template constants."""
    net.row_offset[row], net.row_known[row] = 0, BARE
    first = plans.template_start[c]
    for j in range(net.row_key.shape[1]):
        net.row_key[row, j] = 0
    for p in range(first, plans.template_start[c + 1]):
        if plans.template_variable[p] == run:
            net.row_step[row] = 1
            continue
        constant = s.variable[plans.template_variable[p]]
        kind = plans.template_type[p]
        if batch.member_start[w, kind] >= 0 and constant >= plans.declared[kind]:
            shared = shared_constant(batch, kind, constant)
            if shared >= 0:
                constant = batch.shared_stream[batch.shared_start[kind] + shared]
            else:
                constant = batch.stream[batch.member_start[w, kind] - 1 - shared]
        if 0 <= constant < plans.declared[kind] and plans.template_stride[p] > 0:
            net.row_offset[row] += constant * plans.template_stride[p]
            continue
        inside = plans.template_stride[p] > 0 and constant >= 0
        net.row_key[row, p - first] = constant + inside
        net.row_known[row] = UNSEEN if constant < 0 else max(net.row_known[row], KEYED)


@kernel_of("values", 1.0)
def _value(plans: Plans, batch: Batch, c: int, s: Scratch) -> float:
    """Return the product of the values of a ground clause's numeric atoms."""
    value = 1.0
    for p in range(plans.value_start[c], plans.value_start[c + 1]):
        value *= batch.value[s.variable[plans.value_variable[p]]]
    return value


# existential quantifiers: one literal per binding, or an atom defined as a conjunction ---------------


@kernel
def _conjunction(
    plans: Plans, batch: Batch, w: int, e: int, at: int, net: Network, s: Scratch
) -> int:
    """Write the open literals of an existential's binding; returns how many, -1: the binding is false."""
    n = 0
    for x in range(plans.exist_literal_start[e], plans.exist_literal_start[e + 1]):
        atom, _ = literal_atom(plans, batch, w, x, -1, net, s)
        positive = plans.literal_positive[x]
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
def _undone(plans: Plans, batch: Batch, w: int, c: int, depth: int, s: Scratch) -> bool:
    """Tell whether hard rules have made all literals of a clause false, so that the rules contradict."""
    if batch.listed[w] != FOUND:
        return False
    lost = plans.literal_start[c] < plans.literal_start[c + 1]
    return bool(lost or _some_binding(plans, batch, w, c, depth, s))


# rows --------------------------------------------------------------------------------------------


@kernel
def emit(
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
    net.row_factor[row] = plans.sign[c] * _value(plans, batch, c, s)
    if not plans.hard[c]:
        emit_key(plans, batch, w, c, run, row, net, s)
    net.lit_start[row + 1] = net.size[LITERALS]
    net.clause_start[row + 1] = net.clause_start[row] + length
    net.size[ROWS] += 1
    if net.size[SETTLED] < net.size[ATOMS]:
        return _each_existential(plans, batch, w, c, depth, True, net, s, limit)
    return OK


@kernel
def _copy(plans: Plans, c: int, outer: int, copies: int, net: Network) -> int:
    """Copy the last row, of a variable's first constant, for its other constants; OK or GROW_ROWS."""
    row, at = net.size[ROWS] - 1, net.size[LITERALS]
    first, literals = plans.literal_start[c], at - net.lit_start[row]
    more = at + (copies - 1) * literals
    if row + copies + 1 > len(net.row_len) or more > len(net.lit_atom):
        return GROW_ROWS
    offset = 0
    for p in range(plans.template_start[c], plans.template_start[c + 1]):
        if plans.template_variable[p] == outer:
            offset += plans.template_stride[p]
    for i in range(1, copies):  # the rows, then their literals
        new = net.size[ROWS]
        net.row_len[new], net.row_clause[new] = net.row_len[row], net.row_clause[row]
        net.row_weight[new], net.row_step[new] = net.row_weight[row], net.row_step[row]
        net.row_factor[new], net.row_known[new] = net.row_factor[row], net.row_known[row]
        net.row_offset[new] = net.row_offset[row] + i * offset
        for j in range(net.row_key.shape[1]):
            net.row_key[new, j] = net.row_key[row, j]
        net.lit_start[new + 1] = net.lit_start[new] + net.lit_start[row + 1] - net.lit_start[row]
        net.clause_start[new + 1] = net.clause_start[new] + net.row_len[row]
        net.size[ROWS] += 1
    for x in range(first, first + literals):
        step = 0
        for p in range(plans.literal_term_start[x], plans.literal_term_start[x + 1]):
            if plans.literal_term[p] == outer:
                argument = (
                    plans.query_start[plans.literal_query[x]] + p - plans.literal_term_start[x]
                )
                step += net.query_stride[argument]
        source = net.lit_start[row] + x - first
        for i in range(1, copies):
            new = source + i * literals
            net.lit_atom[new] = net.lit_atom[source] + i * step
            net.lit_step[new] = net.lit_step[source]
            net.lit_positive[new] = net.lit_positive[source]
    net.size[LITERALS] = more
    return OK


@kernel
def _may_run(plans: Plans, batch: Batch, w: int, c: int, step: int) -> bool:
    """Tell whether a DOMAIN step may become a run; of a template variable all constants must be declared."""
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
def _ground_clause(
    plans: Plans, batch: Batch, w: int, c: int, net: Network, s: Scratch, limit: int
) -> int:
    """Run the join plan of one clause in one world and write its rows."""
    variant = 2 * c + (batch.listed[w] != ALL)
    first, steps = plans.step_start[variant], plans.step_start[variant + 1]
    steps -= first
    run, length, outer, copies = -1, 1, -1, 1
    if steps > 0 and not batch.listed[w] and _may_run(plans, batch, w, c, first + steps - 1):
        steps -= 1
        run = plans.term[plans.term_start[first + steps]]
        length = batch.domain[w, plans.slot[first + steps]]
        if steps > 0 and _may_run(plans, batch, w, c, first + steps - 1):
            steps -= 1
            outer = plans.term[plans.term_start[first + steps]]
            copies = batch.domain[w, plans.slot[first + steps]]
            s.variable[outer] = 0
    began = False
    while next_binding(plans, batch, w, first, first + steps, 0, began, s):
        began = True
        net.size[GROUNDINGS] += length * copies
        if net.size[GROUNDINGS] > limit:
            return TOO_MANY_GROUNDINGS
        rows = net.size[ROWS]
        status = emit(plans, batch, w, c, run, length, steps, net, s, limit)
        if status == OK and copies > 1 and net.size[ROWS] > rows:
            status = _copy(plans, c, outer, copies, net)
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
        status = number_atoms(plans, batch, w, net, max_atoms)
    if status != OK:
        return status, -1
    net.lit_start[0], net.clause_start[0] = 0, 0
    net.left_out[:] = 0
    for c in range(len(plans.hard)):
        rows, literals, groundings = net.size[ROWS], net.size[LITERALS], net.size[GROUNDINGS]
        most = min(limit, groundings + plans.eager[c])
        status = _ground_clause(plans, batch, w, c, net, s, most)
        if status == TOO_MANY_GROUNDINGS and plans.eager[c] < EVERY:
            net.size[ROWS], net.size[LITERALS], net.size[GROUNDINGS] = rows, literals, groundings
            net.left_out[c], status = 1, OK
        if status != OK:
            return status, c
    return OK, -1


@kernel
def _named_atom(plans: Plans, batch: Batch, w: int, q: int, slot: int, i: int, net: Network) -> int:
    """Return the atom of tuple i of the truth; -1: it is not open, -2: the world lacks a constant of it."""
    row = batch.start[w, slot] + i * plans.arity[slot]
    for j in range(row, row + plans.arity[slot]):
        if batch.data[j] < 0:
            return -2
    return find_atom(batch, w, q, radix_key(plans, batch, w, q, slot, i, net), net)


@kernel
def partly_labelled(plans: Plans, batch: Batch, w: int) -> bool:
    """Tell whether a labelled world has unlabelled atoms."""
    for q in range(len(plans.query_unlabelled)):
        if batch.count[w, plans.query_unlabelled[q]] != 0:
            return True
    return False


@kernel
def _read_truth(plans: Plans, batch: Batch, w: int, net: Network, truth: Bytes) -> tuple[int, int]:
    """Write the true state; returns a status and its detail, the tuple, variable or clause at fault."""
    truth[: net.size[ATOMS]] = 0
    for a in range(net.size[ATOMS]):
        truth[a] = net.fixed[a] == TRUE
    for q in range(len(plans.query_truth)):
        if batch.count[w, plans.query_unlabelled[q]] == WHOLLY:
            for a in range(net.query_base[q], net.query_base[q + 1]):
                net.latent[a] = net.fixed[a] == OPEN
        for slot, value in ((plans.query_truth[q], 1), (plans.query_denied[q], 0)):
            for i in range(batch.count[w, slot]):
                atom = _named_atom(plans, batch, w, q, slot, i, net)
                if atom == -1 and value == 0 and batch.listed[w] == FOUND:
                    continue  # hard rules make it false, too
                if atom < 0 or net.fixed[atom] == (FALSE if value else TRUE):
                    return TRUTH_NOT_OPEN, (slot << 32) | i
                truth[atom], net.latent[atom] = value, 0
    if partly_labelled(plans, batch, w):
        for q in range(len(plans.query_unlabelled)):
            slot = plans.query_unlabelled[q]
            for i in range(batch.count[w, slot]):
                atom = _named_atom(plans, batch, w, q, slot, i, net)
                if atom == -1 and batch.listed[w] == FOUND:
                    continue  # hard rules make it false
                if atom < 0 or net.fixed[atom] != OPEN:
                    return TRUTH_NOT_OPEN, (slot << 32) | i
                net.latent[atom] = 1
        return OK, -1
    define(net, truth)
    v = broken_group(net, truth)
    if v >= 0:
        return TRUTH_BREAKS_GROUP, v
    c = violated_hard(net, truth)
    if c >= 0:
        return TRUTH_BREAKS_RULE, c
    return OK, -1


@kernel
def ground_labelled(
    plans: Plans,
    batch: Batch,
    w: int,
    net: Network,
    s: Scratch,
    truth: Bytes,
    max_atoms: int,
    limit: int,
) -> tuple[int, int]:
    """Ground a world and write its true state, if it has one; returns a status and its detail."""
    status, detail = ground_world(plans, batch, w, net, s, max_atoms, limit)
    if status == OK and batch.labelled[w]:
        status, detail = _read_truth(plans, batch, w, net, truth)
    return status, detail
