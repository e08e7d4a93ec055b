"""The rows of a hinge-loss model that come and go, linked by variable, and the terms of its duality gap.

The entries of a row lie together. The entries of a variable form a doubly linked list, so that a row is
added and removed at the cost of its entries.
"""

from typing import Annotated

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.psl.kernels.potentials import AT_MOST, HingeRows, clip

FIRST = 0.5
"""Gaps of at least this share of the largest are seen to first."""
WORK = 8
"""How often rows are looked at, before descent along single variables is too slow."""
BLOCK = 512
"""The violations of so many rows have one maximum, which is kept."""
KINK = 2
"""Marks a variable along which the energy has a kink."""


class LinkedRows(Frame):
    """Rows with their conjugates (``psl.inference.dual``), values, duals, and terms of the gap."""

    variable: Annotated[Ints32, "entry"]
    coefficient: Annotated[Floats, "entry"]
    row: Annotated[Ints32, "entry"]
    following: Annotated[Ints32, "entry"]  # the next entry of the same variable, or -1
    preceding: Annotated[Ints32, "entry"]
    first: Annotated[Ints32, "variable"]  # its first entry, or -1
    start: Annotated[Ints, "row"]
    stop: Annotated[Ints, "row"]
    constant: Annotated[Floats, "row"]
    low: Annotated[Floats, "row"]
    high: Annotated[Floats, "row"]
    curvature: Annotated[Floats, "row"]
    weight_index: Annotated[Ints, "row"]
    power: Annotated[Bytes, "row"]
    kind: Annotated[Bytes, "row"]
    dual: Annotated[Floats, "row"]  # u
    energy: Annotated[Floats, "row"]
    row_gap: Annotated[Floats, "row"]
    excess: Annotated[Floats, "row"]  # the violation of a constraint
    worst: Annotated[Floats, "block"]  # the largest of them
    is_row: Annotated[Bytes, "row"]  # whether there is a row of this number
    is_variable: Annotated[Bytes, "variable"]
    replaced: Annotated[Ints, "variable"]  # the last step that gave it another value
    y: Annotated[Floats, "variable"]
    reduced_cost: Annotated[Floats, "variable"]  # r = Q' u
    variable_gap: Annotated[Floats, "variable"]


class Marks(Frame):
    """Working memory: rows and variables are marked by the number of the search that reached them."""

    row: Annotated[Ints, "row"]
    variable: Annotated[Ints, "variable"]
    number: Annotated[Ints32, "variable"]  # of an active variable in its part, -1 for one beside it
    around: Annotated[Ints, "row"]  # the rows that the search reached
    beside: Annotated[Ints, "variable"]  # the variables that it reached
    old_dual: Annotated[Floats, "row"]  # before ``descend``, in the order of ``around``
    old_y: Annotated[Floats, "variable"]  # in the order of ``beside``
    queue: Annotated[Ints, "variable"]  # a ring
    waits: Annotated[Bytes, "variable"]  # 1 in the queue


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
def set_excess(rows: LinkedRows, i: int, value: float) -> None:
    """Set the violation of row i, and the largest of its block."""
    block, old = i // BLOCK, rows.excess[i]
    rows.excess[i] = value
    if value >= rows.worst[block]:
        rows.worst[block] = value
    elif old == rows.worst[block]:
        worst = 0.0
        for other in range(block * BLOCK, min((block + 1) * BLOCK, len(rows.excess))):
            worst = max(worst, rows.excess[other])
        rows.worst[block] = worst


