"""The best partition of some things, by the weight of each pair: correlation clustering.

A pair within a block counts its weight (Bansal, Blum & Chawla, Machine Learning 56, 2004). Where the pairs of
positive weight make up blocks by themselves, these are the best. Else an integer program has an atom for each
pair, with x_ij + x_jk - x_ik <= 1 for all three (Groetschel & Wakabayashi, Mathematical Programming 45,
1989). Of these rules it takes in those that an answer violates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.mln.ground.ground_mrf import GroundMRF, signed
from onlinesrl.mln.kernels.violated_clauses import TOLERANCE

SWEEPS = 100
"""Things are moved one by one at most so often."""
MOST_EXACT = 12
"""Of so many things all partitions are summed up."""
SAMPLES = 1_000
"""So often each thing gets a new block; a tenth of that comes before what counts."""


class Partition(NamedTuple):
    """The ``first`` thing of the block of each, int64[n]; no partition counts more than ``gap`` more."""

    first: Ints
    score: float
    gap: float
    certified: bool

    @property
    def together(self) -> Bools:
        """Which pairs are within a block, bool[n, n]."""
        together: Bools = self.first[:, None] == self.first
        return together


def contradiction(weight: Floats) -> list[int] | None:
    """Return the shortest chain of pairs of weight inf whose two ends have -inf; None: there is none.

    ``weight`` is symmetric, float64[n, n].
    """
    together, ends = weight == np.inf, np.argwhere(np.triu(weight == -np.inf, 1))
    if not len(ends) or not together.any():
        return None
    from scipy.sparse.csgraph import shortest_path

    length, before = shortest_path(together, unweighted=True, return_predecessors=True)
    i, j = min(ends.tolist(), key=lambda pair: (length[*pair], pair))
    if length[i, j] == np.inf:
        return None
    chain = [j]
    while chain[-1] != i:
        chain.append(int(before[i, chain[-1]]))
    return chain[::-1]


def best_partition(weight: Floats, max_work: int | None = None) -> Partition:
    """Return the best partition by the ``weight`` of pairs, float64[n, n], symmetric, 0 on the diagonal.

    Pairs of weight inf are together, those of -inf are not, without a ``contradiction``; both count nothing.
    ``max_work`` ends the search as in ``CuttingPlanes.solve``. Raises Unsolved.
    """
    blocks = _Blocks(weight)
    gain, apart = blocks.gain, blocks.apart
    number = _connected(gain > 0)
    gap, certified = 0.0, True
    if ((number[:, None] == number) & (apart | (gain < 0))).any():
        number, bound, certified = _searched(gain, apart, max_work)
        gap = 0.0 if certified else max(bound - _score(gain, number), 0.0)
    of_things = number[blocks.number]
    score = blocks.score + _score(gain, number)
    return Partition(np.argmax(of_things[:, None] == of_things, axis=1), score, gap, certified)


def probability(weight: Floats, i: int, j: int) -> float:
    """Return the probability that two are in one block, if a partition counts exp of its score.

    It is exact where ``MOST_EXACT`` blocks or fewer are open, and else sampled.
    """
    blocks = _Blocks(weight)
    a, b = int(blocks.number[i]), int(blocks.number[j])
    if a == b or blocks.apart[a, b]:
        return float(a == b)
    gain = np.where(blocks.apart, -np.inf, blocks.gain)
    if len(gain) > MOST_EXACT:
        return _sampled(gain, a, b)
    within, total = _log_sums(gain)
    number = np.arange(len(total))
    both = (number >> a & number >> b & 1).astype(np.bool_)
    of_both = np.logaddexp.reduce(within[both] + total[::-1][both])  # with all others divided
    return float(np.exp(of_both - total[-1]))


def _log_sums(gain: Floats) -> tuple[Floats, Floats]:
    """Return the score of each set as a block, and the log of the sum of exp of its partitions' scores.

    Bit k of the number of a set says whether k is in it. The block of the last thing of a set is one of 2^k;
    so this takes 3^n steps.
    """
    within, total, size = np.zeros(1), np.zeros(1), np.ones(1, np.int64)
    block = others = np.zeros(1, np.int64)  # all two disjoint sets, by the number of their union
    for k in range(len(gain)):
        link = np.zeros(1)
        for i in range(k):
            link = np.concatenate([link, link + gain[k, i]])
        with_last = within + link
        terms = with_last[block] + total[others]
        of_last = np.logaddexp.reduceat(terms, size.cumsum() - size)
        within, total = np.concatenate([within, with_last]), np.concatenate([total, of_last])
        size = np.concatenate([size, 2 * size])
        both = (
            np.stack([block + (1 << k), block], axis=1),
            np.stack([others, others + (1 << k)], axis=1),
        )
        block, others = (
            np.concatenate([x, y.ravel()]) for x, y in zip((block, others), both, strict=True)
        )
    return within, total


def _sampled(gain: Floats, i: int, j: int) -> float:
    """Return the ``probability`` by Gibbs sampling: one thing after the other gets a new block."""
    n, rng, found = len(gain), np.random.default_rng(0), list[float]()
    number = _moved(gain, np.isneginf(gain), np.arange(n))
    count = np.bincount(number, minlength=n + 1)
    for _ in range(SAMPLES):
        for k, noise in enumerate(rng.gumbel(size=(n, n + 1))):
            count[number[k]] -= 1
            number[k] = n  # a block of its own
            total = np.bincount(number, gain[k], minlength=n + 1)
            total[:n][count[:n] == 0] = -np.inf
            if k == i:
                found.append(np.exp(total[number[j]] - np.logaddexp.reduce(total)))
            choice = int(np.argmax(total + noise))
            number[k] = choice if choice < n else np.argmin(count[:n])
            count[number[k]] += 1
    return float(np.mean(found[SAMPLES // 10 :]))


class _Blocks:
    """What pairs of weight inf hold together: ``number`` is the block of each thing.

    ``gain`` is the weight of pairs of blocks, float64[k, k], 0 where they must be ``apart`` or are one, and
    ``score`` that of the pairs within blocks.
    """

    def __init__(self, weight: Floats) -> None:
        together, apart = weight == np.inf, weight == -np.inf
        gain = np.where(together | apart, 0.0, weight)
        self.number, self.score = np.arange(len(weight)), 0.0
        if together.any():
            self.number = _connected(together)
            member = (self.number[:, None] == np.arange(1 + self.number.max())).astype(np.float64)
            gain, apart = member.T @ gain @ member, member.T @ apart @ member > 0
            self.score = float(np.trace(gain)) / 2
            gain[apart] = 0.0
            np.fill_diagonal(gain, 0.0)
        self.gain: Floats = gain
        self.apart: Bools = apart


class _Pairs:
    """The pairs of n things as atoms: ``number`` is that of each, int64[n, n]."""

    def __init__(self, n: int) -> None:
        self.n, self.ends = n, np.triu_indices(n, 1)
        self.number = np.zeros((n, n), np.int64)
        self.number[self.ends] = np.arange(len(self.ends[0]))
        self.number += self.number.T

    def matrix(self, value: Floats) -> Floats:
        """Return values of atoms by their pairs, with 1 for one thing."""
        matrix = np.zeros((self.n, self.n))
        matrix[self.ends] = value
        return matrix + matrix.T + np.eye(self.n)

    def units(self, gain: Floats, apart: Bools) -> tuple[GroundMRF, Floats]:
        """Return the weight of each pair as a soft clause, or a hard one where two must be apart."""
        gains, hard = gain[self.ends], apart[self.ends]
        return self._model(signed(np.arange(len(gains)), ~hard)[:, None], hard), gains

    def rules(self, triples: Ints) -> GroundMRF:
        """Return the rule x_ij ^ x_jk => x_ik for each triple, int64[rules, 3]."""
        i, j, k = triples.T
        atoms = [self.number[i, j], self.number[j, k], self.number[i, k]]
        return self._model(signed(np.stack(atoms, axis=1), [False, False, True]), np.True_)

    def violated(self, x: Floats) -> Ints:
        """Return for each pair that values keep apart the thing that holds it together most, if any does."""
        excess, by = np.full((self.n, self.n), TOLERANCE), np.full((self.n, self.n), -1)
        for j in range(self.n):
            of_j = x[j][:, None] + x[j] - 1.0 - x
            of_j[j], of_j[:, j] = 0.0, 0.0
            more = of_j > excess
            excess[more], by[more] = of_j[more], j
        i, k = np.nonzero(np.triu(by >= 0, 1))
        return np.stack([i, by[i, k], k], axis=1)

    def _model(self, literals: NDArray[np.int32], hard: Bools | np.bool_) -> GroundMRF:
        rows, length = literals.shape
        atoms = len(self.ends[0])
        return GroundMRF(
            n_atoms=atoms,
            start=length * np.arange(rows + 1),
            literals=literals.ravel(),
            hard=np.broadcast_to(hard, rows).copy(),
            group=np.full(atoms, -1, np.int32),
            exactly=np.zeros(0, np.bool_),
        )


def _searched(gain: Floats, apart: Bools, max_work: int | None) -> tuple[Ints, float, bool]:
    """Return the number of the block of each thing, the most that any blocks count, and whether it is met."""
    from onlinesrl.mln.inference.cutting_planes import CuttingPlanes

    pairs = _Pairs(len(gain))

    def violated(value: Floats, conflicts: bool) -> tuple[GroundMRF, Floats] | None:
        if conflicts or not len(new := pairs.violated(pairs.matrix(value))):
            return None
        return pairs.rules(new), np.zeros(len(new))

    model, gains = pairs.units(gain, apart)
    answer = CuttingPlanes(model, gains, violated).solve(max_work)
    number = _connected(pairs.matrix(answer.state.astype(np.float64)) > 0)
    if not answer.certified:
        starts = (number, np.arange(pairs.n))
        number = max((_moved(gain, apart, x) for x in starts), key=lambda x: _score(gain, x))
    return number, answer.bound, answer.certified


def _moved(gain: Floats, apart: Bools, number: Ints) -> Ints:
    """Move things one by one to the block, or out of any, where they count most, until none does more."""
    gain, number = np.where(apart, -np.inf, gain), number.copy()
    for _ in range(SWEEPS):
        before = number.copy()
        for i in range(len(gain)):
            total = np.bincount(number, gain[i], minlength=len(gain) + 1)
            empty = np.bincount(number, minlength=len(total)) == 0
            total[empty] = 0.0
            if total.max() > total[number[i]]:
                number[i] = np.argmax(total)
        if np.array_equal(number, before):
            break
    return number


def _score(gain: Floats, number: Ints) -> float:
    return float(gain[number[:, None] == number].sum()) / 2


def _connected(joined: Bools) -> Ints:
    """Return the number of the part of each thing that is connected by these pairs, in their order."""
    number = np.full(len(joined), -1)
    for start in range(len(joined)):
        if number[start] < 0:
            part = np.arange(len(joined)) == start
            while (further := joined[part].any(axis=0) & ~part).any():
                part |= further
            number[part] = number.max() + 1
    return number
