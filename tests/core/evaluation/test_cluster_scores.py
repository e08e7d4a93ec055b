"""Scores of clusters against their definitions, item by item and pair by pair."""

import random
from itertools import combinations
from statistics import mean

import pytest

import onlinesrl as srl


def clusters(seed: int) -> dict[int, set[int]]:
    """The cluster of each of 30 items."""
    rng, groups = random.Random(seed), dict[int, set[int]]()
    for item in range(30):
        groups.setdefault(rng.randrange(8), set()).add(item)
    return {item: group for group in groups.values() for item in group}


def groups(cluster: dict[int, set[int]]) -> set[frozenset[int]]:
    return {frozenset(group) for group in cluster.values()}


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_their_definitions(seed: int) -> None:
    cluster, true = clusters(seed), clusters(seed + 100)
    scores = srl.cluster_scores(groups(cluster), groups(true))
    found, right = (
        {pair for pair in combinations(range(30), 2) if pair[1] in of[pair[0]]}
        for of in (cluster, true)
    )
    assert scores["pairs"]["precision"] == len(found & right) / len(found)
    assert scores["pairs"]["recall"] == len(found & right) / len(right)
    assert scores["pairs"]["f1"] == pytest.approx(
        2 * len(found & right) / (len(found) + len(right))
    )
    precision = mean(len(cluster[x] & true[x]) / len(cluster[x]) for x in range(30))
    recall = mean(len(cluster[x] & true[x]) / len(true[x]) for x in range(30))
    b_cubed = scores["b_cubed"]
    assert b_cubed["precision"] == pytest.approx(precision)
    assert b_cubed["recall"] == pytest.approx(recall)
    assert b_cubed["f1"] == pytest.approx(2 / (1 / precision + 1 / recall))


def test_clusters_that_do_not_fit_are_said() -> None:
    assert srl.cluster_scores([], [])["b_cubed"]["f1"] is None
    assert srl.cluster_scores([["a"], ["b"]], [["a"], ["b"]])["pairs"]["f1"] is None
    with pytest.raises(srl.DataError, match="'b' is in one of clusters and truth"):
        srl.cluster_scores([["a", "b"]], [["a"]])
    with pytest.raises(srl.DataError, match="'a' is in the clusters twice"):
        srl.cluster_scores([["a"], ["a"]], [["a"]])