@kernel
def insert(rows: LinkedRows, numbers: Ints) -> None:
    """Link rows, each with the dual that is best for it alone; 0 for a constraint."""
    for i in numbers:
        u = 0.0 if rows.kind[i] >= AT_MOST else slope(rows, i, form(rows, i))
        rows.dual[i] = u
        rows.energy[i] = rows.row_gap[i] = 0.0
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
        set_excess(rows, i, 0.0)
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
def reach(rows: LinkedRows, active: Ints, mark: int, marks: Marks) -> tuple[int, int, int]:
    """Find the rows around active variables, and the variables beside these.

    Returns how many there are in ``marks.around`` and ``marks.beside``, and how many entries the active
    variables have. Numbers the active variables.
    """
    n_rows, n_beside, entries = 0, 0, 0
    for k in range(len(active)):
        marks.variable[active[k]] = mark
        marks.number[active[k]] = k
    for j in active:
        e = rows.first[j]
        while e >= 0:
            i = rows.row[e]
            entries += 1
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
    return n_rows, n_beside, entries


@kernel
def refresh_row(rows: LinkedRows, i: int) -> tuple[float, float]:
    """Compute the terms of row i; return by how much energy and gap change."""
    value, u, curvature = form(rows, i), rows.dual[i], rows.curvature[i]
    best = slope(rows, i, value)
    energy, gap = 0.0, 0.5 * curvature * u * u - u * value
    if rows.kind[i] >= AT_MOST:
        gap += abs(u * value)
        set_excess(rows, i, abs(value) if np.isinf(best) else 0.0)
    else:
        energy = best * value - 0.5 * curvature * best * best
        gap += energy
    changes = energy - rows.energy[i], gap - rows.row_gap[i]
    rows.energy[i], rows.row_gap[i] = energy, gap
    return changes


@kernel
def refresh_variable(rows: LinkedRows, j: int) -> float:
    """Compute the term of variable j; return by how much the gap changes."""
    r, y = rows.reduced_cost[j], rows.y[j]
    new = max(r * y, r * (y - 1.0))
    change = new - rows.variable_gap[j]
    rows.variable_gap[j] = new
    return change


@kernel
def move_of(rows: LinkedRows, j: int) -> float:
    """Return by how much a step of Newton's changes y_j; NaN where the energy along y_j has a kink.

    The second derivative is that of the rows that are active, and of those that a step without them would
    make active. It is nowhere larger between, so that the energy does not rise.
    """
    r, y, total, e = rows.reduced_cost[j], rows.y[j], 0.0, rows.first[j]
    while e >= 0:
        i = rows.row[e]
        if rows.curvature[i] > 0.0:
            if rows.low[i] < rows.dual[i] < rows.high[i]:
                total += rows.coefficient[e] * rows.coefficient[e] / rows.curvature[i]
        elif rows.low[i] < rows.high[i]:
            return np.nan
        e = rows.following[e]
    bound = -y if r > 0.0 else 1.0 - y
    move = clip(-r / total, -y, 1.0 - y) if total > 0.0 else bound
    e = rows.first[j]
    while e >= 0:
        i = rows.row[e]
        ahead = rows.coefficient[e] * move
        if (
            ahead > 0.0
            and rows.dual[i] <= rows.low[i] < rows.high[i]
            and form(rows, i) + ahead > 0.0
        ):
            total += rows.coefficient[e] * rows.coefficient[e] / rows.curvature[i]
        e = rows.following[e]
    return clip(-r / total, -y, 1.0 - y) if total > 0.0 else bound


@kernel
def enqueue(rows: LinkedRows, j: int, least: float, end: int, marks: Marks) -> int:
    """Let variable j wait if its gap is above ``least``; return the new end of the queue."""
    if rows.variable_gap[j] > least and marks.waits[j] == 0:
        marks.waits[j] = 1
        marks.queue[end % len(marks.queue)] = j
        end += 1
    return end


