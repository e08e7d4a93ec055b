"""Ground rows to linear forms: atoms become variables or numbers, trivial forms are left out."""

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

ACTIVE = 1e-7
"""A hinge or inequality whose form cannot exceed this is never active."""


class GroundRows(Frame):
    """Ground rows; atom -1 has value 0."""

    start: Ints  # [row + 1]
    atom: Ints32  # [entry]
    coefficient: Floats  # [entry]
    constant: Floats  # [row]
    world: Ints32  # [row]


class Forms(Frame):
    """Linear forms; ``start[0]`` is 0."""

    start: Ints  # [row + 1]
    variable: Ints32  # [entry]
    coefficient: Floats  # [entry]
    constant: Floats  # [row]
    world: Ints32  # [row]


@kernel
def _substitute(
    rows: GroundRows, i: int, value: Floats, variable: Ints32, place: Ints, out: Forms, first: int
) -> tuple[int, float]:
    """Write the distinct variables of row i from entry ``first``; return the end and the constant."""
    end, constant = first, rows.constant[i]
    for e in range(rows.start[i], rows.start[i + 1]):
        a, q = rows.atom[e], rows.coefficient[e]
        if a < 0:
            continue
        v = variable[a]
        if v < 0:
            constant += q * value[a]
        elif place[v] >= 0:
            out.coefficient[place[v]] += q
        else:
            place[v] = end
            out.variable[end] = v
            out.coefficient[end] = q
            end += 1
    for e in range(first, end):
        place[out.variable[e]] = -1
    return end, constant


@kernel
def _drop_zeros(out: Forms, first: int, end: int, maximum: float) -> tuple[int, float]:
    """Remove zero entries; return their end, and the maximum of the form over the box."""
    new_end = first
    for e in range(first, end):
        if out.coefficient[e] != 0.0:
            out.variable[new_end] = out.variable[e]
            out.coefficient[new_end] = out.coefficient[e]
            maximum += max(out.coefficient[e], 0.0)
            new_end += 1
    return new_end, maximum


@kernel
def assemble(
    rows: GroundRows,
    value: Floats,
    variable: Ints32,
    equality: bool,
    place: Ints,
    out: Forms,
    inactive: Ints,
    broken: Ints,
) -> int:
    """Write the forms ``constant + sum coefficient * atom`` of ground rows; return their number.

    ``value`` [atom] is that of an observed atom, ``variable`` [atom] that of a target, else -1. A row
    without a variable is left out; ``broken`` [world] is the first such row whose form is above 0 (for
    an equality, not 0). A row that is never active is left out and counted in ``inactive`` [world].
    ``place`` [variable] is working memory, -1 before and after.
    """
    n = 0
    for i in range(len(rows.constant)):
        first = out.start[n]
        end, constant = _substitute(rows, i, value, variable, place, out, first)
        end_of_row, maximum = _drop_zeros(out, first, end, constant)
        w = rows.world[i]
        if end_of_row == first:
            wrong = abs(constant) if equality else constant
            if wrong > ACTIVE and broken[w] < 0:
                broken[w] = i
        elif equality or maximum > ACTIVE:
            out.constant[n] = constant
            out.world[n] = w
            n += 1
            out.start[n] = end_of_row
        else:
            inactive[w] += 1
    return n
