"""The weights of a chain Markov logic network, for learning and prediction without grounding."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32, enlarged
from onlinesrl.core.errors import InputError
from onlinesrl.core.kernels.covariance import Covariance
from onlinesrl.core.kernels.dual_block import Block
from onlinesrl.core.online.averaged_weights import BEYOND_RANGE, AveragedWeights
from onlinesrl.core.online.metric_steps import MEMORY
from onlinesrl.core.online.temperature import Temperature, fit
from onlinesrl.core.online.update_rules.rule import NO_COVARIANCE, UNITS, Update, UpdateParams
from onlinesrl.mln.kernels import chain_crf as k
from onlinesrl.mln.kernels.chain_crf import Chains, FeatureWeights, Scores, Sums
from onlinesrl.mln.kernels.chain_variances import Position, learn_by_variances

NO_COLUMN = np.zeros(0)


class ChainWeights(AveragedWeights):
    """The weights [row, label] of ``mln.kernels.chain_crf``.

    The first rows belong to the preceding label, the others to features. All weights start at 0,
    and the number of updates per weight is not counted. Only rows in use take memory. From the first number
    that is not 1, rows have the ``units`` of ``core.online.metric_steps``, float64[row] by name.
    """

    arrays: FeatureWeights

    def __init__(self, update: Update, balanced: bool = False):
        """``balanced``: labels cost the more the rarer they were so far; see ``class_balance``."""
        super().__init__(update)
        self.labels = 0
        self.counts = np.zeros(0, np.int64) if balanced else None
        self.temperature = Temperature() if update.calibrated else None
        self.final = False
        self.units: dict[str, Floats] = {}
        self.known = 0  # features learned from
        empty = {name: np.zeros((0, 0)) for name in update.columns}
        self._hold({"value": np.zeros((0, 0, 2)), **empty}, np.zeros(0, np.int32), 0)

    def _hold(self, columns: Mapping[str, Any], row: Ints32, size: int) -> None:
        """Take over the columns of weights: ``value`` is [row, label, 2], the others [row, label]."""
        value = columns["value"].reshape(-1, 2)
        none, mark = np.zeros(0, np.int64), np.zeros(len(value), np.int32)
        self.arrays = FeatureWeights(
            value, none, np.zeros(0), mark, none, row, np.array([size], np.int64)
        )
        self.optimizer_state = {
            name: c.reshape(-1) for name, c in columns.items() if name != "value"
        }
        self._how = None

    def _columns(self) -> dict[str, Any]:
        """Return the columns, limited to the rows in use."""
        shape = int(self.arrays.size[0]), self.labels
        n = shape[0] * self.labels
        update_columns = {
            name: column[:n].reshape(shape) for name, column in self.optimizer_state.items()
        }
        return {"value": self.arrays.value[:n].reshape(*shape, 2), **update_columns}

    def copy(self, features: int | None = None, labels: int | None = None) -> ChainWeights:
        """Return a copy with room for ``features`` and ``labels``, neither fewer than at present."""
        old = self.labels
        labels = old if labels is None else labels
        row = enlarged(self.arrays.row, len(self.arrays.row) if features is None else features)
        row[row > 0] += labels - old
        other = ChainWeights(self.update)
        other.scalar, other.labels = self.scalar.copy(), labels
        other.counts = None if self.counts is None else enlarged(self.counts, labels)
        other.final, other.units, other.known = self.final, self.units, self.known
        if other.temperature is not None and self.temperature is not None:
            other.temperature.restore(self.temperature.save())
        other._place(self._columns(), old, row)
        return other

    def _place(self, columns: Mapping[str, Any], old: int, row: Ints32) -> None:
        """Copy the columns of ``old`` labels, with room for one row per feature."""
        room, labels = self.labels + len(row), self.labels
        size = len(columns["value"]) + labels - old
        self._hold({name: _placed(c, old, room, labels) for name, c in columns.items()}, row, size)
        steps = np.zeros(labels - old)
        self.units = {
            name: enlarged(np.concatenate([steps, of]), room) for name, of in self.units.items()
        }

    def grown(self, features: int, labels: int) -> ChainWeights:
        """Return these weights, or a larger copy if ``features`` and ``labels`` do not fit."""
        room = len(self.arrays.row)
        if labels == self.labels and features <= room:
            return self
        return self.copy(room if features <= room else max(features, 2 * room), labels)

    def pruned(self, threshold: float) -> tuple[ChainWeights, Ints]:
        """Return the averaged weights beyond ``threshold``, which do not learn, and their features' numbers.

        Features without such a weight are left out, and the others numbered in their order.
        """
        k, weights = self.labels, self.averaged()
        weights[np.abs(weights) <= threshold] = 0.0
        features = np.flatnonzero(weights[k:].any(axis=1))
        value = np.zeros((k + len(features), k, 2))
        value[:k, :, 0], value[k:, :, 0] = weights[:k], weights[k + features]
        other = self.copy()
        other._hold({"value": value}, k + np.arange(len(features), dtype=np.int32), len(value))
        other.final, other.units = True, {}
        return other, features

    def mean(self) -> tuple[float, float]:
        """See ``AveragedWeights.mean``; of ``final`` weights only the mean is left."""
        return (1.0, 0.0) if self.final else super().mean()

    def averaged(self) -> Floats:
        """Return the averaged weights, float64[row, label]: labels first, then all features in order."""
        (cu, cv), row = self.mean(), self.arrays.row
        value: Floats = self._columns()["value"]
        mean = cu * value[:, :, 0] + cv * value[:, :, 1]
        averaged: Floats = enlarged(mean[: self.labels], self.labels + len(row))
        averaged[self.labels :][row > 0] = mean[row[row > 0]]
        return averaged

    def learn_chains(
        self,
        chains: Chains,
        order: Sequence[int] | None = None,
        cost: Floats | None = None,
        unseen: bool = True,
        first: int = 0,
    ) -> None:
        """Learn from chains, one after the other. Raises InputError if an update overflows.

        ``cost`` [label] is what an atom of a position costs, by its true label; by default 1. The temperature
        is fitted to chains that are ``unseen`` so far. Errors number chains from ``first``.
        """
        cost = np.ones(self.labels) if cost is None else cost
        counts = self.counts
        weighted = counts is not None or bool(np.any(cost != 1.0))
        augmented, scores = self.update.loss == "ml", self._room(chains)
        sums = self._sums(scores) if self.update.expects else None
        heat = self._sums(scores) if unseen and self.temperature is not None else None
        self._make_room(chains)
        if len(chains.number) and not self.units and not self.update.covers:
            self._begin_units()
        params: Any = None if self.update.covers else self.how
        variances, position = self._covariance(), Position.zeros(label=self.labels)
        for c in range(len(chains.start) - 1) if order is None else order:
            cu, slope = self.scale(), 0.0
            if heat is not None:
                slope = k.temperature_slope(
                    chains, c, self.arrays, *self._tempered(), self.labels, scores, heat
                )
            if counts is not None:
                labels = chains.label[chains.start[c] : chains.start[c + 1]]
                counts = counts + np.bincount(labels, minlength=self.labels)
                different = max(1, int(np.count_nonzero(counts)))
                cost = counts.sum() / (different * np.maximum(counts, 1))
            if sums is not None and self.update.covers:
                prior, now = self.update.constant, self.scalar
                loss = learn_by_variances(
                    chains, c, self.arrays, variances, prior, now, scores, sums, position
                )
            else:
                factor = 1.0
                if sums is None:
                    n, rho = k.find_gap(
                        chains, c, self.arrays, cu, augmented, self.labels, scores, cost
                    )
                    if weighted:
                        labels = chains.label[chains.start[c] : chains.start[c + 1]]
                        wrong = labels[labels != scores.path[: len(labels)]]
                        factor = float(np.mean(cost[wrong])) if len(wrong) else 1.0
                else:
                    n, rho = k.expected_gap(chains, c, self.arrays, cu, self.labels, scores, sums)
                loss = k.learn_from_gap(chains, c, self.arrays, params, self.scalar, n, rho, factor)
            if math.isnan(loss):
                raise InputError(f"sample {first + c}: {BEYOND_RANGE}", "overflow")
            self.counts = counts
            if heat is not None and self.temperature is not None:
                fit(self.temperature.state, slope)
        self.known = max(self.known, int(chains.feature.max(initial=-1)) + 1)

    def _begin_units(self) -> None:
        """Begin with the unit 1 for all features so far, as their numbers were all 1."""
        row, size = self.arrays.row, self.arrays.size
        new = np.flatnonzero(row[: self.known] == 0)
        row[new] = size[0] + np.arange(len(new))
        size[0] += len(new)
        one = np.zeros(self.labels + len(row))
        one[self.labels : size[0]] = 1.0
        self.units = dict(zip(UNITS, (one, one.copy(), MEMORY * one), strict=True))
        self._how = None

    def _compiled(self, block: Block) -> UpdateParams:
        state = {**self.optimizer_state, **self.units}
        return self.update.compiled(state, block, self.covariance, self.labels)

    def _covariance(self) -> Covariance:
        """Return the variances of the weights, none of which has a slot."""
        columns = [self.optimizer_state.get(name, NO_COLUMN) for name in ("variance", "scale")]
        return replace(NO_COVARIANCE, variance=columns[0], scale=columns[1])

    def _tempered(self) -> tuple[float, float]:
        """Return (cu, cv) of the weights whose marginals are calibrated."""
        (cu, cv), b = self.mean(), 1.0 if self.temperature is None else self.temperature.inverse
        return b * cu, b * cv

    def predict(self, chains: Chains) -> Iterator[list[int]]:
        """Yield the most probable labelling of each chain, one label per position."""
        (cu, cv), scores = self.mean(), self._room(chains)
        for c, length in enumerate(np.diff(chains.start).tolist()):
            k.predict(chains, c, self.arrays, cu, cv, self.labels, scores)
            yield scores.path[:length].tolist()

    def marginals(self, chains: Chains) -> Iterator[list[list[float]]]:
        """Yield, for each chain, the probability of every label at every position."""
        (cu, cv), scores = self._tempered(), self._room(chains)
        sums = self._sums(scores)
        for c, length in enumerate(np.diff(chains.start).tolist()):
            k.marginals(chains, c, self.arrays, cu, cv, self.labels, scores, sums)
            yield sums.probability[:length].tolist()

    def scores(self, chains: Chains) -> Iterator[tuple[Floats, Floats]]:
        """Yield, for each chain, the scores of labels and of steps whose odds ``marginals`` has.

        They are valid until the next chain.
        """
        (cu, cv), scores = self._tempered(), self._room(chains)
        for c, length in enumerate(np.diff(chains.start).tolist()):
            k.score(chains, c, self.arrays, cu, cv, self.labels, scores)
            yield scores.local[:length], scores.step

    def best_labellings(
        self, chains: Chains, best: int
    ) -> Iterator[tuple[list[list[int]], Floats]]:
        """Yield, for each chain, its ``best`` labellings, or all there are, and log P of each."""
        (cu, cv), scores = self._tempered(), self._room(chains)
        sums, (n, labels) = self._sums(scores), scores.local.shape
        room = np.empty((n + 1, labels, best)), np.empty((n + 1, labels, best), np.int64)
        ranked = k.Ranked(*room, np.empty((best, n), np.int64))
        for c, length in enumerate(np.diff(chains.start).tolist()):
            k.score(chains, c, self.arrays, cu, cv, self.labels, scores)
            if not length:
                yield [[]], np.zeros(1)
                continue
            count = k.best_labellings(length, labels, scores, ranked)
            paths = ranked.path[:count, :length]
            steps = scores.step[paths[:, :-1], paths[:, 1:]].sum(1)
            score = scores.local[np.arange(length), paths].sum(1) + steps
            log_p = score - k.sum_product(length, labels, scores, sums)
            yield paths.tolist(), np.minimum(log_p, 0.0)  # rounding may be above 0

    def _room(self, chains: Chains) -> Scores:
        """Return memory for the scores of the longest chain.

        Raises InputError for a feature or a label without weights.
        """
        features = len(self.arrays.row)
        if not self.labels and len(chains.first) > 1:
            raise InputError("positions cannot be labelled: there is no label yet")
        if (
            chains.feature.max(initial=-1) >= features
            or chains.label.max(initial=-1) >= self.labels
        ):
            raise InputError(f"the weights have only {features} features and {self.labels} labels")
        n = int(np.diff(chains.start).max(initial=1))
        local, best = np.empty((n, self.labels)), np.empty((n, self.labels))
        step, before = np.empty((self.labels, self.labels)), np.zeros((n, self.labels), np.int64)
        return Scores(local, best, step, before, np.zeros(n, np.int64))

    @staticmethod
    def _sums(scores: Scores) -> Sums:
        """Return memory for the sums of the longest chain."""
        local, step = scores.local, scores.step
        square, row = np.empty_like(step), np.empty(len(step))
        return Sums(
            np.empty_like(local), square, np.empty_like(local), square.copy(), row, row.copy()
        )

    def _make_room(self, chains: Chains) -> None:
        """Make room for the largest gap of a chain.

        It has two entries per feature and two per position; that to expectations, all labels of each feature
        and all steps.
        """
        start, labels = chains.start, self.labels
        features, positions = np.diff(chains.first[start]), np.diff(start)
        if self.update.expects:
            most = int(features.max(initial=0)) * labels + labels**2
        else:
            most = 2 * int((features + positions).max(initial=0))
        if most > len(self.arrays.touched):
            delta, touched = np.zeros(most), np.zeros(most, np.int64)
            self.arrays = replace(self.arrays, delta=delta, touched=touched)

    # pickles -------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, the rows, and of the columns what is not 0, with a bit for each number."""
        arrays, size = {"arrays", "optimizer_state", "units", "_how"}, int(self.arrays.size[0])
        attributes = {name: value for name, value in self.__dict__.items() if name not in arrays}
        columns = np.dstack([*self._columns().values()])
        nonzero = columns.view(np.int64) != 0
        return {
            "own": attributes,
            "row": zlib.compress(self.arrays.row.tobytes(), 1),
            "units": [zlib.compress(of[:size].tobytes(), 1) for of in self.units.values()],
            "shape": columns.shape,
            "nonzero": zlib.compress(np.packbits(nonzero).tobytes(), 1),
            "values": columns[nonzero],
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state["own"])
        units = [np.frombuffer(zlib.decompress(of)) for of in state["units"]]
        self.units = dict(zip(UNITS, units, strict=False))
        row = np.frombuffer(bytearray(zlib.decompress(state["row"])), np.int32)
        columns = np.zeros(state["shape"])
        bits = np.frombuffer(zlib.decompress(state["nonzero"]), np.uint8)
        nonzero = np.unpackbits(bits, count=columns.size).reshape(columns.shape)
        columns[nonzero.view(np.bool_)] = state["values"]
        others = zip(self.update.columns, np.moveaxis(columns[:, :, 2:], 2, 0), strict=False)
        self._place({"value": columns[:, :, :2], **dict(others)}, self.labels, row)


def _placed(column: Any, old: int, rows: int, labels: int) -> Any:
    """Return a column of ``old`` labels copied into ``rows`` and ``labels``, zero elsewhere."""
    placed = np.zeros((rows, labels, *column.shape[2:]), column.dtype)
    placed[:old, :old] = column[:old]
    placed[labels : labels + len(column) - old, :old] = column[old:]
    return placed
