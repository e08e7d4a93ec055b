"""Clauses of two literals as rows: the same states, and few rows where the clauses form cliques."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.mln.inference.clique_merging import merged


def rows(pairs, first=0):
    start, literals = merged(np.array(pairs, np.int32).reshape(-1, 2), first)
    return [literals[i:j].tolist() for i, j in pairwise(start.tolist())]


def states(atoms: int, least) -> set[tuple[bool, ...]]:
    """The states in which of each row's literals at least so many are true."""
    return {
        state
        for state in product((False, True), repeat=atoms)
        if all(sum(state[abs(x) - 1] == (x > 0) for x in row) >= n for row, n in least)
    }


@pytest.mark.parametrize("seed", range(40))
def test_rows_allow_the_states_of_the_clauses(seed):
    rng = np.random.default_rng(seed)
    nodes = [sign * a for a in range(1, 7) for sign in (1, -1)]
    every = [pair for pair in combinations(nodes, 2) if pair[0] != -pair[1]]
    pairs = [every[i] for i in rng.permutation(len(every))[: rng.integers(len(every))]]
    first = int(rng.integers(len(pairs) + 1))
    cliques = rows(pairs, first)
    given = {frozenset(pair) for pair in pairs}
    covered = {frozenset(pair) for row in cliques for pair in combinations(row, 2)}
    assert {frozenset(pair) for pair in pairs[first:]} <= covered <= given
    assert states(6, [(row, len(row) - 1) for row in rows(pairs)]) == states(
        6, [(row, 1) for row in pairs]
    )
    assert sum(map(len, cliques)) <= 2 * len(pairs)


def test_a_clique_is_one_row():
    members = [-3, -1, 2, -7, -5]
    pairs = [*combinations(members, 2)]
    assert [sorted(row) for row in rows(pairs)] == [sorted(members)]
    assert [sorted(row) for row in rows(pairs, first=len(pairs) - 1)] == [sorted(members)]
    assert rows([]) == []
    bipartite = [(-a, -b) for a in range(1, 5) for b in range(5, 9)]
    assert len(rows(bipartite)) == 16


@pytest.mark.parametrize("lazy", ["auto", "never"])
def test_a_one_to_one_matching_is_certified_without_a_search(lazy):
    """With clauses of two literals alone its relaxation is half of each pair."""
    rng = np.random.default_rng(0)
    rules = """W(a, b): real
M(a, b)
1 W(x, y) ^ M(x, y)
!M(x, y) v !M(x, z) v y = z.
!M(y, x) v !M(z, x) v y = z.
"""
    gain = np.round(rng.normal(0.0, 1.0, (18, 18)), 3)
    facts = {"W": {(f"A{i:02}", f"B{j:02}"): float(w) for (i, j), w in np.ndenumerate(gain)}}
    answer = srl.infer(rules, facts, "M", lazy=lazy)
    from scipy.optimize import linear_sum_assignment

    best = np.maximum(gain, 0.0)[linear_sum_assignment(np.maximum(gain, 0.0), maximize=True)].sum()
    assert sum(facts["W"][row] for row, x in answer["M"].items() if x) == pytest.approx(best)
    assert answer.certified
    assert answer.stats["route"] in (["lp"] if lazy == "auto" else ["ilp", "branch-and-bound"])
