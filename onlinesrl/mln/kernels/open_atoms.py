"""The open atoms of worlds in which hard rules make most atoms false: joins list the others."""

from onlinesrl.core.arrays import Bytes
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.mln.kernels.grounding_frames import (
    ALL,
    GROW_DATA,
    GROW_INDEX,
    OK,
    TOO_MANY_ATOMS,
    Batch,
    Plans,
    Scratch,
)
from onlinesrl.mln.kernels.joins import next_binding
from onlinesrl.mln.kernels.relations import deduplicate, index_relations

TRIES = 100
"""The most bindings to try, as a multiple of the most atoms of a world."""


@kernel
def _excluded(plans: Plans, batch: Batch, w: int, k: int, base: int, s: Scratch) -> bool:
    """Return whether a hard clause makes the bound atom of candidates k false."""
    part = plans.found_part[k] + 1
    while part < plans.found_part[k + 1]:
        first, stop = plans.part_step_start[part], plans.part_step_start[part + 1]
        after = part + 1
        while after < plans.found_part[k + 1] and plans.part_exists[after]:
            after += 1
        inner, began = base + stop - first, False
        while next_binding(plans, batch, w, first, stop, base, began, s):
            began, holds = True, False
            for e in range(part + 1, after):
                if not holds:
                    start, end = plans.part_step_start[e], plans.part_step_start[e + 1]
                    holds = next_binding(plans, batch, w, start, end, inner, False, s)
            if not holds:
                return True
        part = after
    return False


@kernel
def _find(plans: Plans, batch: Batch, w: int, k: int, s: Scratch, max_atoms: int) -> int:
    """Write the open atoms of one predicate, and its atoms in the evidence.

    Other true atoms are added as well. Such an example is bad, and its clauses show which rule the truth
    breaks.
    """
    q = plans.found_query[k]
    slot, part = plans.query_listed[q], plans.found_part[k]
    arity = plans.arity[slot]
    first, stop = plans.part_step_start[part], plans.part_step_start[part + 1]
    bindings, began = 0, False
    while next_binding(plans, batch, w, first, stop, 0, began, s):
        bindings, began = bindings + 1, True
        if bindings > TRIES * max_atoms or batch.count[w, slot] > max_atoms:
            return TOO_MANY_ATOMS
        if _excluded(plans, batch, w, k, stop - first, s):
            continue
        at = batch.start[w, slot] + arity * batch.count[w, slot]
        if at + arity > len(batch.data):
            return GROW_DATA
        for j in range(arity):
            batch.data[at + j] = s.variable[j]
        batch.count[w, slot] += 1
    for other in (plans.query_false[q], plans.query_evidence[q], plans.query_truth[q]):
        before = batch.count[w, slot]
        for i in range(batch.count[w, other]):  # the tuples whose constants the world has
            row, numbered = batch.start[w, other] + i * arity, True
            at = batch.start[w, slot] + arity * batch.count[w, slot]
            if at + arity > len(batch.data):
                return GROW_DATA
            for j in range(arity):
                batch.data[at + j] = batch.data[row + j]
                numbered &= batch.data[row + j] >= 0
            batch.count[w, slot] += numbered
        if 4 * batch.count[w, slot] > len(s.table):
            return GROW_INDEX
        if batch.count[w, slot] > before:
            deduplicate(batch, w, slot, arity, s.table)
    return OK


@kernel
def find_open(
    plans: Plans, batch: Batch, first: int, at: int, s: Scratch, max_atoms: int, restricted: Bytes
) -> tuple[int, int, int]:
    """List the open atoms of the worlds without lists, from ``data[at]`` on; mark these in ``restricted``.

    A world with too many atoms stays as it is. Returns OK or a GROW status, the world to resume with, and
    where its atoms begin.
    """
    for w in range(first, len(restricted)):
        if batch.listed[w] != ALL:
            continue
        status, stop = index_relations(plans, batch, w, s), at
        for k in range(len(plans.found_query)):
            slot = plans.query_listed[plans.found_query[k]]
            if status == OK and plans.found_again[k]:
                status = index_relations(plans, batch, w, s)
            if status == OK:
                batch.start[w, slot], batch.count[w, slot] = stop, 0
                status = _find(plans, batch, w, k, s, max_atoms)
                stop += plans.arity[slot] * batch.count[w, slot]
        if status == OK:
            restricted[w], at = 1, stop
            continue
        for slot in plans.query_listed:
            batch.count[w, slot] = 0
        if status != TOO_MANY_ATOMS:
            return status, w, at
    return OK, len(restricted), at
