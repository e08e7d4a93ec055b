"""Lifted inference: one variable and one row per class of colour refinement.

See Srinivasan (2020), section 3.4; here with sums for multisets of coefficients: if ``y`` is
feasible then so is its average over every class, with no more energy, as long as the rows of a class
have equal coefficient sums over every class of variables, and the variables of a class over every
class of rows. So the classes may be larger than Srinivasan's, and the optimum is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.psl.ground.hinge_loss_mrf import HARD, HingeLossMRF
from onlinesrl.psl.inference.dual import check_constants
from onlinesrl.psl.inference.protocols import HingeEngine, HingeSolution
from onlinesrl.psl.kernels import color_refinement as kernel


@dataclass(frozen=True)
class Lifted:
    """Any engine, on the lifted model; its answer is copied back.

    The engine must minimise the model's energy and nothing else: a ridge has to be in the model, as a
    squared potential without hinge for each variable.
    """

    engine: HingeEngine

    def solve(
        self,
        model: HingeLossMRF,
        weights: Floats,
        *,
        bonus: Floats | None = None,
        start: HingeSolution | None = None,
    ) -> HingeSolution:
        """See ``HingeEngine.solve``; the violation is the original model's."""
        check_constants(model)
        small = lift(model, weights, bonus)
        if start is not None:  # values averaged, duals summed over the classes
            y = np.bincount(small.variable, start.y) / np.bincount(small.variable)
            dual = np.bincount(small.row, start.dual, small.model.n_rows).astype(np.float64)
            start = replace(start, y=y, dual=dual)
        solution = self.engine.solve(small.model, small.weights, bonus=small.bonus, start=start)
        y, dual = solution.y[small.variable], (solution.dual / np.bincount(small.row))[small.row]
        route, violation = f"lifted {solution.route}", model.violation(y)
        return replace(solution, y=y, dual=dual, violation=violation, route=route)


@dataclass(frozen=True, eq=False)
class Lifting:
    """A lifted model, its weights and bonus, and the class of every original variable and row.

    ``variable`` is int64[n_variables], ``row`` int64[n_rows], both of the original model.
    """

    model: HingeLossMRF
    weights: Floats
    bonus: Floats | None
    variable: Ints
    row: Ints


def lift(model: HingeLossMRF, weights: Floats, bonus: Floats | None = None) -> Lifting:
    """Return the lifted model of these weights: a lifted row's weight is the sum of its class'.

    Coefficients are those of any one row of the class, summed over each class of variables.
    """
    weight = model.row_weights(weights)
    variable, row = classes(model, weight, bonus)
    count = np.bincount(row)
    representative = np.unique(row, return_index=True)[1]
    n_variables = int(variable.max(initial=-1)) + 1

    chosen = np.isin(model.row, representative)
    pair = row[model.row[chosen]] * n_variables + variable[model.variable[chosen]]
    edges, position = np.unique(pair, return_inverse=True)
    coefficient = np.bincount(position, model.coefficient[chosen], len(edges)).astype(np.float64)
    edges, coefficient = edges[coefficient != 0], coefficient[coefficient != 0]
    owner, column = np.divmod(edges, max(n_variables, 1))
    hard = model.weight_index[representative] == HARD
    small = HingeLossMRF(
        n_variables=n_variables,
        start=np.searchsorted(owner, np.arange(len(count) + 1)).astype(np.int64),
        variable=column.astype(np.int32),
        coefficient=coefficient,
        constant=model.constant[representative],
        weight_index=np.where(hard, HARD, np.arange(len(count))),
        power=model.power[representative],
        kind=model.kind[representative],
    )
    summed = None if bonus is None else np.bincount(variable, bonus).astype(np.float64)
    return Lifting(small, count * weight[representative], summed, variable, row)


def classes(model: HingeLossMRF, weight: Floats, bonus: Floats | None) -> tuple[Ints, Ints]:
    """Return the class of every variable, 0 .. k - 1, and of every row, from 0 as well.

    Rows start with the colour (weight, constant, power, kind), variables with the colour (bonus).
    """
    n = model.n_variables
    variable = np.zeros(n, np.int64) if bonus is None else _distinct(bonus)
    row = _distinct(weight, model.constant, model.power, model.kind)
    n_colours = int(variable.max(initial=-1)) + 1
    memory = kernel.partition(np.concatenate((variable, n_colours + row)))
    by_variable = np.argsort(model.variable, kind="stable")
    degree = np.concatenate((np.bincount(model.variable, minlength=n), np.diff(model.start)))
    graph = kernel.Graph(  # of factors: variables first, then rows
        np.concatenate(([0], np.cumsum(degree))),
        np.concatenate((n + model.row[by_variable], model.variable)).astype(np.int32),
        np.concatenate((model.coefficient[by_variable], model.coefficient)),
    )
    kernel.refine(graph, memory, n_colours + int(row.max(initial=-1)) + 1)
    return _distinct(memory.colour[:n]), _distinct(memory.colour[n:])


def _distinct(*keys: np.ndarray) -> Ints:
    """Return the tuples of equally long arrays as numbers from 0 on, int64[length]."""
    order = np.lexsort(keys)
    new = np.zeros(len(order), np.int64)
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    result = np.empty_like(new)
    result[order] = np.cumsum(new)
    return result
