"""Ground rows to linear forms: atoms become variables or numbers, trivial forms are left out."""

from typing import Annotated

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

ROUNDING = 1e-7
"""By how much sums of observed values may violate a hard rule."""


class Forms(Frame):
    """Linear forms of atoms, of which -1 has value 0, or of variables; ``start[0]`` is 0."""

    start: Annotated[Ints, "row + 1"]
    variable: Annotated[Ints32, "entry"]  # or atom
    coefficient: Annotated[Floats, "entry"]
    constant: Annotated[Floats, "row"]
    world: Annotated[Ints32, "row"]


@kernel
def assemble(
    rows: Forms,
    value: Floats,
    variable: Ints32,
    equality: bool,
    tolerance: float,
    place: Ints,
    out: Forms,
    inactive: Ints,
    broken: Ints,
) -> int:
    """Write forms of atoms as forms of variables; return their number.

    ``value`` [atom] is that of an observed atom, ``variable`` [atom] that of a target, else -1. A row
    without a variable is left out; ``broken`` [world] is the first such row whose form is above the
    ``tolerance`` (for an equality, its absolute value). A row whose form is never above the tolerance is left
    out and counted in ``inactive`` [world]. ``place`` [variable] is working memory, -1 before and after.
    """
    n = 0
    for i in range(len(rows.constant)):
        first, constant, w = out.start[n], rows.constant[i], rows.world[i]
        end = first
        for e in range(rows.start[i], rows.start[i + 1]):
            a, q = rows.variable[e], rows.coefficient[e]
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
        end_of_row, maximum = first, constant  # without zeros, and over the box
        for e in range(first, end):
            place[out.variable[e]] = -1
            if out.coefficient[e] != 0.0:
                out.variable[end_of_row] = out.variable[e]
                out.coefficient[end_of_row] = out.coefficient[e]
                maximum += max(out.coefficient[e], 0.0)
                end_of_row += 1
        if end_of_row == first:
            wrong = abs(constant) if equality else constant
            if wrong > tolerance and broken[w] < 0:
                broken[w] = i
        elif equality or maximum > tolerance:
            out.constant[n] = constant
            out.world[n] = w
            n += 1
            out.start[n] = end_of_row
        else:
            inactive[w] += 1
    return n