@kernel
def descend(
    rows: LinkedRows, touched: Ints, surplus: float, least: float, mark: int, marks: Marks
) -> tuple[int, int, float, float]:
    """Minimise over single variables until the whole gap is smaller by ``surplus``, or all gaps are small.

    It begins with the touched variables, and goes on with those beside variables that moved: those with
    large gaps first, none with a gap of at most ``least``. Variables where the energy has a kink stay. It
    ends where rows have been looked at ``WORK`` times on average.

    Returns how many rows and variables there are in ``marks.around`` and ``marks.beside`` with their duals
    and values before, and by how much energy and gap change.
    """
    n_rows, n, energy, gap, work = 0, 0, 0.0, 0.0, WORK * len(touched)
    for j in touched:
        marks.variable[j] = mark
        marks.beside[n], marks.old_y[n] = j, rows.y[j]
        n += 1
    while gap > -surplus and work > 0:
        largest, at, end = 0.0, 0, 0
        for k in range(n):
            if marks.waits[marks.beside[k]] == 0:
                largest = max(largest, rows.variable_gap[marks.beside[k]])
        if largest <= least:
            break
        enough = max(least, FIRST * largest)
        for k in range(n):
            end = enqueue(rows, marks.beside[k], enough, end, marks)
        while at < end and gap > -surplus and work > 0:
            j = marks.queue[at % len(marks.queue)]
            at += 1
            work -= 1
            marks.waits[j] = 0
            if rows.variable_gap[j] <= enough:
                continue
            move = move_of(rows, j)
            if np.isnan(move):
                marks.waits[j] = KINK
                continue
            rows.y[j] = clip(rows.y[j] + move, 0.0, 1.0)
            e = rows.first[j]
            while e >= 0:
                i = rows.row[e]
                work -= 1
                best = slope(rows, i, form(rows, i))
                change = best - rows.dual[i]
                if change != 0.0 or best != 0.0 or rows.energy[i] != 0.0:
                    if marks.row[i] != mark:
                        marks.row[i] = mark
                        marks.around[n_rows], marks.old_dual[n_rows] = i, rows.dual[i]
                        n_rows += 1
                        work += WORK
                    rows.dual[i] = best
                    row_energy, row_gap = refresh_row(rows, i)
                    energy += row_energy
                    gap += row_gap
                    for other in range(rows.start[i], rows.stop[i]):
                        v = rows.variable[other]
                        rows.reduced_cost[v] += change * rows.coefficient[other]
                        if v != j:
                            gap += refresh_variable(rows, v)
                            if marks.variable[v] != mark:
                                marks.variable[v] = mark
                                marks.beside[n], marks.old_y[n] = v, rows.y[v]
                                n += 1
                            end = enqueue(rows, v, enough, end, marks)
                e = rows.following[e]
            gap += refresh_variable(rows, j)
            end = enqueue(rows, j, enough, end, marks)
        for k in range(at, end):
            marks.waits[marks.queue[k % len(marks.queue)]] = 0
    for k in range(n):
        marks.waits[marks.beside[k]] = 0
    return n_rows, n, energy, gap


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
def compare(rows: LinkedRows, numbers: Ints, model: HingeRows, differs: Bytes) -> None:
    """Tell which rows of a model differ from those of these numbers, or are new."""
    for k in range(len(numbers)):
        i = numbers[k]
        same = rows.is_row[i] != 0 and rows.constant[i] == model.constant[k]
        same = same and rows.kind[i] == model.kind[k] and rows.power[i] == model.power[k]
        same = same and rows.weight_index[i] == model.weight_index[k]
        size = model.start[k + 1] - model.start[k]
        same = same and rows.stop[i] - rows.start[i] == size
        e = 0
        while same and e < size:
            own, other = rows.start[i] + e, model.start[k] + e
            same = rows.variable[own] == model.variable[other]
            same = same and rows.coefficient[own] == model.coefficient[other]
            e += 1
        differs[k] = not same


@kernel
def restrict(rows: LinkedRows, around: Ints, number: Ints32, part: HingeRows) -> None:
    """Write the forms of rows over the active variables; the values of the others are in the constants."""
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
        row_energy, row_gap = refresh_row(rows, i)
        energy += row_energy
        gap += row_gap
    return energy, gap


@kernel
def refresh_variables(rows: LinkedRows, numbers: Ints) -> float:
    """Compute the terms of variables; return by how much the gap changes."""
    gap = 0.0
    for j in numbers:
        gap += refresh_variable(rows, j)
    return gap
