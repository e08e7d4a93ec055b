"""Maximum pseudo-likelihood (Besag 1975; Srinivasan 2020, equations 2.16 and 2.17).

The conditional density of one variable, the others as in the truth, is ``exp(-w . phi(t)) / Z`` over the
values t that hard rules leave it. Integrals over t are by Gauss-Legendre quadrature, whose nodes do not
depend on the weights: the potentials there are computed once. In the gradient each observed potential is
subtracted once for every open variable in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.io.config_types import Positive
from onlinesrl.core.learning.batch import BatchLearner, Learned, LearningError, Trace, Watch
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HINGE, HingeLossMRF
from onlinesrl.psl.kernels.pseudo_likelihood import pseudo_likelihood
from onlinesrl.psl.learning.problem import PslProblem

PANELS, NODES = 8, 8
"""Panels of [0, 1], and nodes in each."""
NARROW = 1e-6
"""A variable that hard rules leave less room than this has no density."""


class Mple(BatchLearner):
    """Maximum pseudo-likelihood: each variable is predicted from the truth of all others."""

    name = "mple"
    prior_sd: Positive = 10.0
    """the standard deviation of a Gaussian prior of every weight, which keeps weights finite."""

    def learn(self, problem: PslProblem, watch: Watch) -> Learned:
        """Maximise by L-BFGS over w >= 0; the objective is the negative logarithm, with the prior.

        Raises LearningError where hard rules leave no variable any room.
        """
        from scipy.optimize import minimize

        trace, soft, precision = Trace(watch), problem.soft, self.prior_sd**-2
        _ = problem.observed  # whose truth must be known
        conditionals = conditionals_of(problem.model, problem.truth, len(problem.start))
        if not len(conditionals.width):
            raise LearningError(
                f"{problem.program.file}: hard rules fix every target, given the others; mple cannot "
                "learn from them"
            )

        def loss(w: Floats) -> tuple[float, Floats]:
            value, gradient = conditionals.value(problem.whole(w))
            return precision / 2 * float(w @ w) - value, precision * w - gradient[soft]

        def tell(intermediate_result: Any) -> None:  # SciPy goes by this name
            trace.add(float(intermediate_result.fun))

        start = problem.start[soft]
        trace.add(loss(start)[0])
        result = minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * len(start),
            callback=tell,
            options={"ftol": 1e-12, "gtol": 1e-8, "maxiter": 1000},
        )
        stats = {"variables": len(conditionals.width), "evaluations": int(result.nfev)}
        warnings = [] if result.success else [f"L-BFGS ended early: {result.message}"]
        return Learned(problem.whole(result.x), trace.steps, stats, warnings)


@dataclass(frozen=True, eq=False)
class Conditionals:
    """The one-variable conditionals of a model at the truth.

    A pair is a variable and a rule in some potential of which it is: ``variable`` and ``rule``
    int64[pairs], variables ascending. ``at_nodes`` float64[pairs, nodes] and ``at_truth`` float64[pairs] are
    the sums of these potentials; ``width`` float64[variables] is the room that hard rules leave, and
    ``quadrature`` float64[nodes] the weights of the nodes, of sum 1.
    """

    variable: Ints
    rule: Ints
    at_nodes: Floats
    at_truth: Floats
    width: Floats
    quadrature: Floats

    def value(self, weights: Floats) -> tuple[float, Floats]:
        """Return the logarithm of the pseudo-likelihood, and its gradient, float64[rules]."""
        gradient, density = np.zeros(len(weights)), np.empty_like(self.quadrature)
        start = np.searchsorted(self.variable, np.arange(len(self.width) + 1))
        arrays = start, self.rule, self.at_nodes, self.at_truth, self.width, self.quadrature
        return pseudo_likelihood(*arrays, weights, density, gradient), gradient


def conditionals_of(model: HingeLossMRF, truth: Floats, rules: int) -> Conditionals:
    """Return the conditionals of the variables that are in a potential and have room."""
    low, high = _room(model, truth)
    row, variable = model.row, model.variable.astype(np.int64)
    open_ = (high - low > NARROW)[variable] & (model.weight_index[row] >= 0)
    row, variable, q = row[open_], variable[open_], model.coefficient[open_]
    rest = model.forms(truth)[row] - q * truth[variable]
    x, gauss = np.polynomial.legendre.leggauss(NODES)  # the composite rule, on [0, 1]
    x = (np.arange(PANELS)[:, None] / PANELS + (x + 1) / (2 * PANELS)).ravel()
    quadrature = np.tile(gauss / (2 * PANELS), PANELS)
    pair, inverse = np.unique(variable * rules + model.weight_index[row], return_inverse=True)
    variable_of, rule = pair // rules, pair % rules
    at_nodes = np.empty((len(pair), len(x)))
    for k, node in enumerate(x):
        t = low[variable] + (high - low)[variable] * node
        at_nodes[:, k] = np.bincount(inverse, _phi(model, row, rest + q * t), len(pair))
    at_truth = np.bincount(inverse, _phi(model, row, rest + q * truth[variable]), len(pair)).astype(
        np.float64
    )
    variables, number = np.unique(variable_of, return_inverse=True)
    return Conditionals(number, rule, at_nodes, at_truth, (high - low)[variables], quadrature)


def _phi(model: HingeLossMRF, row: Ints, form: Floats) -> Floats:
    """Return the potentials of rows at values of their forms."""
    values: Floats = (
        np.where(model.kind[row] == HINGE, np.maximum(form, 0.0), form) ** model.power[row]
    )
    return values


def _room(model: HingeLossMRF, truth: Floats) -> tuple[Floats, Floats]:
    """Return the least and greatest value that hard rules leave each variable, the others as in the truth."""
    row, variable, q = model.row, model.variable, model.coefficient
    hard = (model.kind[row] >= AT_MOST) & (q != 0)
    row, variable, q = row[hard], variable[hard], q[hard]
    at = truth[variable] - model.forms(truth)[row] / q
    low, high = np.zeros(len(truth)), np.ones(len(truth))
    equal = model.kind[row] == EQUAL
    above, below = equal | (q > 0), equal | (q < 0)
    np.minimum.at(high, variable[above], at[above])
    np.maximum.at(low, variable[below], at[below])
    return low, high
