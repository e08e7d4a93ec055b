"""Which atoms some best state has at a known value, because no clause asks for the other value."""

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel

OPEN = 2
"""The value of an atom that is not fixed."""


@kernel
def _fix(a: int, demand: Ints32, grouped: Bytes, value: Bytes) -> bool:
    """Fix an atom where one value is in no demand; an atom of a group can only be fixed to false."""
    if value[a] != OPEN or grouped[a] == 2:
        return False
    if demand[a, 1] == 0:
        value[a] = 0
    elif demand[a, 0] == 0 and not grouped[a]:
        value[a] = 1
    return value[a] != OPEN


@kernel
def fix_pure_literals(
    start: Ints,
    literals: Ints32,
    occurrence_start: Ints,
    occurrence: Ints,
    live: Bytes,
    demand: Ints32,
    grouped: Bytes,
    value: Bytes,
    queue: Ints32,
) -> None:
    """Write to ``value``, [atom], 0 or 1 for the atoms that are fixed; it is OPEN for all atoms at first.

    ``literals[start[c] : start[c + 1]]`` are a clause's, ``occurrence[occurrence_start[a] :]`` the clauses of
    an atom. ``live``, [clause], is 1 where the clause should be true, 2 where it should be false, and becomes
    0 where a fixed atom makes it true. ``demand``, [atom, value], counts the live clauses and the bonus that
    ask for the value. ``grouped``, [atom], is 1 where at most one atom of its group is true, 2 where exactly
    one is. ``queue``, [atom], is scratch memory.
    """
    size = 0
    for a in range(len(value)):
        if _fix(a, demand, grouped, value):
            queue[size] = a
            size += 1
    for place in range(len(value)):
        if place == size:
            return
        a = queue[place]
        for i in range(occurrence_start[a], occurrence_start[a + 1]):
            c = occurrence[i]
            if live[c] != 1:
                continue
            live[c] = 0
            for k in range(start[c], start[c + 1]):
                b = abs(literals[k]) - 1
                demand[b, int(literals[k] > 0)] -= 1
                if _fix(b, demand, grouped, value):
                    queue[size] = b
                    size += 1
