"""Elimination in integers, which sums of any size do not round: for weights that are lost in sums of doubles.

Doubles are whole multiples of one power of two, so that Python's integers add them exactly. Hard clauses
cost more than all others together.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.clique_elimination import Variables, probabilities, shape_among
from onlinesrl.mln.inference.protocols import Marginals, Solution, value

MAX_TABLE, MAX_CELLS = 1 << 10, 1 << 16
"""Cells of a table, and of all: each takes some 0.05 us for every clause on its variables."""
NEVER = 1000
"""A hard clause costs so much more than all others: exp(-1000) is 0 in a double."""

Integers = NDArray[np.object_]


class Exactly:
    """Max-sum and sum-product elimination. Raises Wide where the tables would be too large, Infeasible."""

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``; ties go to the first value of each variable."""
        scores = _Scores.of(model, weight, bonus)
        cliques, total = scores.variables.cliques, scores.constant
        for v, rest in cliques.items():
            best = scores.tables[v].max(axis=0)
            if rest:
                scores.send(v, best)
            else:
                total += best
        scores.check(total)
        values: dict[int, int] = {}
        for v, rest in reversed(cliques.items()):
            of_value = np.moveaxis(scores.tables[v], 0, -1)[tuple(values[u] for u in rest)]
            values[v] = int(of_value.argmax())
        state = scores.variables.state(values)
        score = value(model, state, weight, bonus)
        return Solution(state, score, score, "elimination", certified=True)

    def marginals(self, model: GroundMRF, weight: Floats) -> Marginals:
        """See ``MarginalEngine.marginals``.

        A message is an integer, which is the maximum, and the logarithm of what the sum has beyond it.
        """
        scores = _Scores.of(model, weight, None)
        variables, log_z, total = scores.variables, 0.0, scores.constant
        beyond = {v: np.zeros(shape) for v, shape in variables.shapes().items()}
        messages: dict[int, Floats] = {}
        for v, rest in variables.cliques.items():
            top = scores.tables[v].max(axis=0)
            beyond[v] += scores.below(scores.tables[v] - top)
            messages[v] = np.logaddexp.reduce(beyond[v], axis=0)
            if rest:
                scores.send(v, top)
                shape = shape_among(variables.cliques, v, messages[v])
                beyond[rest[0]] += messages[v].reshape(shape)
            else:
                total, log_z = total + top, log_z + float(messages[v])
        scores.check(total)
        probabilities(variables.cliques, beyond, messages)
        log_z += float(Fraction(total, scores.unit))
        return Marginals(variables.marginals(beyond), log_z, "exact", 0)


class _Scores(NamedTuple):
    """The tables of the variables, in units of ``1 / unit``; ``most`` is the sum of all soft weights."""

    variables: Variables
    tables: dict[int, Integers]
    constant: int
    unit: int
    most: int

    @classmethod
    def of(cls, model: GroundMRF, weight: Floats, bonus: Floats | None) -> _Scores:
        """Return the tables of a model. Raises Wide."""
        variables = Variables(model, MAX_TABLE, MAX_CELLS)
        gains = weight.tolist() if bonus is None else [*weight.tolist(), *bonus.tolist()]
        ratios = [gain.as_integer_ratio() for gain in gains]
        unit = max((below for _, below in ratios), default=1)
        whole = [above * (unit // below) for above, below in ratios]
        most = sum(map(abs, whole))
        hard = -(2 * most + NEVER * unit)
        tables = {v: np.full(shape, 0, np.object_) for v, shape in variables.shapes().items()}
        constant = 0
        units = [(atom,) for atom in range(1, len(gains) - model.n_clauses + 1)]
        is_hard = [*model.hard.tolist(), *(False for _ in units)]
        for clause, gain, never in zip([*variables.clauses, *units], whole, is_hard, strict=True):
            axes = variables.axes(clause)
            both = np.array([hard if never else 0, 0 if never else gain], np.object_)
            score = both[variables.true(clause, axes).astype(np.intp)]
            if axes:
                tables[axes[0]] += score
            else:
                constant += score[()]
        return cls(variables, tables, constant, unit, most)

    def send(self, v: int, message: Integers) -> None:
        """Add a variable's message to the table of the first of its neighbours."""
        to = self.variables.cliques[v][0]
        self.tables[to] += message.reshape(shape_among(self.variables.cliques, v, message))

    def below(self, difference: Integers) -> Floats:
        """Return differences from a maximum as doubles, whatever is below ``-NEVER`` as that."""
        least = -NEVER * self.unit
        return np.array(np.maximum(difference, least) / self.unit, np.float64)

    def check(self, total: int) -> None:
        """Raise Infeasible where the best total breaks a hard clause."""
        if total < -self.most:
            raise Infeasible("no state satisfies the hard clauses and the groups")
