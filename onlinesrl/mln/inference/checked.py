"""Engines of somebody's own for Markov logic: their states are checked, and never certified."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible, ModuleError, Unsolved
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.inference.protocols import Solution


@dataclass(frozen=True)
class Checked:
    """A ``MapEngine`` by a search called ``name``, which is not believed to prove anything.

    It gets copies, so that nothing it writes changes the model by which its state is checked.
    """

    name: str
    search: Callable[[GroundMRF, Floats, Floats], State]

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``; never certified, with an infinite bound. Raises ModuleError."""
        gain = np.zeros(model.n_atoms) if bonus is None else bonus
        try:
            given = np.asarray(self.search(deepcopy(model), weight.copy(), gain.copy()))
        except Infeasible as error:
            raise Unsolved(f"{self.name} finds no feasible state: {error}") from error
        if given.shape != (model.n_atoms,) or not np.all((given == 0) | (given == 1)):
            raise ModuleError(f"{self.name}: expected a state of {model.n_atoms} zeros and ones")
        state = given.astype(np.uint8)
        if not model.feasible(state):
            raise ModuleError(f"{self.name}: its state breaks a hard clause or a group of atoms")
        score = model.score(state, weight, bonus)
        return Solution(state, score, np.inf, self.name, certified=False)
