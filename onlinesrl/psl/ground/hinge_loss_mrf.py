"""The ground model of a hinge-loss MRF: potentials and constraints over [0, 1]^n, as arrays.

The energy of ``y`` in [0, 1]^n is ``sum_i w_i phi_i(y)`` (Bach et al. 2015, equation 1): each
potential ``phi_i`` is a power of a linear form ``l_i(y) = q_i . y + c_i``, with or without the hinge;
constraints bound such forms. Weights are not part of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints, check_rows, gathered
from onlinesrl.psl.kernels import potentials

HINGE, PLAIN = potentials.HINGE, potentials.PLAIN
AT_MOST, EQUAL = potentials.AT_MOST, potentials.EQUAL

HARD = -1
"""The weight index of a constraint."""


class HingeLossMRF(potentials.HingeRows):
    """Linear forms in compressed rows, over the variables ``0 .. n_variables - 1``.

    Row ``i`` is ``l_i(y) = sum coefficient * y[variable] + constant[i]`` over the entries
    ``start[i]:start[i + 1]``. ``kind[i]`` and ``power[i]`` (1 or 2; 1 for a constraint) define its
    potential or constraint. ``weight_index[i]`` is a potential's weight, ``HARD`` for a constraint.
    ``validate`` checks all invariants.
    """

    @property
    def n_rows(self) -> int:
        """The number of potentials and constraints."""
        return len(self.constant)

    @property
    def row(self) -> Ints:
        """The row of every entry, int64[entries]."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.start))

    def chosen(self, rows: Ints) -> HingeLossMRF:
        """Return the model of these rows, in this order, over the same variables."""
        start, entries = gathered(self.start, rows)
        return HingeLossMRF(
            self.n_variables,
            start,
            self.variable[entries],
            self.coefficient[entries],
            self.constant[rows],
            self.weight_index[rows],
            self.power[rows],
            self.kind[rows],
        )

    def row_weights(self, weights: Floats) -> Floats:
        """Return the weight of every row, float64[n_rows]; 0 for a constraint."""
        weighted = self.weight_index >= 0
        result = np.zeros(self.n_rows)
        result[weighted] = weights[self.weight_index[weighted]]
        return result

    def forms(self, y: Floats) -> Floats:
        """Return ``l(y)``, float64[n_rows]."""
        products = self.coefficient * y[self.variable]
        return np.bincount(self.row, products, self.n_rows) + self.constant

    def potentials(self, y: Floats) -> Floats:
        """Return ``phi(y)``, float64[n_rows]; 0 for a constraint."""
        form = self.forms(y)
        form = np.where(self.kind == HINGE, np.maximum(form, 0.0), form)
        return np.where(self.weight_index >= 0, form**self.power, 0.0)

    def energy(self, y: Floats, weights: Floats) -> float:
        """Return ``sum_i w_i phi_i(y)``; constraints do not count."""
        return float(self.row_weights(weights) @ self.potentials(y))

    def totals(self, y: Floats, n: int) -> Floats:
        """Return ``Phi(y)``, the sum of the potentials of each of ``n`` weights, float64[n]."""
        weighted = self.weight_index >= 0
        sums = np.bincount(self.weight_index[weighted], self.potentials(y)[weighted], n)
        return sums.astype(np.float64)

    def violation(self, y: Floats) -> float:
        """Return the largest violation of a constraint (``l`` or ``|l|``) or of the box."""
        form = self.forms(y)
        at_most, equal = form[self.kind == AT_MOST], np.abs(form[self.kind == EQUAL])
        return float(np.max(np.concatenate((at_most, equal, -y, y - 1.0)), initial=0.0))


@dataclass(frozen=True, eq=False)
class Micrographs:
    """Independent models, concatenated.

    Micrograph ``k`` has the variables ``first_variable[k]:first_variable[k + 1]`` and the rows
    ``first_row[k]:first_row[k + 1]``.
    """

    model: HingeLossMRF
    first_variable: Ints
    first_row: Ints

    def micrograph(self, n: int) -> HingeLossMRF:
        """Return micrograph ``n`` as a model."""
        model, rows = self.model, slice(self.first_row[n], self.first_row[n + 1])
        start = model.start[rows.start : rows.stop + 1]
        entries = slice(start[0], start[-1])
        first = self.first_variable[n]
        return HingeLossMRF(
            int(self.first_variable[n + 1] - first),
            start - start[0],
            model.variable[entries] - np.int32(first),
            model.coefficient[entries],
            model.constant[rows],
            model.weight_index[rows],
            model.power[rows],
            model.kind[rows],
        )


