"""Samples from the density of a hinge-loss model, ``exp(-energy)`` where constraints hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.kernels.random import generator
from onlinesrl.psl.ground.hinge_loss_mrf import EQUAL, HingeLossMRF
from onlinesrl.psl.inference.dual import check_weights
from onlinesrl.psl.kernels.line_sampling import Lines, sweep

ZERO = 1e-9
"""Coefficients below this are 0."""


class Sampler:
    """A Markov chain on the values of a model, which goes on where it was when weights change.

    A sweep moves each variable alone (Gibbs sampling), and variables of equality constraints along lines on
    which these stay true. ``y`` must be feasible. Where others leave a line no room, as ``a <= b`` and
    ``b <= a`` do, values stay.
    """

    def __init__(self, model: HingeLossMRF, y: Floats, seed: int) -> None:
        self.model = model
        self.y = y.copy()
        self.rng = generator(seed)
        self.lines = lines_of(model)

    def draw(self, weights: Floats, n: int) -> Iterator[Floats]:
        """Yield the values after each of ``n`` sweeps; they are changed by the next."""
        check_weights(self.model, weights)
        form = self.model.forms(self.y)
        for _ in range(n):
            sweep(self.model, weights, self.lines, form, self.y, self.rng)
            yield self.y


def lines_of(model: HingeLossMRF) -> Lines:
    """Return lines that span all moves on which equality constraints stay true."""
    variable, amount, sizes = _directions(model)
    line = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(model.variable, kind="stable")
    degree = np.bincount(model.variable, minlength=model.n_variables)
    count, before = degree[variable], np.cumsum(degree) - degree
    entry_of = np.repeat(np.arange(len(variable)), count)
    entry = order[
        before[variable[entry_of]]
        + np.arange(len(entry_of))
        - np.repeat(np.cumsum(count) - count, count)
    ]
    pair, place = np.unique(line[entry_of] * model.n_rows + model.row[entry], return_inverse=True)
    slope = np.bincount(place, model.coefficient[entry] * amount[entry_of], len(pair))
    nonzero = np.abs(slope) > ZERO
    at, row = pair[nonzero] // model.n_rows, pair[nonzero] % model.n_rows
    first = np.searchsorted(at, np.arange(len(sizes) + 1))
    starts = np.append(0, np.cumsum(sizes))
    return Lines(starts, variable, amount, first, row, slope[nonzero].astype(np.float64))


def _directions(model: HingeLossMRF) -> tuple[Ints, Floats, Ints]:
    """Return variables and amounts of all lines, concatenated, and how many variables each has."""
    equal = (model.kind == EQUAL)[model.row] & (np.abs(model.coefficient) > ZERO)
    alone = np.setdiff1d(np.arange(model.n_variables), model.variable[equal])
    variables, amounts = [np.array([j]) for j in alone], [np.ones(1)] * len(alone)
    for rows in _linked(model.row[equal], model.variable[equal]):
        entries = np.flatnonzero(np.isin(model.row, rows))
        variables_, column = np.unique(model.variable[entries], return_inverse=True)
        matrix = np.zeros((len(rows), len(variables_)))
        matrix[np.searchsorted(rows, model.row[entries]), column] = model.coefficient[entries]
        for basis in null_space(matrix):
            moved = np.flatnonzero(basis)
            variables.append(variables_[moved])
            amounts.append(basis[moved])
    sizes = np.array([len(direction) for direction in variables], np.int64)
    whole = np.concatenate([np.empty(0, np.int64), *variables])
    return whole, np.concatenate([np.empty(0), *amounts]), sizes


def _linked(row: Ints, variable: Ints) -> Iterator[Ints]:
    """Yield groups of rows, sorted, that share variables with each other and not with other rows."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows, place = np.unique(row, return_inverse=True)
    nodes = len(rows) + int(variable.max(initial=-1)) + 1
    edges = np.ones(len(row)), (place, len(rows) + variable)
    label = connected_components(coo_array(edges, (nodes, nodes)), directed=False)[1][: len(rows)]
    yield from (rows[label == number] for number in np.unique(label))


def null_space(matrix: Floats) -> Iterator[Floats]:
    """Yield a basis of the vectors that a matrix maps to 0, by Gauss-Jordan elimination: sparse."""
    reduced, pivots = matrix.copy(), list[int]()
    for j in range(reduced.shape[1]):
        i = len(pivots)
        if i == len(reduced):
            break
        best = i + int(np.argmax(np.abs(reduced[i:, j])))
        if abs(reduced[best, j]) > ZERO:
            reduced[[i, best]] = reduced[[best, i]]
            reduced[i] /= reduced[i, j]
            other_rows = np.arange(len(reduced)) != i
            reduced[other_rows] -= np.outer(reduced[other_rows, j], reduced[i])
            pivots.append(j)
    for j in sorted({*range(reduced.shape[1])} - {*pivots}):
        basis = np.zeros(reduced.shape[1])
        basis[j] = 1.0
        basis[pivots] = -reduced[: len(pivots), j]
        basis[np.abs(basis) <= ZERO] = 0.0
        yield basis
