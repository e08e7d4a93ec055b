"""Pairwise costs: folding, message passing and search, each against all states."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.mln.kernels import branch_and_bound, low_degree_elimination, tree_reweighted
from onlinesrl.mln.kernels.pairwise_mrf import Pairwise, cost, pairwise


@st.composite
def graphs(draw: st.DrawFn) -> Pairwise:
    """Up to six variables of one to four values; some values impossible, some costs equal."""
    n = draw(st.integers(0, 6))
    size = np.array(draw(st.lists(st.integers(1, 4), min_size=n, max_size=n)), np.int64)
    pairs = [(a, b) for b in range(n) for a in range(b)]
    edges = [pair for pair in pairs if draw(st.booleans())]
    low, high = (np.array([e[i] for e in edges], np.int32) for i in (0, 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    digits = draw(st.integers(0, 6))
    made = pairwise(size, low, high)
    made.unary[:] = rng.normal(size=len(made.unary)).round(digits)
    made.table[:] = (3 * rng.normal(size=len(made.table))).round(digits)
    for v in range(n):
        if size[v] > 1 and draw(st.booleans()):
            made.unary[made.start[v] + draw(st.integers(0, int(size[v]) - 1))] = np.inf
    return made


def costs(p: Pairwise) -> dict[tuple[int, ...], float]:
    """The cost of every state."""
    size = np.diff(p.start).tolist()
    found = {}
    for state in product(*map(range, size)):
        total = sum(float(p.unary[p.start[v] + x]) for v, x in enumerate(state))
        for e, (a, b) in enumerate(zip(p.low, p.high, strict=True)):
            table = p.table[p.table_start[e] : p.table_start[e + 1]].reshape(size[a], size[b])
            total += float(table[state[a], state[b]])
        found[state] = total
    return found


def test_the_cost_of_a_state():
    p = pairwise(np.array([2, 3]), np.array([0], np.int32), np.array([1], np.int32))
    p.unary[:] = [1, 2, 10, 20, 30]
    p.table[:] = [100, 200, 300, 400, 500, 600]

    assert cost(p, np.array([1, 2], np.int32)) == 2 + 30 + 600


@given(graphs())
def test_the_rest_of_folding_has_the_same_optimum(p):
    least = min(costs(p).values())
    size = np.diff(p.start)
    folds = low_degree_elimination.folds(size, p.low, p.high, np.zeros(len(size), np.bool_))
    edges = folds.size[low_degree_elimination.EDGES]
    whole = pairwise(size, folds.low[:edges], folds.high[:edges])
    whole.unary[:] = p.unary
    whole.table[: len(p.table)] = p.table

    folded = low_degree_elimination.fold(whole, folds)
    left, kept = low_degree_elimination.core_of(whole, folds)
    state = np.zeros(len(p.start) - 1, np.int32)
    least_left, state[kept] = min((c, s) for s, c in costs(left).items())
    assert folded + least_left == pytest.approx(least, abs=1e-9)
    low_degree_elimination.unfold(whole, folds, state)

    assert costs(p)[tuple(state.tolist())] == pytest.approx(least, abs=1e-9)
    degree = np.bincount(np.concatenate((left.low, left.high)), minlength=len(kept))
    assert all(degree[v] > 2 or _grows(left, v) for v in range(len(kept)))


def _grows(p: Pairwise, v: int) -> bool:
    """Whether folding a variable of two edges would make a larger table than its own two."""
    near = [int(b if a == v else a) for a, b in zip(p.low, p.high, strict=True) if v in (a, b)]
    size = np.diff(p.start)
    return len(near) == 2 and size[near].prod() > size[v] * size[near].sum()


@given(graphs(), st.integers(1, 3))
def test_bounds_hold_for_all_states_and_each_value(p, sweeps):
    by_state = costs(p)
    least = min(by_state.values())
    t = tree_reweighted.messages(p)
    tree_reweighted.reparameterise(p, t)
    last = -np.inf
    for _ in range(sweeps):
        tree_reweighted.sweep(p, t, True)
        tree_reweighted.sweep(p, t, False)
        lowest = tree_reweighted.bound(p, t)
        assert last - 1e-9 <= lowest <= least + 1e-9
        last = lowest
    for v in range(len(p.start) - 1):
        for x in t.value[p.start[v] : p.start[v] + t.count[v]]:
            best = min(c for s, c in by_state.items() if s[v] == x)
            assert lowest + t.excess[p.start[v] + x] <= best + 1e-9
    tree_reweighted.round_off(p, t)
    assert np.isfinite(by_state[tuple(t.state.tolist())])


@given(graphs(), st.integers(1, 8), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 1.0]))
def test_the_search_finds_the_best_states(p, n, seed, share):
    by_state = costs(p)
    visible = np.random.default_rng(seed).random(len(p.unary)) < share
    tree = branch_and_bound.tree(p, n, visible.astype(np.uint8))

    status = branch_and_bound.search(p, tree_reweighted.messages(p), tree, 10**9)

    def key(state):
        return tuple(x if visible[p.start[v] + x] else -1 for v, x in enumerate(state))

    least = dict[tuple[int, ...], float]()
    for state, value in by_state.items():
        least[key(state)] = min(value, least.get(key(state), np.inf))
    expected = sorted(value for value in least.values() if value < np.inf)[:n]
    found = [tuple(state) for state in tree.best[: len(expected)].tolist()]
    assert status == branch_and_bound.PROVEN
    assert tree.cost[: len(expected)] == pytest.approx(expected, abs=1e-7)
    assert np.all(tree.cost[len(expected) :] == np.inf)
    assert [by_state[state] for state in found] == pytest.approx(expected, abs=1e-7)
    assert len({*map(key, found)}) == len(found)
    assert tree.value[branch_and_bound.ROOT] <= tree.cost[0]