def united(n_variables: int, models: Sequence[HingeLossMRF]) -> HingeLossMRF:
    """Concatenate the rows of models over the same variables."""
    if len(models) == 1:
        return models[0]
    lengths = [np.diff(model.start) for model in models]

    def joined(name: str, kind: type[np.generic]) -> Any:
        return np.concatenate([np.empty(0, kind), *(getattr(model, name) for model in models)])

    return HingeLossMRF(
        n_variables,
        np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum(),
        joined("variable", np.int32),
        joined("coefficient", np.float64),
        joined("constant", np.float64),
        joined("weight_index", np.int64),
        joined("power", np.uint8),
        joined("kind", np.uint8),
    )


def with_powers(model: HingeLossMRF, weight_index: int, power: int) -> HingeLossMRF:
    """Add the potential ``y^power`` of every variable, of a weight of its own from ``weight_index`` on."""
    n = model.n_variables
    return replace(
        model,
        start=np.append(model.start, model.start[-1] + 1 + np.arange(n)),
        variable=np.append(model.variable, np.arange(n, dtype=np.int32)),
        coefficient=np.append(model.coefficient, np.ones(n)),
        constant=np.append(model.constant, np.zeros(n)),
        weight_index=np.append(model.weight_index, weight_index + np.arange(n)),
        power=np.append(model.power, np.full(n, power, np.uint8)),
        kind=np.append(model.kind, np.full(n, PLAIN, np.uint8)),
    )


def validate(model: HingeLossMRF) -> None:
    """Check the invariants that engines rely on; slow.

    Raises ValueError if shapes or types do not match, a variable, weight index, power or kind is out of
    range, a number is not finite, a row repeats a variable, a constraint has a weight, or a potential
    has none.
    """
    expected: dict[str, tuple[type[np.generic], int]] = {
        "start": (np.int64, model.n_rows + 1),
        "variable": (np.int32, int(model.start[-1])),
        "coefficient": (np.float64, int(model.start[-1])),
        "constant": (np.float64, model.n_rows),
        "weight_index": (np.int64, model.n_rows),
        "power": (np.uint8, model.n_rows),
        "kind": (np.uint8, model.n_rows),
    }
    check_rows(model, expected)
    entry = model.row * max(model.n_variables, 1) + model.variable
    hard = (model.kind == AT_MOST) | (model.kind == EQUAL)
    rules = {
        "a variable is out of range": np.all(
            (model.variable >= 0) & (model.variable < model.n_variables)
        ),
        "a row has a variable twice": len(np.unique(entry)) == len(entry),
        "a coefficient is not finite": np.all(np.isfinite(model.coefficient)),
        "a constant is not finite": np.all(np.isfinite(model.constant)),
        "a kind is not known": np.all(model.kind <= EQUAL),
        "a power is neither 1 nor 2": np.all((model.power == 1) | (model.power == 2)),
        "a constraint has a power other than 1": np.all(model.power[hard] == 1),
        "a constraint has a weight": np.all(model.weight_index[hard] == HARD),
        "a potential has no weight": np.all(model.weight_index[~hard] >= 0),
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise ValueError(f"not a ground model: {'; '.join(broken)}")


def clamp(model: HingeLossMRF, y: Floats, free: Bools) -> HingeLossMRF:
    """Return the model of the free variables, the others having the values ``y``."""
    open_ = free[model.variable]
    constant = np.bincount(
        model.row[~open_], (model.coefficient * y[model.variable])[~open_], model.n_rows
    )
    number = (np.cumsum(free) - 1).astype(np.int32)
    return replace(
        model,
        n_variables=int(free.sum()),
        start=np.append(0, np.cumsum(np.bincount(model.row[open_], minlength=model.n_rows))),
        variable=number[model.variable[open_]],
        coefficient=model.coefficient[open_],
        constant=model.constant + constant,
    )
