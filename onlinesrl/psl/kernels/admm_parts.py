"""Rounds of ADMM on a large model: part by part of its rows, by one thread or several.

Part ``part`` of ``parts`` has every ``parts``-th block of rows, so that all are of the same kinds, and adds
to a gradient of its own. The sum over the parts is in their order, so that it does not depend on the
threads. Adjacent rows that differ only in variables and constant form runs, within which the rest is not
read again: memory is what a round waits for. Thread ``rank`` of ``threads`` has every ``threads``-th block
of variables.
"""

from onlinesrl.core.arrays import Floats, Ints32
from onlinesrl.core.jit.decorators import kernel, threaded
from onlinesrl.psl.kernels.admm import BLOCK, AdmmProblem, Iterate, x_step
from onlinesrl.psl.kernels.potentials import clip


@kernel
def _alike(problem: AdmmProblem, i: int, k: int) -> bool:
    """Return whether rows i and k may be in one run."""
    rows = problem.rows
    a, b = rows.start[i], rows.start[k]
    size = rows.start[i + 1] - a
    if rows.start[k + 1] - b != size:
        return False
    for d in range(size):
        if rows.coefficient[a + d] != rows.coefficient[b + d]:
            return False
    return bool(
        problem.low[i] == problem.low[k]
        and problem.high[i] == problem.high[k]
        and problem.curvature[i] == problem.curvature[k]
        and problem.row_step[i] == problem.row_step[k]
    )


@threaded
def find_runs(problem: AdmmProblem, run_end: Ints32) -> None:
    """Set ``run_end`` [row] to the end of the run that each row is in."""
    rows = problem.rows
    end = len(rows.constant)
    for i in range(end - 1, -1, -1):
        if i + 1 < end and not _alike(problem, i, i + 1):
            end = i + 1
        run_end[i] = end


@threaded
def x_update(
    problem: AdmmProblem,
    iterate: Iterate,
    gradients: Floats,
    rank: int,
    threads: int,
    eta: float,
    relaxation: float,
) -> None:
    """Update a thread's share of y, given the parts' ``gradients`` [part, variable] without the bonus."""
    for first in range(rank * BLOCK, len(iterate.y), threads * BLOCK):
        stop = min(first + BLOCK, len(iterate.y))
        for j in range(first, stop):  # loops that LLVM turns into vector instructions
            iterate.ahead[j] = -problem.bonus[j]
        for part in range(len(gradients)):
            for j in range(first, stop):
                iterate.ahead[j] += gradients[part, j]
        for j in range(first, stop):
            x_step(problem, iterate, j, iterate.ahead[j], eta, relaxation)


@threaded
def dual_update(
    problem: AdmmProblem,
    iterate: Iterate,
    run_end: Ints32,
    part: int,
    parts: int,
    eta: float,
    relaxation: float,
) -> None:
    """Update the duals of a part, and set its gradient."""
    rows = problem.rows
    for j in range(len(iterate.gradient)):
        iterate.gradient[j] = 0.0
    for block in range(part * BLOCK, len(iterate.dual), parts * BLOCK):
        i, stop = block, min(block + BLOCK, len(iterate.dual))
        while i < stop:
            end, size = min(run_end[i], stop), rows.start[i + 1] - rows.start[i]
            if size == 2:
                _update_pairs(problem, iterate, i, end, eta, relaxation)
            elif size == 3:
                _update_triples(problem, iterate, i, end, eta, relaxation)
            else:
                _update_run(problem, iterate, i, end, size, eta, relaxation)
            i = end


@kernel
def _of_run(problem: AdmmProblem, i: int, eta: float) -> tuple[float, float, float, float]:
    """Return what the rows of row i's run have in common: sigma, divisor, low and high of the step."""
    sigma = eta * problem.row_step[i]
    return sigma, 1.0 + sigma * problem.curvature[i], problem.low[i], problem.high[i]


@kernel
def _step(
    iterate: Iterate,
    i: int,
    form: float,
    of_run: tuple[float, float, float, float],
    relaxation: float,
) -> float:
    """Update and return the dual of row i, given its form."""
    sigma, divisor, low, high = of_run
    u = clip((iterate.dual[i] + sigma * form) / divisor, low, high)
    u = iterate.dual[i] + relaxation * (u - iterate.dual[i])
    iterate.dual[i] = u
    return u


@kernel
def _update_run(
    problem: AdmmProblem,
    iterate: Iterate,
    first: int,
    end: int,
    size: int,
    eta: float,
    relaxation: float,
) -> None:
    """Do as ``admm.dual_update`` for a run of rows of ``size`` variables each."""
    rows = problem.rows
    of_run = _of_run(problem, first, eta)
    template = at = rows.start[first]
    for i in range(first, end):
        form = rows.constant[i]
        for d in range(size):
            form += rows.coefficient[template + d] * iterate.ahead[rows.variable[at + d]]
        u = _step(iterate, i, form, of_run, relaxation)
        for d in range(size):
            iterate.gradient[rows.variable[at + d]] += u * rows.coefficient[template + d]
        at += size


@kernel
def _update_pairs(
    problem: AdmmProblem, iterate: Iterate, first: int, end: int, eta: float, relaxation: float
) -> None:
    """Do as ``_update_run`` for two variables each; without the loops it takes a fifth less time."""
    rows = problem.rows
    of_run, at = _of_run(problem, first, eta), rows.start[first]
    q0, q1 = rows.coefficient[at], rows.coefficient[at + 1]
    for i in range(first, end):
        j0, j1 = rows.variable[at], rows.variable[at + 1]
        form = rows.constant[i] + q0 * iterate.ahead[j0] + q1 * iterate.ahead[j1]
        u = _step(iterate, i, form, of_run, relaxation)
        iterate.gradient[j0] += u * q0
        iterate.gradient[j1] += u * q1
        at += 2


@kernel
def _update_triples(
    problem: AdmmProblem, iterate: Iterate, first: int, end: int, eta: float, relaxation: float
) -> None:
    """Do as ``_update_pairs`` for three variables each."""
    rows = problem.rows
    of_run, at = _of_run(problem, first, eta), rows.start[first]
    q0, q1, q2 = rows.coefficient[at], rows.coefficient[at + 1], rows.coefficient[at + 2]
    for i in range(first, end):
        j0, j1, j2 = rows.variable[at], rows.variable[at + 1], rows.variable[at + 2]
        form = (
            rows.constant[i]
            + q0 * iterate.ahead[j0]
            + q1 * iterate.ahead[j1]
            + q2 * iterate.ahead[j2]
        )
        u = _step(iterate, i, form, of_run, relaxation)
        iterate.gradient[j0] += u * q0
        iterate.gradient[j1] += u * q1
        iterate.gradient[j2] += u * q2
        at += 3
