"""The rival of a narrow world, against enumeration of its states."""

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.kernels import averaging
from onlinesrl.mln.kernels import elimination_order, predict_and_learn, prediction_counts
from onlinesrl.mln.kernels.ground_network import ATOMS, OPEN, ROWS
from tests.mln.kernels.test_weight_steps import number, of_values
from tests.support.random_networks import N_WEIGHTS, delta_of, feasible, features, networks
from tests.support.small_learners import new_learner

values = st.lists(st.tuples(number, number, number), min_size=N_WEIGHTS, max_size=N_WEIGHTS).map(
    np.array
)


@cache
def learner() -> Any:
    made = new_learner()
    made.compile()
    return made


def prepared(net, rows, cells=1 << 12):
    """Tables, the rival's of so many ``cells``, weights, their room, and states of a network."""
    tables = elimination_order.structure_memory(len(net.var_of), len(net.row_len), 1 << 12, 1 << 16)
    assert elimination_order.structure(net, tables) == elimination_order.SOLVED
    room, states = (
        np.zeros(int(net.clause_start[net.size[ROWS]]) + 1),
        np.zeros((3, len(net.var_of))),
    )
    state = prediction_counts.State(
        *states.astype(np.uint8), np.ones(len(net.var_of)), np.full(len(net.var_of), 9.0)
    )
    return replace(
        learner().worlds.memory,
        net=net,
        structure=tables,
        rival=replace(tables, unary=tables.unary.copy(), table=tables.table[:cells].copy()),
        weights=of_values(rows),
        weight=room,
        more=room.copy(),
        state=state,
    )


def ranked(net, weights, bonus):
    """All states that are possible with their scores and bonus, best first."""
    every = (np.array(x, np.uint8) for x in product((0, 1), repeat=int(net.size[ATOMS])))
    scored = [(weights @ features(net, s) + bonus @ s, s) for s in every if feasible(net, s)]
    return sorted(scored, key=lambda pair: -pair[0])


def is_best(state, possible) -> None:
    """The state is a best one; which one is said where only one is."""
    best = possible[0][0]
    equal = [s.tolist() for score, s in possible if score >= best - 1e-6]
    assert state.tolist() in equal


@given(networks(), values, st.integers(1, 9), st.tuples(*3 * [st.booleans()]), st.data())
def test_a_rival_is_the_best_state_and_its_gap_that_to_the_truth(case, rows, t, how, data):
    """Augmented: of most score and label loss, which is that of open atoms."""
    net, (augmented, shrinks, filled) = case[0], how
    atoms, cu = int(net.size[ATOMS]), 1 / t if shrinks else 1.0
    memory = prepared(net, rows, data.draw(st.sampled_from([0, 1 << 12])))
    weights, state = memory.weights, memory.state
    truth = np.array(data.draw(st.lists(st.integers(0, 1), min_size=atoms, max_size=atoms)))
    state.truth[:atoms] = truth
    cost = np.array(data.draw(st.lists(st.integers(0, 8), min_size=atoms, max_size=atoms))) / 4
    state.cost[:atoms] = cost
    loss = np.where(truth == 1, -cost, cost) * (net.fixed[:atoms] == OPEN) * augmented
    possible = ranked(net, rows @ [1.0, cu, 0.0], loss)

    if not possible:
        return
    memory = replace(memory, augmented=augmented, how=replace(memory.how, shrinks=shrinks))
    memory.scalar[averaging.T] = t
    if filled:
        predict_and_learn.solve(memory, 0.5, -0.25, True)
        is_best(state.predicted[:atoms], ranked(net, rows @ [1.0, 0.5, -0.25], np.zeros(atoms)))
    n, rho = predict_and_learn.find_gap(memory, filled, False)

    rival = state.rival[:atoms]
    is_best(rival, possible)
    assert rho == np.sum(cost * (truth != rival))
    assert delta_of(weights, n).tolist() == (features(net, truth) - features(net, rival)).tolist()
