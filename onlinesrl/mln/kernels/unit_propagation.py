"""Unit propagation, and completing a partial state by backtracking (Davis, Logemann & Loveland 1962).

The clauses whose ``required`` is above 0 and all groups must hold. Fixing an atom fixes the atoms that this
implies. ``_undo`` frees the atoms that were fixed last.
"""

from typing import Annotated

from onlinesrl.core.arrays import Bytes, Floats, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.clauses import Clauses
from onlinesrl.mln.kernels.ground_network import FALSE, OPEN, TRUE

COMPLETE, CONTRADICTION, GIVEN_UP = 0, 1, 2
BY_GAIN = 2
"""A preference: true if that satisfies more soft weight than false."""


class Trail(Frame):
    """Scratch memory: the fixed atoms in order, and each clause's true and false literals so far."""

    # the numbers of fixed atoms, of propagated atoms, and of decisions
    size: Annotated[Ints32, "3"]
    fixed: Annotated[Bytes, "atom"]  # OPEN, FALSE, TRUE
    atom: Annotated[Ints32, "atom"]
    n_true: Annotated[Ints32, "clause"]  # literals that are true, of the propagated atoms
    n_false: Annotated[Ints32, "clause"]
    decision: Annotated[Ints32, "atom"]  # its place
    resume: Annotated[Ints32, "atom"]  # where in the order it was made


FIXED, PROPAGATED, DECISIONS = 0, 1, 2


def trail(atoms: int, clauses: int) -> Trail:
    """Return an empty trail for so many atoms and clauses."""
    return Trail.zeros(atom=atoms, clause=clauses)


@kernel
def clear(t: Trail) -> None:
    """Unfix every atom."""
    t.size[:] = 0
    t.fixed[:] = OPEN
    t.n_true[:] = 0
    t.n_false[:] = 0


@kernel
def fix(t: Trail, atom: int, value: int) -> bool:
    """Fix an atom to FALSE or TRUE; returns False if it already has the other value."""
    if t.fixed[atom] == OPEN:
        t.fixed[atom] = value
        t.atom[t.size[FIXED]] = atom
        t.size[FIXED] += 1
        return True
    return t.fixed[atom] == value


@kernel
def fix_literal(t: Trail, literal: int) -> bool:
    """Make a literal true."""
    return fix(t, literal >> 1, FALSE if literal & 1 else TRUE)


@kernel
def _settle_group(cl: Clauses, t: Trail, atom: int) -> bool:
    """Propagate a newly fixed atom to the other atoms of its variable."""
    v = cl.var_of[atom]
    first, last = cl.var_start[v], cl.var_start[v + 1]
    if t.fixed[atom] == TRUE:
        for other in range(first, last):
            if other != atom and not fix(t, other, FALSE):
                return False
        return True
    if not cl.exactly[v]:
        return True
    open_atoms, candidate = 0, -1
    for other in range(first, last):
        if t.fixed[other] != FALSE:
            open_atoms += 1
            candidate = other
    return open_atoms > 1 or (open_atoms == 1 and fix(t, candidate, TRUE))


@kernel
def _settle_clause(cl: Clauses, t: Trail, c: int) -> bool:
    """Make the last open literal of a clause true; returns False if the clause cannot become true."""
    if t.n_false[c] < cl.start[c + 1] - cl.start[c] - 1:
        return True
    for p in range(cl.start[c], cl.start[c + 1]):
        literal = cl.literal[p]
        if t.fixed[literal >> 1] == OPEN:
            return fix_literal(t, literal)
    return t.n_false[c] < cl.start[c + 1] - cl.start[c]


@kernel
def propagate(cl: Clauses, t: Trail, required: Floats) -> bool:
    """Propagate all fixed atoms; returns False on a contradiction."""
    consistent = True
    while consistent and t.size[PROPAGATED] < t.size[FIXED]:
        atom = t.atom[t.size[PROPAGATED]]
        t.size[PROPAGATED] += 1
        true = 2 * atom + (t.fixed[atom] == FALSE)
        for p in range(cl.occ_start[true], cl.occ_start[true + 1]):
            t.n_true[cl.occ[p]] += 1
        false = true ^ 1
        for p in range(cl.occ_start[false], cl.occ_start[false + 1]):
            c = cl.occ[p]
            t.n_false[c] += 1
            if consistent and required[c] > 0 and t.n_true[c] == 0:
                consistent = _settle_clause(cl, t, c)
        consistent = consistent and _settle_group(cl, t, atom)
    return consistent


