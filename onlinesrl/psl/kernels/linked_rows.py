"""The rows of a hinge-loss model that come and go, linked by variable, and the terms of its duality gap.

The entries of a row lie together. The entries of a variable form a doubly linked list, so that a row is
added and removed at the cost of its entries.
"""

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.psl.kernels.potentials import AT_MOST, clip


class LinkedRows(Frame):
    """Rows with their conjugates (``psl.inference.dual``), values, duals, and terms of the gap."""

    variable: Ints32  # [entry]
    coefficient: Floats  # [entry]
    row: Ints32  # [entry]
    following: Ints32  # [entry] the next entry of the same variable, or -1
    preceding: Ints32  # [entry]
    first: Ints32  # [variable] its first entry, or -1
    start: Ints  # [row]
    stop: Ints  # [row]
    constant: Floats  # [row]
    low: Floats  # [row]
    high: Floats  # [row]
    curvature: Floats  # [row]
    weight_index: Ints  # [row]
    power: Bytes  # [row]
    kind: Bytes  # [row]
    dual: Floats  # [row] u
    energy: Floats  # [row]
    row_gap: Floats  # [row]
    excess: Floats  # [row] the violation of a constraint
    y: Floats  # [variable]
    reduced_cost: Floats  # [variable] r = Q' u
    variable_gap: Floats  # [variable]


class Marks(Frame):
    """Working memory: rows and variables are marked by the number of the search that reached them."""

    row: Ints  # [row]
    variable: Ints  # [variable]
    number: Ints32  # [variable] of an active variable in its part, -1 for one beside it
    around: Ints  # [row] the rows that the search reached
    beside: Ints  # [variable] the variables that it reached


class Part(Frame):
    """Rows over active variables only; the values of the others are in the constants."""

    start: Ints  # [row + 1]
    variable: Ints32  # [entry]
    coefficient: Floats  # [entry]
    constant: Floats  # [row]


@kernel
def form(rows: LinkedRows, i: int) -> float:
    """Return l_i(y)."""
    total = rows.constant[i]
    for e in range(rows.start[i], rows.stop[i]):
        total += rows.coefficient[e] * rows.y[rows.variable[e]]
    return total


@kernel
def slope(rows: LinkedRows, i: int, value: float) -> float:
    """Return the dual that is best for row i alone where its form has this value."""
    if rows.curvature[i] > 0.0:
        return clip(value / rows.curvature[i], rows.low[i], rows.high[i])
    return rows.high[i] if value > 0.0 else rows.low[i]


@kernel
def insert(rows: LinkedRows, numbers: Ints) -> None:
    """Link rows, each with the dual that is best for it alone; 0 for a constraint."""
    for i in numbers:
        u = 0.0 if rows.kind[i] >= AT_MOST else slope(rows, i, form(rows, i))
        rows.dual[i] = u
        rows.energy[i] = rows.row_gap[i] = rows.excess[i] = 0.0
        for e in range(rows.start[i], rows.stop[i]):
            j = rows.variable[e]
            rows.reduced_cost[j] += u * rows.coefficient[e]
            rows.row[e] = i
            rows.preceding[e] = -1
            rows.following[e] = rows.first[j]
            if rows.first[j] >= 0:
                rows.preceding[rows.first[j]] = e
            rows.first[j] = e


@kernel
def remove(rows: LinkedRows, numbers: Ints) -> tuple[float, float]:
    """Unlink rows; return their energy and gap."""
    energy, gap = 0.0, 0.0
    for i in numbers:
        energy += rows.energy[i]
        gap += rows.row_gap[i]
        rows.excess[i] = 0.0
        for e in range(rows.start[i], rows.stop[i]):
            j = rows.variable[e]
            rows.reduced_cost[j] -= rows.dual[i] * rows.coefficient[e]
            before, after = rows.preceding[e], rows.following[e]
            if before >= 0:
                rows.following[before] = after
            else:
                rows.first[j] = after
            if after >= 0:
                rows.preceding[after] = before
    return energy, gap


