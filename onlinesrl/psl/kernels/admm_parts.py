"""Rounds of ADMM on a large model: part by part of its rows, by one thread or several.

Each part adds to a gradient of its own, and the sum over the parts is in their order, so that it does not
depend on the threads. Adjacent rows that differ only in variables and constant form runs, within which the
rest is not read again: memory is what a round waits for.
"""

from onlinesrl.core.arrays import Floats, Ints32
from onlinesrl.core.kernels.jit import kernel, threaded
from onlinesrl.psl.kernels.admm import Iterate, Problem, x_step
from onlinesrl.psl.kernels.potentials import clip

BLOCK = 4096
"""Variables in a block; thread ``rank`` of ``threads`` takes every ``threads``-th block."""


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
def find_runs(problem: Problem, run_end: Ints32) -> None:
    """Set ``run_end`` [row] to the end of the run that each row is in."""
    end = len(problem.constant)
    for i in range(end - 1, -1, -1):
        if i + 1 < end and not _alike(problem, i, i + 1):
            end = i + 1
        run_end[i] = end


@threaded
def x_update(
    problem: Problem,
    now: Iterate,
    gradients: Floats,
    eta: float,
    relaxation: float,
    rank: int,
    threads: int,
) -> None:
    """Update a thread's share of y, given ``gradients`` [part, variable]."""
    for first in range(rank * BLOCK, len(now.y), threads * BLOCK):
        for j in range(first, min(first + BLOCK, len(now.y))):
            gradient = gradients[0, j]
            for part in range(1, len(gradients)):
                gradient += gradients[part, j]
            x_step(problem, now, j, gradient, eta, relaxation)


@threaded
def dual_update(
    problem: Problem, now: Iterate, run_end: Ints32, eta: float, relaxation: float
) -> None:
    """Update the duals of a part, and set its gradient."""
    for j in range(len(now.gradient)):
        now.gradient[j] = -problem.bonus[j]
    i = 0
    while i < len(problem.constant):
        end, size = run_end[i], problem.start[i + 1] - problem.start[i]
        if size == 2:  # the loops over the variables of a row are compiled apart for these sizes
            _update_run(problem, now, i, end, 2, eta, relaxation)
        elif size == 3:
            _update_run(problem, now, i, end, 3, eta, relaxation)
        else:
            _update_run(problem, now, i, end, size, eta, relaxation)
        i = end


@kernel
def _update_run(
    problem: Problem, now: Iterate, first: int, end: int, size: int, eta: float, relaxation: float
) -> None:
    """Do as ``admm.dual_update`` for a run of rows of ``size`` variables each."""
    sigma = eta * problem.row_step[first]
    divisor = 1.0 + sigma * problem.curvature[first]
    low, high = problem.low[first], problem.high[first]
    like = at = problem.start[first]
    for i in range(first, end):
        form = problem.constant[i]
        for d in range(size):
            form += problem.coefficient[like + d] * now.ahead[problem.variable[at + d]]
        u = clip((now.dual[i] + sigma * form) / divisor, low, high)
        u = now.dual[i] + relaxation * (u - now.dual[i])
        now.dual[i] = u
        for d in range(size):
            now.gradient[problem.variable[at + d]] += u * problem.coefficient[like + d]
        at += size
