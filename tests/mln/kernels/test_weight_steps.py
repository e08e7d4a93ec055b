"""Numbering, effective weights, gaps and steps of the learning kernels, against plain numpy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.kernels import averaging
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.kernels import ground_network
from onlinesrl.mln.kernels import weight_lookup as k
from onlinesrl.mln.kernels.ground_network import ATOMS, DEFINED, ROWS
from onlinesrl.mln.lang import reader
from tests.mln.kernels.test_table import SIZES, table
from tests.support.random_networks import N_WEIGHTS, delta_of, features, ground_weights, networks

PLANS = Layout(compile_program(reader.parse("P(x)\n1 P(x)\n"), ["P"])).plans
number = st.floats(-10, 10, allow_subnormal=False)
values = st.lists(st.tuples(number, number, number), min_size=N_WEIGHTS, max_size=N_WEIGHTS)


def of_values(rows) -> k.Weights:
    """Weights with these base, u and v."""
    weights = table(N_WEIGHTS, 8)
    weights.value[:] = rows
    return weights


# effective weights ---------------------------------------------------------------------------------


@given(networks(), values, st.tuples(number, number))
def test_a_ground_clause_adds_its_sign_times_its_weight(case, rows, scale):
    """A weight is base + cu u + cv v; where a clause is hard nothing is written."""
    net, (cu, cv), value = case[0], scale, np.array(rows)
    weight = np.full(int(net.clause_start[net.size[ROWS]]) + 1, 77.0)

    k.effective(net, value, cu, cv, weight)

    hard = np.repeat(net.row_weight[: net.size[ROWS]] < 0, net.row_len[: net.size[ROWS]])
    expected = ground_weights(net, value @ [1.0, cu, cv])
    np.testing.assert_allclose(weight[:-1], np.where(hard, 77.0, expected), rtol=0, atol=1e-12)
    assert weight[-1] == 77.0


# numbering ------------------------------------------------------------------------------------------

keys = st.tuples(st.integers(-1, 3), st.integers(-1, 3))
soft_rows = st.tuples(st.integers(0, 2), keys, st.integers(0, 5), st.integers(0, 4).map(bool))


def numbered(rows, keyed=(True, True, True)) -> ground_network.Network:
    """A network of rows ``(clause, key, offset, soft)`` that have no weights yet."""
    net = ground_network.network(1, len(rows) + 1, 1, keys=2)
    for r, (clause, key, offset, soft) in enumerate(rows):
        net.row_clause[r], net.row_key[r], net.row_offset[r] = clause, key, offset
        net.row_weight[r] = 0 if soft else -1
        net.row_known[r] = (
            ground_network.KEYED if keyed[clause] or any(key) else ground_network.BARE
        )
        if min(key) < 0:
            net.row_known[r] = ground_network.UNSEEN
    net.size[ROWS] = len(rows)
    return net


@given(
    st.lists(st.tuples(st.booleans(), st.lists(soft_rows, max_size=8)), max_size=5),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_rows_are_numbered_as_by_a_dict(worlds, keyed):
    """Keys of blocks get one while learning; else they, and what is not known, share a clause's own."""
    first, unseen = np.array([100, 200, 300]), np.array([150, 250, 350])
    plans = replace(PLANS, first_weight=first, unseen_weight=unseen)
    weights = replace(table(256, 128), keyed=np.array(keyed, np.uint8))
    known: dict[tuple[int, tuple[int, int]], int] = {}
    for learning, rows in worlds:
        net, expected = numbered(rows, keyed), []
        for clause, key, offset, soft in rows:
            plain = not keyed[clause] and key == (0, 0)
            if soft and not plain and min(key) >= 0 and learning:
                known.setdefault((clause, key), sum(int(SIZES[c]) for c, _ in known))
            shared = int(first[clause] if plain else unseen[clause])
            of = shared if plain else known.get((clause, key), shared)
            expected.append(of + offset if soft else -1)

        assert k.number(plans, net, weights, learning)
        assert net.row_weight[: len(rows)].tolist() == expected
    assert weights.size.tolist() == [sum(int(SIZES[c]) for c, _ in known), len(known)]