@kernel
def reach(rows: LinkedRows, active: Ints, mark: int, marks: Marks) -> tuple[int, int]:
    """Find the rows around active variables, and the variables beside these.

    Returns how many there are in ``marks.around`` and ``marks.beside``. Numbers the active variables.
    """
    n_rows, n_beside = 0, 0
    for k in range(len(active)):
        marks.variable[active[k]] = mark
        marks.number[active[k]] = k
    for j in active:
        e = rows.first[j]
        while e >= 0:
            i = rows.row[e]
            if marks.row[i] != mark:
                marks.row[i] = mark
                marks.around[n_rows] = i
                n_rows += 1
                for other in range(rows.start[i], rows.stop[i]):
                    v = rows.variable[other]
                    if marks.variable[v] != mark:
                        marks.variable[v] = mark
                        marks.number[v] = -1
                        marks.beside[n_beside] = v
                        n_beside += 1
            e = rows.following[e]
    return n_rows, n_beside


@kernel
def variables_of(rows: LinkedRows, numbers: Ints, mark: int, marked: Ints, out: Ints) -> int:
    """Write the variables of rows, each once; return how many there are."""
    n = 0
    for i in numbers:
        for e in range(rows.start[i], rows.stop[i]):
            j = rows.variable[e]
            if marked[j] != mark:
                marked[j] = mark
                out[n] = j
                n += 1
    return n


@kernel
def compare(
    rows: LinkedRows,
    numbers: Ints,
    is_row: Bytes,
    differs: Bytes,
    start: Ints,
    variable: Ints32,
    coefficient: Floats,
    constant: Floats,
    weight_index: Ints,
    power: Bytes,
    kind: Bytes,
) -> None:
    """Tell which rows of a model differ from those of these numbers, or are new."""
    for k in range(len(numbers)):
        i = numbers[k]
        same = is_row[i] != 0 and rows.constant[i] == constant[k] and rows.kind[i] == kind[k]
        same = same and rows.weight_index[i] == weight_index[k] and rows.power[i] == power[k]
        size = start[k + 1] - start[k]
        same = same and rows.stop[i] - rows.start[i] == size
        e = 0
        while same and e < size:
            own, other = rows.start[i] + e, start[k] + e
            same = rows.variable[own] == variable[other]
            same = same and rows.coefficient[own] == coefficient[other]
            e += 1
        differs[k] = not same


@kernel
def restrict(rows: LinkedRows, around: Ints, number: Ints32, part: Part) -> None:
    """Write rows over the active variables."""
    end = 0
    part.start[0] = 0
    for k in range(len(around)):
        i = around[k]
        constant = rows.constant[i]
        for e in range(rows.start[i], rows.stop[i]):
            j = rows.variable[e]
            if number[j] >= 0:
                part.variable[end] = number[j]
                part.coefficient[end] = rows.coefficient[e]
                end += 1
            else:
                constant += rows.coefficient[e] * rows.y[j]
        part.constant[k] = constant
        part.start[k + 1] = end


@kernel
def set_duals(rows: LinkedRows, numbers: Ints, dual: Floats) -> None:
    """Set the duals of rows, and with them the reduced costs."""
    for k in range(len(numbers)):
        i = numbers[k]
        change = clip(dual[k], rows.low[i], rows.high[i]) - rows.dual[i]
        rows.dual[i] += change
        for e in range(rows.start[i], rows.stop[i]):
            rows.reduced_cost[rows.variable[e]] += change * rows.coefficient[e]


@kernel
def refresh_rows(rows: LinkedRows, numbers: Ints) -> tuple[float, float]:
    """Compute the terms of rows; return by how much energy and gap change."""
    energy, gap = 0.0, 0.0
    for i in numbers:
        value, u, curvature = form(rows, i), rows.dual[i], rows.curvature[i]
        best = slope(rows, i, value)
        new_energy, new_gap = 0.0, 0.5 * curvature * u * u - u * value
        if rows.kind[i] >= AT_MOST:
            new_gap += abs(u * value)
            rows.excess[i] = abs(value) if np.isinf(best) else 0.0
        else:
            new_energy = best * value - 0.5 * curvature * best * best
            new_gap += new_energy
        energy += new_energy - rows.energy[i]
        gap += new_gap - rows.row_gap[i]
        rows.energy[i] = new_energy
        rows.row_gap[i] = new_gap
    return energy, gap


@kernel
def refresh_variables(rows: LinkedRows, numbers: Ints) -> float:
    """Compute the terms of variables; return by how much the gap changes."""
    gap = 0.0
    for j in numbers:
        r, y = rows.reduced_cost[j], rows.y[j]
        new = max(r * y, r * (y - 1.0))
        gap += new - rows.variable_gap[j]
        rows.variable_gap[j] = new
    return gap
