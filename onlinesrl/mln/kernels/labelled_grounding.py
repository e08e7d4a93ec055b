"""A world with its truth: what is grounded, and whether the truth is one of its states."""

from onlinesrl.core.arrays import Bytes
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.mln.kernels.atoms import find_atom, radix_key
from onlinesrl.mln.kernels.ground import ground_world
from onlinesrl.mln.kernels.ground_network import (
    ATOMS,
    FALSE,
    TRUE,
    Network,
    broken_group,
    define,
    violated_hard,
)
from onlinesrl.mln.kernels.grounding_frames import (
    FOUND,
    OK,
    TRUTH_BREAKS_GROUP,
    TRUTH_BREAKS_RULE,
    TRUTH_NOT_OPEN,
    Batch,
    Plans,
    Scratch,
)


@kernel
def _named_atom(plans: Plans, batch: Batch, w: int, q: int, slot: int, i: int, net: Network) -> int:
    """Return the atom of tuple i of the truth; -1: it is not open, -2: not of the world's constants."""
    row = batch.start[w, slot] + i * plans.arity[slot]
    for j in range(row, row + plans.arity[slot]):
        if batch.data[j] < 0:
            return -2
    return find_atom(batch, w, q, radix_key(plans, batch, w, q, slot, i, net), net)


@kernel
def _read_truth(plans: Plans, batch: Batch, w: int, net: Network, truth: Bytes) -> tuple[int, int]:
    """Write the true state; returns a status and what it is about."""
    truth[: net.size[ATOMS]] = 0
    for a in range(net.size[ATOMS]):
        truth[a] = net.fixed[a] == TRUE
    for q in range(len(plans.query_truth)):
        for slot, value in ((plans.query_truth[q], 1), (plans.query_denied[q], 0)):
            for i in range(batch.count[w, slot]):
                atom = _named_atom(plans, batch, w, q, slot, i, net)
                if atom == -1 and value == 0 and batch.listed[w] == FOUND:
                    continue  # hard rules say so, too
                if atom < 0 or net.fixed[atom] == (FALSE if value else TRUE):
                    return TRUTH_NOT_OPEN, (slot << 32) | i
                truth[atom] = value
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
    """Ground a world and write its true state, where it has one; a status and what that is about."""
    status, detail = ground_world(plans, batch, w, net, s, max_atoms, limit)
    if status == OK and batch.labelled[w]:
        status, detail = _read_truth(plans, batch, w, net, truth)
    return status, detail