@kernel
def _undo(cl: Clauses, t: Trail, place: int) -> None:
    """Unfix the atoms fixed at this place and after."""
    while t.size[FIXED] > place:
        t.size[FIXED] -= 1
        atom = t.atom[t.size[FIXED]]
        if t.size[FIXED] < t.size[PROPAGATED]:
            t.size[PROPAGATED] -= 1
            true = 2 * atom + (t.fixed[atom] == FALSE)
            for p in range(cl.occ_start[true], cl.occ_start[true + 1]):
                t.n_true[cl.occ[p]] -= 1
            false = true ^ 1
            for p in range(cl.occ_start[false], cl.occ_start[false + 1]):
                t.n_false[cl.occ[p]] -= 1
        t.fixed[atom] = OPEN


@kernel
def units(cl: Clauses, t: Trail, required: Floats) -> bool:
    """Fix the atoms of required unit clauses and of groups of one atom, before propagation."""
    for c in range(len(cl.weight)):
        if required[c] > 0 and cl.start[c + 1] - cl.start[c] < 2 and not _settle_clause(cl, t, c):
            return False
    for v in range(len(cl.exactly)):
        only = cl.exactly[v] and cl.var_start[v + 1] - cl.var_start[v] == 1
        if only and not fix(t, cl.var_start[v], TRUE):
            return False
    return True


@kernel
def gain_of_truth(cl: Clauses, t: Trail, atom: int) -> float:
    """Return the soft weight of open clauses that a true atom satisfies, less that of a false one."""
    gain = 0.0
    for p in range(cl.occ_start[2 * atom], cl.occ_start[2 * atom + 1]):
        c = cl.occ[p]
        gain += cl.weight[c] if c >= cl.hard and t.n_true[c] == 0 else 0.0
    for p in range(cl.occ_start[2 * atom + 1], cl.occ_start[2 * atom + 2]):
        c = cl.occ[p]
        gain -= cl.weight[c] if c >= cl.hard and t.n_true[c] == 0 else 0.0
    return gain


@kernel
def _backtrack(cl: Clauses, t: Trail, required: Floats, limit: int) -> int:
    """Reverse the last decision whose other value is not contradictory; returns the number of steps.

    0: no decision remains. More than ``limit``: the search gave up.
    """
    steps = 0
    while t.size[DECISIONS] > 0 and steps <= limit:
        steps += 1
        t.size[DECISIONS] -= 1
        place = t.decision[t.size[DECISIONS]]
        atom = t.atom[place]
        other = FALSE if t.fixed[atom] == TRUE else TRUE
        _undo(cl, t, place)
        if fix(t, atom, other) and propagate(cl, t, required):
            return steps
    return 0 if steps <= limit else limit + 1


@kernel
def complete(
    cl: Clauses, t: Trail, required: Floats, order: Ints32, preferred: Bytes, limit: int
) -> int:
    """Fix every atom so that the required clauses and the groups hold.

    Atoms are decided in ``order``, each as ``preferred``, 0, 1 or BY_GAIN, unless earlier atoms force it.
    Returns COMPLETE; CONTRADICTION, if there is no such state; or GIVEN_UP, after ``limit`` reversals.
    """
    clear(t)
    if not units(cl, t, required) or not propagate(cl, t, required):
        return CONTRADICTION
    i = 0
    while i < len(order):
        atom = order[i]
        i += 1
        if t.fixed[atom] != OPEN:
            continue
        true = preferred[atom] == 1
        if preferred[atom] == BY_GAIN:
            true = gain_of_truth(cl, t, atom) > 0
        t.decision[t.size[DECISIONS]], t.resume[t.size[DECISIONS]] = t.size[FIXED], i
        t.size[DECISIONS] += 1
        fix(t, atom, TRUE if true else FALSE)
        if propagate(cl, t, required):
            continue
        steps = _backtrack(cl, t, required, limit)
        if steps == 0:
            return CONTRADICTION
        if steps > limit:
            return GIVEN_UP
        limit -= steps
        i = t.resume[t.size[DECISIONS]]
    return COMPLETE
