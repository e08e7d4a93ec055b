"""A network as a GroundMRF, evidence folded in or not: both have the network's states and scores."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.mln.ground import ground_mrf
from onlinesrl.mln.ground.ground_mrf import clause_model, clause_weights, network_of, validate
from onlinesrl.mln.kernels.ground_network import ATOMS
from tests.support.ground_mrfs import Problem, problems
from tests.support.random_networks import feasible, features, ground_weights, networks


@pytest.mark.parametrize("folded", [True, False])
@given(networks())
def test_the_states_and_up_to_a_constant_the_scores_are_the_networks(folded, case):
    net, weights, _ = case
    model, place = clause_model(net, folded)
    validate(model)
    weight = clause_weights(model, place, ground_weights(net, weights))
    every = [np.array(x, np.uint8) for x in product((0, 1), repeat=int(net.size[ATOMS]))]
    possible = [state for state in every if feasible(net, state)]

    assert [tuple(s) for s in every if model.feasible(s)] == [tuple(s) for s in possible]
    shift = [weights @ features(net, s) - model.score(s, weight) for s in possible]
    assert np.ptp(shift or [0.0]) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("folded", [True, False])
@given(networks())
def test_blocks_of_rows_change_nothing(folded, case):
    net = case[0]
    expected, places = clause_model(net, folded)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ground_mrf, "LITERALS", 3)
        found, place = clause_model(net, folded)
    assert place.tolist() == places.tolist()
    for name in ("start", "literals", "hard", "group", "exactly"):
        array, other = getattr(found, name), getattr(expected, name)
        assert array.dtype == other.dtype and array.tolist() == other.tolist()


@given(problems())
def test_a_model_comes_back_from_its_network(problem: Problem):
    """Atoms in another order, the same clauses one by one."""
    model = problem.model
    net, order = network_of(model)
    again, place = clause_model(net)

    assert sorted(order.tolist()) == list(range(model.n_atoms))
    assert place.tolist() == list(range(model.n_clauses))
    assert again.hard.tolist() == model.hard.tolist()
    assert clause_weights(again, place, problem.weights).tolist() == problem.weights.tolist()
    for i, j in zip(again.start[:-1], again.start[1:], strict=True):
        named = {int(np.sign(x)) * int(order[abs(x) - 1] + 1) for x in again.literals[i:j]}
        assert named == {*model.literals[i:j].tolist()}
    for state in (np.array(x, np.uint8) for x in product((0, 1), repeat=min(model.n_atoms, 6))):
        whole = np.zeros(model.n_atoms, np.uint8)
        whole[: len(state)] = state
        assert again.feasible(whole[order]) == model.feasible(whole)
