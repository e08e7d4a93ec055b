"""Rounds of ADMM by several threads, to the bit those of one thread.

A thread updates some blocks of variables, then, when all have, some blocks of rows. The gradient of a
variable is the sum over its column in the order of the rows, as in ``kernels.admm``, so it does not
depend on the threads. Adjacent rows that differ only in variables and constant form runs, within which
the rest is not read again.
"""

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.kernels.frames import Frame
from onlinesrl.core.kernels.jit import kernel, threaded
from onlinesrl.psl.kernels.admm import Iterate, Problem, of_row, x_step
from onlinesrl.psl.kernels.potentials import clip

BLOCK = 4096
"""Variables, or rows, in a block; thread ``rank`` of ``threads`` takes every ``threads``-th block."""


class Columns(Frame):
    """The entries of a problem by variable, and its runs of rows."""

    start: Ints  # [variable + 1]
    row: Ints32  # [entry] ascending within a column
    coefficient: Floats  # [entry]
    run_end: Ints32  # [row] the end of the run of row i


@kernel
def transpose(problem: Problem, columns: Columns) -> None:
    """Set the columns; ``start`` is 0 before."""
    start = columns.start
    for e in range(len(problem.variable)):
        start[problem.variable[e]] += 1
    first = 0
    for j in range(len(start)):
        first, start[j] = first + start[j], first
    for i in range(len(problem.constant)):
        for e in range(problem.start[i], problem.start[i + 1]):
            j = problem.variable[e]
            columns.row[start[j]] = i
            columns.coefficient[start[j]] = problem.coefficient[e]
            start[j] += 1
    for j in range(len(start) - 1, 0, -1):
        start[j] = start[j - 1]
    start[0] = 0


@kernel
def _alike(problem: Problem, i: int, k: int) -> bool:
    """Return whether rows i and k may be in one run."""
    a, b = problem.start[i], problem.start[k]
    size = problem.start[i + 1] - a
    if problem.start[k + 1] - b != size:
        return False
    for d in range(size):
        if problem.coefficient[a + d] != problem.coefficient[b + d]:
            return False
    return bool(
        problem.low[i] == problem.low[k]
        and problem.high[i] == problem.high[k]
        and problem.curvature[i] == problem.curvature[k]
        and problem.row_step[i] == problem.row_step[k]
    )


@kernel
def find_runs(problem: Problem, columns: Columns) -> None:
    """Set ``columns.run_end``."""
    end = len(problem.constant)
    for i in range(end - 1, -1, -1):
        if i + 1 < end and not _alike(problem, i, i + 1):
            end = i + 1
        columns.run_end[i] = end


@kernel
def _gradient(columns: Columns, j: int, bonus: float, dual: Floats) -> float:
    """Return (Q' dual)_j - bonus."""
    total = -bonus
    for c in range(columns.start[j], columns.start[j + 1]):
        total += dual[columns.row[c]] * columns.coefficient[c]
    return total


@threaded
def x_update(
    problem: Problem,
    columns: Columns,
    now: Iterate,
    eta: float,
    relaxation: float,
    rank: int,
    threads: int,
) -> None:
    """Update a thread's part of y."""
    for first in range(rank * BLOCK, len(now.y), threads * BLOCK):
        for j in range(first, min(first + BLOCK, len(now.y))):
            gradient = _gradient(columns, j, problem.bonus[j], now.dual)
            x_step(problem, now, j, gradient, eta, relaxation)


@threaded
def dual_update(
    problem: Problem,
    columns: Columns,
    now: Iterate,
    eta: float,
    relaxation: float,
    rank: int,
    threads: int,
) -> None:
    """Update a thread's part of the duals."""
    rows = len(problem.constant)
    for first in range(rank * BLOCK, rows, threads * BLOCK):
        i, last = first, min(first + BLOCK, rows)
        while i < last:
            end = min(columns.run_end[i], last)
            _update_run(problem, now, i, end, eta, relaxation)
            i = end


@kernel
def _update_run(
    problem: Problem, now: Iterate, first: int, end: int, eta: float, relaxation: float
) -> None:
    """Update the duals of some rows of a run."""
    sigma = eta * problem.row_step[first]
    divisor = 1.0 + sigma * problem.curvature[first]
    low, high = problem.low[first], problem.high[first]
    like = at = problem.start[first]
    size = problem.start[first + 1] - at
    for i in range(first, end):
        form = problem.constant[i]
        if size == 3:  # the loop is compiled apart for these sizes
            form += problem.coefficient[like] * now.ahead[problem.variable[at]]
            form += problem.coefficient[like + 1] * now.ahead[problem.variable[at + 1]]
            form += problem.coefficient[like + 2] * now.ahead[problem.variable[at + 2]]
        else:
            for d in range(size):
                form += problem.coefficient[like + d] * now.ahead[problem.variable[at + d]]
        u = clip((now.dual[i] + sigma * form) / divisor, low, high)
        now.dual[i] += relaxation * (u - now.dual[i])
        at += size


@threaded
def certify_rows(
    problem: Problem, now: Iterate, terms: Floats, dual: Floats, rank: int, threads: int
) -> None:
    """Set ``terms`` [row, 4] of a thread's rows to what ``of_row`` returns, and ``dual`` [row]."""
    rows = len(problem.constant)
    for first in range(rank * BLOCK, rows, threads * BLOCK):
        for i in range(first, min(first + BLOCK, rows)):
            terms[i, 0], terms[i, 1], terms[i, 2], terms[i, 3], dual[i] = of_row(problem, now, i)


@threaded
def add_rows(
    problem: Problem, columns: Columns, dual: Floats, gradient: Floats, rank: int, threads: int
) -> None:
    """Set a thread's part of the gradient to Q' dual - bonus."""
    for first in range(rank * BLOCK, len(gradient), threads * BLOCK):
        for j in range(first, min(first + BLOCK, len(gradient))):
            gradient[j] = _gradient(columns, j, problem.bonus[j], dual)


@kernel
def total(terms: Floats) -> tuple[float, float, float, float]:
    """Return the sums over rows, in their order; of the violation the maximum."""
    energy, bound, violation, complementarity = 0.0, 0.0, 0.0, 0.0
    for i in range(len(terms)):
        energy += terms[i, 0]
        bound += terms[i, 1]
        violation = max(violation, terms[i, 2])
        complementarity += terms[i, 3]
    return energy, bound, violation, complementarity
