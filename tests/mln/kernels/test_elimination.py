"""Elimination orders and max-sum elimination, against brute force, dynamic programs and arithmetic."""

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.convert import clause_model, clause_weights, network_of
from onlinesrl.mln.ground.ground_mrf import validate
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.kernels import elimination, elimination_order, ground_network
from tests.support.ground_mrfs import clause_model as model_of
from tests.support.random_networks import ground_weights, networks

LARGEST = 14
"""The atoms of a ring."""


def memory(net: ground_network.Network, arcs: int = 1 << 12, cells: int = 1 << 16):
    return elimination_order.structure_memory(len(net.var_of), len(net.row_len), arcs, cells)


def maximise(net: ground_network.Network, weight, bonus=None):
    """Return the value that elimination reports and its state, by weights of the ground clauses."""
    st_ = memory(net)
    assert elimination_order.structure(net, st_) == elimination_order.SOLVED
    state = np.zeros(len(net.var_of), np.uint8)
    bonus = np.zeros(len(net.var_of)) if bonus is None else bonus
    found = elimination.eliminate(net, st_, weight, bonus, state)
    return found, state[: net.size[ground_network.ATOMS]]


def agrees_with_brute_force(net: ground_network.Network, weight, bonus) -> None:
    model, place = clause_model(net, folded=False)
    validate(model)
    found, state = maximise(net, weight, np.append(bonus, 0.0))
    own = clause_weights(model, place, weight)
    try:
        best = Brute().solve(model, own, bonus=bonus)
    except Infeasible:
        assert found == -np.inf
        return
    assert found > -np.inf
    assert model.feasible(state)
    score = model.score(state, own) + bonus[state == 1].sum()
    assert score == pytest.approx(best.score, abs=1e-9)
    second = Brute().second_best(model, own, best.state, bonus)
    if second is None or second.score < best.score - 1e-6:
        assert state.tolist() == best.state.tolist()


@given(networks())
def test_runs_and_groups_agree_with_brute_force(case):
    net, weights, bonus = case
    agrees_with_brute_force(net, ground_weights(net, weights), bonus)


def random_clauses(edges, rng: np.random.Generator) -> list:
    """For each set of atoms two clauses with random signs and weights of their own."""
    signed = [
        [int(a + 1) * int(rng.choice([-1, 1])) for a in atoms] for atoms in edges for _ in (0, 1)
    ]
    return list(zip(rng.normal(size=len(signed)).tolist(), signed, strict=True))


def grid(rows: int, columns: int) -> list[tuple[int, ...]]:
    cell = np.arange(rows * columns).reshape(rows, columns)
    across, down = (cell[:, :-1], cell[:, 1:]), (cell[:-1], cell[1:])
    return [
        *((a,) for a in cell.flat),
        *zip(across[0].flat, across[1].flat, strict=True),
        *zip(down[0].flat, down[1].flat, strict=True),
    ]


def test_a_grid_of_width_four_equals_its_column_by_column_program():
    """4 x 30 atoms: the columns' 16 states one after the other."""
    rng, length = np.random.default_rng(5), 30
    edges = grid(length, 4)
    clauses = random_clauses(edges, rng)
    model, weights = model_of(4 * length, clauses)
    bits = (np.arange(16)[:, None] >> np.arange(4)) & 1

    best = np.zeros(16)
    for row in range(length):
        scores = np.zeros((16, 16))
        for weight, literals in clauses:
            atoms = [abs(x) - 1 for x in literals]
            if max(atoms) // 4 != row:
                continue
            true = np.zeros((16, 16), bool)
            for x, a in zip(literals, atoms, strict=True):
                holds = bits[:, a % 4] == (x > 0)
                true |= holds[None, :] if a // 4 == row else holds[:, None]
            scores += weight * true
        best = (best[:, None] + scores).max(axis=0)

    _, state = maximise(network_of(model)[0], weights)
    assert model.score(state, weights) == pytest.approx(best.max(), abs=1e-9)


def status_of(edges, atoms: int, **room: int) -> int:
    model, _ = model_of(atoms, random_clauses(edges, np.random.default_rng(0)))
    net, _ = network_of(model)
    return elimination_order.structure(net, memory(net, **room))


def test_wide_graphs_are_told():
    clique = [(a, b) for a in range(30) for b in range(a)]

    assert status_of(clique, 30) == elimination_order.WIDE
    assert status_of(grid(20, 20), 400, arcs=1 << 14, cells=1 << 20) == elimination_order.WIDE
    assert status_of(grid(20, 4), 80) == elimination_order.SOLVED
    size = elimination_order.MAX_TABLE // 100  # two very large groups: known before they take room
    groups = [(True, [*range(size)]), (True, [*range(size, 2 * size)])]
    net, _ = network_of(model_of(2 * size, [(1.0, [-1, -(size + 1)])], groups)[0])
    assert elimination_order.structure(net, memory(net, cells=16)) == elimination_order.WIDE


def test_an_empty_hard_clause_is_a_contradiction():
    net, _ = network_of(model_of(2, [(None, [1]), (None, []), (1.0, [1, 2])])[0])
    assert elimination_order.structure(net, memory(net)) == elimination_order.CONTRADICTION


@pytest.mark.parametrize("room", [{"arcs": 2}, {"cells": 8}, {"arcs": 26, "cells": 60}])
def test_without_room_it_asks_for_more_and_with_it_solves(room):
    rng = np.random.default_rng(8)
    clauses = random_clauses([(a, (a + 1) % LARGEST) for a in range(LARGEST)], rng)
    model, weights = model_of(LARGEST, clauses)
    net, _ = network_of(model)
    arcs, cells = room.get("arcs", 1 << 10), room.get("cells", 1 << 10)

    asked = 0
    while (
        elimination_order.structure(net, st_ := memory(net, arcs, cells))
        == elimination_order.TABLES_FULL
    ):
        arcs, cells, asked = 2 * arcs, 2 * cells, asked + 1
    state = np.zeros(LARGEST + 1, np.uint8)
    elimination.eliminate(net, st_, weights, np.zeros(LARGEST + 1), state)

    assert asked > 0
    best = Brute().solve(model, weights)
    assert model.score(state[:LARGEST], weights) == pytest.approx(best.score, abs=1e-9)


def test_ties_go_to_none_and_then_to_the_first_value():
    model, ones = model_of(4, [(1.0, [1, 2])], [(False, [0, 1]), (True, [2, 3])])
    net, _ = network_of(model)

    assert maximise(net, 0 * ones)[1].tolist() == [0, 0, 1, 0]
    assert maximise(net, ones)[1].tolist() == [1, 0, 1, 0]