def test_numbering_asks_for_room_and_goes_on_from_there():
    plans = replace(PLANS, first_weight=np.zeros(3, np.int64), unseen_weight=np.zeros(3, np.int64))
    rows = [(1, (n, 1), 0, True) for n in range(4)]
    net, small = numbered(rows), table(8, 128)

    assert not k.number(plans, net, small, True)
    assert small.size.tolist() == [6, 2]
    large = replace(small, value=np.zeros((64, 3)), uses=np.zeros(64, np.int64))
    large = replace(large, key=np.vstack([small.key] * 8), block=np.tile(small.block, 8))
    assert k.number(plans, net, large, True)
    assert net.row_weight[:4].tolist() == [0, 3, 6, 9]


# gaps and steps -----------------------------------------------------------------------------------


@st.composite
def gaps(draw: st.DrawFn):
    """A network with two states, some of whose atoms are defined."""
    net, *_ = draw(networks())
    atoms = int(net.size[ATOMS])
    defined = draw(st.lists(st.integers(0, 4), min_size=atoms, max_size=atoms))
    net.fixed[:atoms] = np.where(np.array(defined) == 0, DEFINED, net.fixed[:atoms])
    state = st.lists(st.integers(0, 1), min_size=atoms, max_size=atoms)
    truth = draw(state)
    rival = draw(st.just(truth) | state)
    cost = np.array(draw(st.lists(st.integers(0, 8), min_size=atoms, max_size=atoms))) / 4
    return net, np.array(truth, np.uint8), np.array(rival, np.uint8), cost


def taken(case, weights: k.Weights):
    """Take a gap; what it comes to in plain numpy, and what the kernel returns."""
    net, truth, rival, cost = case
    delta = features(net, truth) - features(net, rival)
    rho = float(np.sum(cost * ((truth != rival) & (net.fixed[: len(truth)] != DEFINED))))
    return delta, rho, k.gap(net, weights, truth, rival, cost)


@given(gaps(), st.data())
def test_a_gap_to_samples_is_the_difference_of_their_mean_features(case, data):
    net, truth, rival, _ = case
    weights = table(N_WEIGHTS, 8)
    states = st.lists(st.sampled_from([truth, rival]), min_size=1, max_size=5)
    truths, samples = data.draw(states), data.draw(states)
    means = [np.mean([features(net, y) for y in of], axis=0) for of in (truths, samples)]
    expected = means[0] - means[1]
    n = k.expected_gap(net, weights, np.stack(truths), np.stack(samples))
    np.testing.assert_allclose(delta_of(weights, n), expected, rtol=0, atol=1e-12)


@given(gaps())
def test_a_gap_is_the_features_of_the_truth_less_the_rivals(case):
    weights = table(N_WEIGHTS, 8)
    delta, expected, (n, rho) = taken(case, weights)

    assert rho == expected
    assert delta_of(weights, n).tolist() == delta.tolist()
    touched = weights.touched[:n].tolist()
    assert len(set(touched)) == n
    assert weights.mark[touched].tolist() == [*range(1, n + 1)]
    assert np.count_nonzero(weights.mark) == n


@given(gaps(), values, number, st.integers(0, 9).map(float))
def test_a_step_is_along_the_gap_and_forgets_it(case, rows, c, s):
    weights, value = of_values(rows), np.array(rows)
    delta, rho, (n, found) = taken(case, weights)

    margin, dot, norm = averaging.measure(weights, n, found)
    assert (margin, dot, norm) == pytest.approx(
        (rho - value[:, 0] @ delta, value[:, 1] @ delta, delta @ delta), abs=1e-9
    )
    assert averaging.move(weights, n, c, s)
    expected = value + np.outer(delta, [0.0, c, c * s])
    np.testing.assert_allclose(weights.value, expected, rtol=0, atol=1e-9)
    assert weights.uses.tolist() == ((delta != 0) & (c != 0)).astype(int).tolist()
    assert not weights.delta.any()
    assert not weights.mark.any()


@given(gaps(), values, st.sampled_from([np.inf, -np.inf, np.nan, 1e151, 1e149]))
def test_a_step_that_is_not_finite_changes_nothing_and_says_so(case, rows, c):
    """1e149 itself is a step; ten times that, as v takes it here, is beyond what weights may be."""
    weights = of_values(rows)
    delta, _, (n, _) = taken(case, weights)
    before = weights.value.copy()

    fits = averaging.move(weights, n, c, 100.0)

    assert fits == (c == 1e149 and not delta.any())
    if not fits:
        assert weights.value.tolist() == before.tolist()
        assert not weights.uses.any()
    assert not weights.delta.any()
    assert not weights.mark.any()
