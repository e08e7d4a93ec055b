"""The weights of a chain Markov logic network, learned from and predicted with without grounding."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.averages import AveragedWeights
from onlinesrl.core.counts import BEYOND_RANGE
from onlinesrl.core.errors import InputError
from onlinesrl.core.kernels.averaged import Averaged
from onlinesrl.core.update import Update
from onlinesrl.mln.kernels import chain as k
from onlinesrl.mln.kernels.chain import Chains, Scores


class ChainWeights(AveragedWeights):
    """The weights [row, label] of ``kernels.chain``: rows of the labels before, then of features."""

    arrays: Averaged

    def __init__(self, update: Update):
        super().__init__(update)
        self.labels = 0
        empty = {name: np.zeros((0, 0)) for name in update.columns}
        self._hold({"value": np.zeros((0, 0, 3)), "uses": np.zeros((0, 0), np.int64), **empty})

    def _hold(self, columns: Mapping[str, Any]) -> None:
        """Own columns of weights, each [row, label] or, of ``value``, [row, label, 3]."""
        n = columns["uses"].size
        value, uses = columns["value"].reshape(n, 3), columns["uses"].reshape(n)
        touched = np.zeros(n, np.int64)
        self.arrays = Averaged(value, uses, np.zeros(n), np.zeros(n, np.uint8), touched)
        self.kept = {name: columns[name].reshape(n) for name in self.update.columns}
        self._how = None

    def _columns(self) -> dict[str, Any]:
        value, uses = self.arrays.value, self.arrays.uses
        shape = (-1, self.labels) if self.labels else (0, 0)
        kept = {name: column.reshape(shape) for name, column in self.kept.items()}
        return {"value": value.reshape(*shape, 3), "uses": uses.reshape(shape), **kept}

    def copy(self, features: int | None = None, labels: int | None = None) -> ChainWeights:
        """Return a copy, with room for so many features and labels, both no fewer than now."""
        columns, old = self._columns(), self.labels
        labels = old if labels is None else labels
        rows = labels + (len(columns["uses"]) - old if features is None else features)
        other = copy.copy(self)
        other.scalar, other.labels = self.scalar.copy(), labels
        other._hold({name: _placed(c, old, rows, labels) for name, c in columns.items()})
        return other

    def grown(self, features: int, labels: int) -> ChainWeights:
        """Return these weights if they have room for so many features and labels, else a copy that has."""
        room = len(self._columns()["uses"]) - self.labels
        if labels == self.labels and features <= room:
            return self
        return self.copy(room if features <= room else max(features, 2 * room), labels)

    def averaged(self) -> Floats:
        """Return the averaged weights, [row, label]."""
        cu, cv = self.mean()
        value: Floats = self._columns()["value"]
        return value[:, :, 0] + cu * value[:, :, 1] + cv * value[:, :, 2]

    def learn_chains(self, chains: Chains, order: Sequence[int] | None = None) -> None:
        """Learn from chains, one after the other. Raises InputError where an update overflows."""
        augmented, scores = self.update.loss == "ml", self._room(chains)
        for c in range(len(chains.start) - 1) if order is None else order:
            cu = self.scale()
            n, rho = k.find_gap(chains, c, self.arrays, cu, augmented, self.labels, scores)
            if math.isnan(self.learn(n, rho)):
                raise InputError(f"sample {c}: {BEYOND_RANGE}", "overflow")

    def predict(self, chains: Chains) -> Iterator[list[int]]:
        """Yield the labels of each chain's positions: the most probable labelling."""
        (cu, cv), scores = self.mean(), self._room(chains)
        for c, length in enumerate(np.diff(chains.start).tolist()):
            k.predict(chains, c, self.arrays, cu, cv, self.labels, scores)
            yield scores.path[:length].tolist()

    def marginals(self, chains: Chains) -> Iterator[list[list[float]]]:
        """Yield for each chain the probabilities of each position's labels."""
        (cu, cv), scores = self.mean(), self._room(chains)
        sums, out = np.zeros(self.labels), np.zeros_like(scores.local)
        for c, length in enumerate(np.diff(chains.start).tolist()):
            k.marginals(chains, c, self.arrays, cu, cv, self.labels, scores, sums, out)
            yield out[:length].tolist()

    def _room(self, chains: Chains) -> Scores:
        """Return memory for the scores of the longest chain. Raises InputError for what has no weights."""
        features = len(self._columns()["uses"]) - self.labels
        if not self.labels and len(chains.first) > 1:
            raise InputError("positions cannot be labelled: there is no label yet")
        if (
            chains.feature.max(initial=-1) >= features
            or chains.label.max(initial=-1) >= self.labels
        ):
            raise InputError(f"weights are of {features} features and {self.labels} labels only")
        n = int(np.diff(chains.start).max(initial=1))
        local, best = np.empty((n, self.labels)), np.empty((n, self.labels))
        step, before = np.empty((self.labels, self.labels)), np.zeros((n, self.labels), np.int64)
        return Scores(local, best, step, before, np.zeros(n, np.int64))

    # pickles -------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        own = {
            name: of for name, of in self.__dict__.items() if name not in {"arrays", "kept", "_how"}
        }
        return {"own": own, "columns": self._columns()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state["own"])
        self._hold({name: np.array(column) for name, column in state["columns"].items()})


def _placed(column: Any, old: int, rows: int, labels: int) -> Any:
    """Return a column of ``old`` labels among so many rows and labels, zero elsewhere."""
    placed = np.zeros((rows, labels, *column.shape[2:]), column.dtype)
    placed[:old, :old] = column[:old]
    placed[labels : labels + len(column) - old, :old] = column[old:]
    return placed
