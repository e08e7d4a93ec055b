"""Partitions by the weights of pairs are those of enumeration."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, pairwise
from math import exp, inf

import numpy as np
import pytest
from conftest import soaked

from onlinesrl.entities import partition
from onlinesrl.entities.partition import best_partition, contradiction, probability


def partitions(n: int) -> Iterator[list[int]]:
    """All partitions of n things, by the number of the block of each."""
    if not n:
        yield []
        return
    for blocks in partitions(n - 1):
        for block in range(2 + max(blocks, default=-1)):
            yield [*blocks, block]


def scores(weight: np.ndarray) -> dict[tuple[int, ...], float]:
    """What partitions count that keep together and apart what must be."""
    pairs, found = [*combinations(range(len(weight)), 2)], dict[tuple[int, ...], float]()
    for blocks in partitions(len(weight)):
        within = [weight[i, j] for i, j in pairs if blocks[i] == blocks[j]]
        across = [weight[i, j] for i, j in pairs if blocks[i] != blocks[j]]
        if -inf not in within and inf not in across:
            found[tuple(blocks)] = sum(x for x in within if x < inf)
    return found


def drawn(seed: int, n: int, decided: int) -> np.ndarray:
    """Weights of few and of many digits, of which some say that two must be together, or apart."""
    rng = random.Random(seed)
    weight = np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        weight[i, j] = weight[j, i] = round(rng.gauss(0, 1), rng.choice([0, 1, 9]))
    for _ in range(decided):
        i, j = rng.sample(range(n), 2)
        weight[i, j] = weight[j, i] = rng.choice([inf, -inf])
    return weight


def apart(blocks: tuple[int, ...]) -> list[int]:
    return [blocks.index(block) for block in blocks]


@pytest.mark.parametrize("seed", [*range(60), *map(soaked, range(60, 3_000))])
def test_the_best_partition_and_probabilities_are_those_of_enumeration(seed: int) -> None:
    n = 2 + seed % 6
    weight = drawn(seed, n, seed % 4)
    by_partition = scores(weight)
    chain = contradiction(weight)
    assert (chain is None) == bool(by_partition)
    if chain is not None:
        assert all(weight[i, j] == inf for i, j in pairwise(chain))
        assert weight[chain[0], chain[-1]] == -inf
        return
    best = best_partition(weight)
    assert best.certified and best.gap <= 1e-9
    assert best.score == pytest.approx(max(by_partition.values()), abs=1e-9)
    near = {tuple(apart(x)) for x, score in by_partition.items() if score > best.score - 1e-9}
    assert (*best.first.tolist(),) in near
    total = sum(exp(x) for x in by_partition.values())
    for i, j in combinations(range(n), 2):
        share = sum(exp(x) for blocks, x in by_partition.items() if blocks[i] == blocks[j])
        assert probability(weight, j, i) == pytest.approx(share / total, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_of_nine_things_and_of_extreme_weights_are_those_of_enumeration(
    seed: int,
) -> None:
    for factor in (1, 400):
        weight = factor * drawn(seed, 9, 0)
        by_partition = scores(weight)
        most = max(by_partition.values())
        total = sum(exp(x - most) for x in by_partition.values())
        for i, j in ((0, 8), (3, 1), (4, 5)):
            share = sum(
                exp(x - most) for blocks, x in by_partition.items() if blocks[i] == blocks[j]
            )
            assert probability(weight, i, j) == pytest.approx(share / total, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_sampled_probabilities_are_near_the_exact_ones(seed: int, monkeypatch) -> None:
    """Also where some must be apart, and some are of one block already."""
    weight = drawn(seed, 12, seed)
    pairs = [(0, 1), (2, 9), (11, 5)]
    exact = [probability(weight, *pair) for pair in pairs]
    assert any(0.05 < p < 0.95 for p in exact)
    monkeypatch.setattr(partition, "MOST_EXACT", 0)
    assert [probability(weight, *pair) for pair in pairs] == pytest.approx(exact, abs=0.06)


@pytest.mark.parametrize("work", [0, 10, 1_000])
@pytest.mark.parametrize("seed", range(4))
def test_what_ended_early_is_allowed_and_within_its_gap(seed: int, work: int) -> None:
    weight = drawn(seed, 9, 3)
    if contradiction(weight) is None:
        best, by_partition = best_partition(weight, work), scores(weight)
        blocks = next(x for x in by_partition if apart(x) == best.first.tolist())
        assert by_partition[blocks] == pytest.approx(best.score, abs=1e-9)
        assert max(by_partition.values()) <= best.score + best.gap + 1e-9


def planted(n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights around those of blocks of about twelve things, and these blocks."""
    rng = np.random.default_rng(n)
    block = rng.integers(n // 12, size=n)
    weight = np.where(block[:, None] == block, 1.5, -1.5) + noise * rng.normal(size=(n, n))
    weight = (weight + weight.T) / 2
    np.fill_diagonal(weight, 0.0)
    return weight, block


def test_two_hundred_things_are_divided_as_they_were_drawn() -> None:
    weight, block = planted(200, 0.7)
    best = best_partition(weight, 100_000)
    assert best.certified
    assert np.array_equal(best.together, block[:, None] == block)


def test_a_search_without_a_proof_counts_no_less_than_what_was_drawn() -> None:
    weight, block = planted(60, 2.0)
    best = best_partition(weight, 0)
    drawn_score = weight[block[:, None] == block].sum() / 2
    assert not best.certified
    assert drawn_score <= best.score <= drawn_score + best.gap
